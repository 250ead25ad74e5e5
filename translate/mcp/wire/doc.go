// Package wire reads and writes what the versions of MCP have in common: header fields, JSON values, definitions of tools and content.
package wire
