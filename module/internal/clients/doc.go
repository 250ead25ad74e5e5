// Package clients has tests that call the bridge with clients of A2A that others wrote: that of a2a-go, and
// that of @a2a-js/sdk.
//
// It is a module of its own, so that the bridge's go.mod does not require a client. Run the tests with
//
//	SKILL_BRIDGE_CLIENT_TESTS=1 go test -C module/internal/clients ./...
//
// The variable lets the JavaScript test install its SDK with npm.
package clients
