// Package mcp answers the methods of MCP (Model Context Protocol): each skill is a tool, and a slow skill is a task. It serves the
// version 2026-07-28 ("modern"), whose requests describe themselves, and the versions 2025-11-25, 2025-06-18 and 2025-03-26
// ("legacy") without sessions.
package mcp
