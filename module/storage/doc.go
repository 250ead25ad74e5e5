// Package storage keeps the records of runs in Caddy's storage, and which runs were canceled.
package storage
