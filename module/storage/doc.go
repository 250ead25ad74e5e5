// Package storage keeps data in Caddy's storage: the keys of run tokens, the learned
// execution times, and the records of runs. Package bridge uses only the first two.
package storage
