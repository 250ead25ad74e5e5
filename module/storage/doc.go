// Package storage keeps data in Caddy's storage: the keys of run tokens and what was
// learned of execution times. Package bridge holds both for as long as it runs.
package storage
