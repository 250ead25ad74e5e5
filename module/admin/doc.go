// Package admin adds paths to Caddy's admin API that show what the bridges of a process
// do and that purge documents. Package command asks them.
package admin
