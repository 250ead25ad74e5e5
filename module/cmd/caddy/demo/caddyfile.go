package demo

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/skill-bridge/caddy-skill-bridge/module/options"
)

const directive = "skill_bridge_demo"

func init() {
	httpcaddyfile.RegisterHandlerDirective(directive, parseCaddyfile)
	httpcaddyfile.RegisterDirectiveOrder(directive, httpcaddyfile.Before, "respond")
}

func parseCaddyfile(helper httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	h := new(Handler)
	return h, h.UnmarshalCaddyfile(helper.Dispenser)
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	skill_bridge_demo [<matcher>] {
//		api_key  <key>
//		client   <id> <secret>
//		run_time <duration>      # default 3s
//	}
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	r := options.NewReader(d)
	if err := r.NoArgs(); err != nil {
		return err
	}
	if err := r.Block(directive, "", r.Of(h, options.Targets{
		"client": func() error {
			return r.Args("client", "an id and a secret", 2, &h.Client.ID, &h.Client.Secret)
		},
	})); err != nil {
		return err
	}
	return r.At("run_time", h.checkRunTime())
}

var _ caddyfile.Unmarshaler = (*Handler)(nil)
