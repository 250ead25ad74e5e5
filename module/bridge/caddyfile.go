package bridge

import (
	"encoding/json" // Caddy's matchers are made for it
	"errors"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/skill-bridge/caddy-skill-bridge/module/browse"
	"github.com/skill-bridge/caddy-skill-bridge/module/callers"
	"github.com/skill-bridge/caddy-skill-bridge/module/network"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
)

const directive = "skill_bridge"

func init() {
	httpcaddyfile.RegisterDirective(directive, parseCaddyfile)
	httpcaddyfile.RegisterDirectiveOrder(directive, httpcaddyfile.Before, "reverse_proxy")
}

// parseCaddyfile does what RegisterHandlerDirective does, and checks the matcher of the directive.
func parseCaddyfile(helper httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
	helper.Next()
	place := strings.TrimPrefix(helper.WrapErr(errors.New("")).Error(), ", at ")
	matcher := ""
	if helper.NextArg() {
		matcher = helper.Val()
		helper.Prev()
	}
	matchers, err := helper.ExtractMatcherSet()
	if err != nil {
		return nil, err
	}
	h := new(Handler)
	name := func() error { return nameDirective(h, helper, matcher, place) }
	if helper.IsNamedRoute() { // it knows nothing of the sites, so its bridge is not taken for one of them
		name = nil
	}
	if err := h.read(helper.Dispenser, name); err != nil {
		return nil, err
	}
	var paths caddyhttp.MatchPath
	if raw, ok := matchers["path"]; ok && json.Unmarshal(raw, &paths) == nil && h.Any() && !h.Reached(paths) {
		helper.Reset()
		helper.Next()
		return nil, helper.Errf("the matcher of %s lets no request through to its mounts (%s): remove the matcher, since the bridge passes requests for other paths on",
			directive, strings.Join(h.Paths(), ", "))
	}
	return helper.NewRoute(matchers, h), nil
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	skill_bridge [<matcher>] {
//		provider <origin> {
//			namespace             <name>
//			alias                 <name> <skill-id>
//			trust                 <host[:port]>...
//			credentials           <module> ... { ... }
//			discovery_credentials <module> ... { ... }
//			capability_types      <type>...
//			require_principal
//			on_change             warn|hold|off
//			transport             http { ... }
//		}
//		skill <name> <descriptor-url> {
//			trust             <host[:port]>...
//			credentials       <module> ... { ... }
//			require_principal
//			on_change         warn|hold|off
//			transport         http { ... }
//		}
//		registry <url> {
//			namespace             <name>
//			capability_types      <type>...
//			discovery_credentials <module> ... { ... }
//			require_principal
//			on_change             warn|hold|off
//		}
//		agent_skills <origin> {
//			namespace             <name>
//			alias                 <name> <skill-id>
//			trust                 <host[:port]>...
//			discovery_credentials <module> ... { ... }
//			require_principal
//			transport             http { ... }
//		}
//
//		rpc [<path>]
//		a2a [<path>] {
//			url           <url>
//			name          <text>
//			description   <text>
//			organization  <text>
//			documentation <url>
//			icon          <url>
//			versions      1.0|0.3|0.1...
//			card          combined|1.0|0.3
//			sign          <pem-file> [<key-id>]
//			extended_card
//			security      <name> http <scheme>|api_key <in> <name>|openid <url>|mutual_tls
//			default_skill <skill>
//			reply_message <skill>...
//			cancel        refuse|abandon
//		}
//		mcp [<path>] {
//			name         <text>
//			instructions <text>
//			versions     2026-07-28|2025-11-25|2025-06-18|2025-03-26...
//			task_after   <duration>|off
//			validate     on|off
//			catalog      list|search
//			origins      <origin>...
//			authorization_server <issuer>...
//			scopes       <scope>...
//		}
//
//		wait <duration>
//
//		connect [<path>] {
//			url       <url>
//			principal <text>
//		}
//
//		health [<path>]
//
//		webhooks {
//			secrets        <secret>...
//			allow_http
//			allow_networks <cidr>...|private_ranges
//			allow_ports    <port>...|any
//		}
//
//		agent_skills {
//			url <url>
//		}
//
//		name              <name>
//		caller            <id> [<type>]
//		principal         <placeholder>
//		callers_file      <path>
//		callers_jwt       <issuer> {
//			audience  <uri>...
//			principal <claim>
//			prefix    <text>
//			scopes    <scope>...
//		}
//		require_principal | allow_anonymous
//		access {
//			group <name> <principal>...
//			allow <principal|group|*> <skill-pattern>...
//			deny  <principal|group|*> <skill-pattern>...
//		}
//		quota <principal|group|*> [<skill-pattern>] {
//			rate       <calls> <duration>
//			concurrent <n>
//			runs       <n> <duration>
//		}
//		browse
//		priority          low|normal|high
//		store             sqlite [<file>] | postgres <dsn> | memory
//		keep              <duration> [<n> [<per principal>]]
//		seal_key          <secret> [<old>]
//		timeout           <default> [<max>]
//		poll_interval     <initial> [<max>]
//		cache {
//			max_size       <size>
//			ttl            <duration>
//			max_ttl        <duration>
//			stale_if_error <duration>
//			negative_ttl   <duration>
//		}
//		max_request_size  <size>
//		max_response_size <size>
//		max_batch         <n>
//		limits {
//			runs          <n> [<per provider>]
//			document_size <size>
//			schema_size   <size>
//			output_size   <size>
//			memory        <size>
//		}
//		circuit_breaker   off | {
//			failures <n>
//			cooldown <duration>
//		}
//		audit
//		allow_http
//		allow_networks    <cidr>...|private_ranges
//		allow_ports       <port>...
//		transport         http { ... }
//	}
//
// A host of trust is *.example.com for all subdomains of example.com.
//
// The lines provider, skill, registry, agent_skills with an origin, callers_jwt, quota, alias, trust, capability_types,
// allow_networks and allow_ports may be repeated. Every error names file and line.
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error { return h.read(d, nil) }

// read reads the directive. name names the handler; nil: it may have no name.
func (h *Handler) read(d *caddyfile.Dispenser, name func() error) error {
	p := parser{options.NewReader(d)}
	if d.NextArg() {
		return d.Errf("unexpected argument %q after %s: its options go into a block", d.Val(), directive)
	}
	if err := p.handler(h); err != nil {
		return err
	}
	if fault := h.check(); fault != nil {
		return p.At(fault.Path, fault.Err)
	}
	if name != nil {
		if err := name(); err != nil {
			return err
		}
	}
	p.Remember(h)
	return nil
}

// parser parses the options of the handler.
type parser struct{ *options.Reader }

func (p parser) handler(h *Handler) error {
	targets := p.Of(h, options.Targets{
		"callers_jwt": options.Repeatable(func() error {
			h.CallersJWT = append(h.CallersJWT, callers.Issuer{})
			n := len(h.CallersJWT) - 1
			return h.CallersJWT[n].Read(p.Reader, options.Element("callers_jwt", n))
		}),
		"quota":          options.Repeatable(func() error { return p.quota(&h.Quotas) }),
		"browse":         func() error { h.Browse = new(browse.Config); return p.NoArgs() },
		"timeout":        p.span("timeout", &h.Timeout, &h.MaxTimeout),
		"poll_interval":  p.span("poll_interval", &h.PollInterval, &h.MaxPollInterval),
		"allow_networks": network.ReadNetworks(p.Reader, "allow_networks", &h.AllowNetworks),
		"allow_ports":    network.ReadPorts(p.Reader, "allow_ports", &h.AllowPorts, nil),
		"transport":      network.ReadTransport(p.Reader, &h.TransportRaw),
	})
	targets["agent_skills"] = h.Sources.ReadSite(p.Reader, targets["agent_skills"].(func() error))
	return p.Block(directive, "", targets)
}

// Read reads the option caller.
func (c *Caller) Read(r *options.Reader) error {
	return r.Args("caller", "an id and optionally a type", 1, &c.ID, &c.Type)
}

// Targets returns the options of the block limits.
func (l *Limits) Targets(r *options.Reader) options.Targets {
	return r.Of(l, options.Targets{"runs": func() error {
		r.Mark("limits.runs_per_provider")
		return r.Args("runs", "a number and optionally another for each provider", 1, &l.Runs, &l.RunsPerProvider)
	}})
}

// Read reads the option circuit_breaker.
func (b *CircuitBreaker) Read(r *options.Reader) error {
	args := r.RemainingArgs()
	switch {
	case len(args) == 1 && args[0] == "off":
		b.Off = true
		return nil // a block after it is a syntax error
	case len(args) > 0:
		return r.Errf("circuit_breaker takes either the word off or a block, but has %q", strings.Join(args, " "))
	}
	err := r.Block("circuit_breaker", "circuit_breaker", r.Of(b, nil))
	if err == nil && *b == (CircuitBreaker{}) {
		err = errors.New("circuit_breaker takes either the word off or a block with failures or cooldown; it has neither")
		return r.At("circuit_breaker", err)
	}
	return err
}

// span parses a duration and an optional maximum.
func (p parser) span(name string, to, limit *caddy.Duration) func() error {
	return func() error {
		p.Mark("max_" + name)
		return p.Args(name, "a duration and optionally a maximum", 1, to, limit)
	}
}

var _ caddyfile.Unmarshaler = (*Handler)(nil)
