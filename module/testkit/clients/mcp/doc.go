// Package mcp has tests that call the bridge with clients of MCP that others wrote: that of the Go SDK, that of the TypeScript SDK, and
// the MCP Inspector. They connect over HTTP, and to the command `caddy skill-bridge mcp` over standard input and output.
package mcp
