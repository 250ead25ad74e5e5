package command

import (
	"context"
	"net/http"

	"github.com/caddyserver/caddy/v2"
)

// For the tests.
var (
	LimitMemory = limitMemory
	ShowUsage   = showUsage
	Span        = span
)

// AskAdmin asks an admin API for its status.
func AskAdmin(ctx context.Context, address caddy.NetworkAddress) error {
	return (&adminClient{address: address}).ask(ctx, http.MethodGet, "/skill_bridge/status", nil, nil)
}
