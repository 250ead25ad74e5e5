// Package storage keeps the records of runs in Caddy's storage.
package storage
