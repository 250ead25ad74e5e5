// Package clients has tests that call the bridge with clients of A2A that others wrote: that of a2a-go, and
// that of @a2a-js/sdk. The tests of package mcp do the same for MCP.
//
// This is a module of its own, so that the bridge's go.mod does not require a client. Run the tests with
//
//	SKILL_BRIDGE_CLIENT_TESTS=1 go test -C module/testkit/clients ./...
//
// The variable lets the JavaScript tests install their SDKs with npm.
package clients
