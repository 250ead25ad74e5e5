package demo

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
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
//		origin   <url>
//		api_key  <key>
//		client   <id> <secret>   # repeatable
//		run_time <duration>      # default 3s
//		announce <url>           # of a bridge: printed when Caddy has started
//	}
//
// An unknown option, a missing or superfluous value, a repeated option other
// than client, and a bad duration are errors that name file and line.
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	if d.NextArg() {
		return d.ArgErr()
	}
	seen := make(map[string]bool)
	for d.NextBlock(0) {
		option := d.Val()
		if seen[option] && option != "client" {
			return d.Errf("%s is given twice", option)
		}
		seen[option] = true

		switch args := d.RemainingArgs(); option {
		case "origin":
			if len(args) != 1 {
				return d.Errf("origin takes one URL, got %d arguments", len(args))
			}
			h.Origin = args[0]
		case "api_key":
			if len(args) != 1 {
				return d.Errf("api_key takes one key, got %d arguments", len(args))
			}
			h.APIKey = args[0]
		case "announce":
			if len(args) != 1 {
				return d.Errf("announce takes one URL, got %d arguments", len(args))
			}
			h.Announce = args[0]
		case "client":
			if len(args) != 2 {
				return d.Errf("client takes an id and a secret, got %d arguments", len(args))
			}
			h.Clients = append(h.Clients, Client{ID: args[0], Secret: args[1]})
		case "run_time":
			if len(args) != 1 {
				return d.Errf("run_time takes one duration, got %d arguments", len(args))
			}
			runTime, err := caddy.ParseDuration(args[0])
			if err != nil {
				return d.Errf("run_time: %v", err)
			}
			if runTime <= 0 || runTime > maxRunTime {
				return d.Errf("run_time %s is out of range: it must be positive and at most %s", args[0], maxRunTime)
			}
			h.RunTime = caddy.Duration(runTime)
		default:
			return d.Errf("unknown option %q of %s: it must be origin, api_key, client, run_time or announce", option, directive)
		}
	}
	return nil
}

var _ caddyfile.Unmarshaler = (*Handler)(nil)
