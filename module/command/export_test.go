package command

import (
	"context"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// For the tests.
var (
	LimitMemory = limitMemory
	ShowUsage   = showUsage
	Span        = span
)

// AskAdmin asks an admin API for its status, and waits for some time.
func AskAdmin(ctx context.Context, address caddy.NetworkAddress, timeout time.Duration) error {
	return (&adminClient{address: address, timeout: timeout}).ask(ctx, http.MethodGet, "/skill_bridge/status", nil, nil)
}
