package network

import (
	"encoding/json" // for Caddy's raw modules

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/skill-bridge/caddy-skill-bridge/module/options"
)

// ReadTransport returns a function that reads the option transport of a Caddyfile.
func ReadTransport(r *options.Reader, to *json.RawMessage) func() error {
	return func() error {
		if !r.NextArg() {
			return r.Err("transport takes a module: http")
		}
		if name := r.Val(); name != TransportName {
			return r.Errf("transport %s: %w", name, ErrTransport)
		}
		// Caddy's parser would ignore further arguments.
		if r.CountRemainingArgs() > 0 {
			return r.Err("transport http takes no more arguments: its options go into a block")
		}
		module, err := caddyfile.UnmarshalModule(r.Dispenser, TransportModule)
		if err != nil {
			return err
		}
		return r.Encode(to, module, "protocol", TransportName)
	}
}
