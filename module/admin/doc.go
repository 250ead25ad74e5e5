// Package admin adds paths to Caddy's admin API that show what the bridges of a process
// do and that purge documents. Package command sends requests to them.
package admin
