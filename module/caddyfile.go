package skillbridge

import (
	"encoding/json" // for Caddy's raw modules
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/dustin/go-humanize"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

const directive = "skill_bridge"

func init() {
	httpcaddyfile.RegisterHandlerDirective(directive, parseCaddyfile)
	httpcaddyfile.RegisterDirectiveOrder(directive, httpcaddyfile.Before, "reverse_proxy")
}

func parseCaddyfile(helper httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	h := new(Handler)
	return h, h.UnmarshalCaddyfile(helper.Dispenser)
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	skill_bridge [<matcher>] {
//		provider <origin> {
//			namespace             <name>
//			alias                 <name> <skill-id>
//			trust                 <host[:port]>...
//			trust_registry        <namespace>...
//			credentials           <module> ... { ... }
//			discovery_credentials <module> ... { ... }
//			capability_types      <type>...
//			list_private
//			prefer_wait           <duration>
//			require_principal
//			transport             http { ... }
//		}
//		skill <name> <descriptor-url> {
//			trust             <host[:port]>...
//			credentials       <module> ... { ... }
//			prefer_wait       <duration>
//			require_principal
//			transport         http { ... }
//		}
//		registry <url> {
//			namespace             <name>
//			capability_types      <type>...
//			discovery_credentials <module> ... { ... }
//			require_principal
//		}
//
//		name              <name>
//		caller            <id> [<type>]
//		principal         <placeholder>
//		require_principal | allow_anonymous
//		browse            [<template-file>]
//		priority          low|normal|high
//		timeout           <default> [<max>]
//		poll              adaptive|fixed|backoff ...
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
//			depth             <n>
//			document_size     <size>
//			skills            <n>
//			parameters        <n>
//			schema_size       <size>
//			schema_complexity <n>
//			argument_complexity <n>
//			output_size       <size>
//			answer_size       <size>
//			answers           <size>
//			body_timeout      <duration>
//			connection_overhead <size>
//			runs              <n> [<per provider>]
//			reads             <n>
//			failed_reads      <n>
//			polls             <n>
//			waiting           <n>
//		}
//		circuit_breaker   off | {
//			failures <n>
//			cooldown <duration>
//		}
//		retry_budget      <percent>
//		audit
//		allow_http
//		allow_networks    <cidr>...|private_ranges
//		allow_ports       <port>...
//		transport         http { ... }
//	}
//
// A host of trust is *.example.com for all subdomains of example.com.
//
// The lines provider, skill, registry, alias, trust, trust_registry, capability_types,
// allow_networks and allow_ports may be repeated. Every error names file and line.
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	p := &parser{Dispenser: d, places: make(map[string]*caddyfile.Dispenser)}
	p.mark("")
	if d.NextArg() {
		return d.Errf("unexpected argument %q after %s: its options go into a block", d.Val(), directive)
	}
	if err := p.handler(h); err != nil {
		return err
	}
	if fault := h.check(); fault != nil {
		return p.place(fault.path).WrapErr(fault.err)
	}
	return nil
}

// parser reads the tokens of one directive.
type parser struct {
	*caddyfile.Dispenser
	// places says where the value of each JSON path was written.
	places map[string]*caddyfile.Dispenser
}

// mark remembers that the value of a JSON path is written here.
func (p *parser) mark(path string) {
	here := caddyfile.NewDispenser([]caddyfile.Token{p.Token()})
	here.Next()
	p.places[path] = here
}

// place returns where the value of a JSON path was written, or else what it is part of.
func (p *parser) place(path string) *caddyfile.Dispenser {
	for {
		if place, ok := p.places[path]; ok {
			return place
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
}

// option reads one option; the current token is its name.
type option func() error

// block reads the options of a block, if there is one. An option may be written
// once, unless it is among the repeatable ones.
func (p *parser) block(owner string, options map[string]option, repeatable ...string) error {
	written := make(map[string]bool)
	for nesting := p.Nesting(); p.NextBlock(nesting); {
		name := p.Val()
		read, ok := options[name]
		switch {
		case !ok && (name == "{" || name == "}"):
			return p.Errf("unexpected %q: the option before it takes no block", name)
		case !ok:
			known := slices.Sorted(maps.Keys(options))
			return p.Errf("unknown option %q of %s: it has %s", name, owner, strings.Join(known, ", "))
		case written[name] && !slices.Contains(repeatable, name):
			return p.Errf("%s is given twice for %s", name, owner)
		}
		written[name] = true
		if err := read(); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) handler(h *Handler) error {
	return p.block(directive, map[string]option{
		"provider":          func() error { return p.provider(h) },
		"skill":             func() error { return p.skill(h) },
		"registry":          func() error { return p.registry(h) },
		"name":              p.text(&h.Name, "name"),
		"caller":            func() error { return p.caller(&h.Caller) },
		"principal":         p.text(&h.Principal, "principal"),
		"require_principal": p.flag(&h.RequirePrincipal, "require_principal"),
		"allow_anonymous":   p.flag(&h.AllowAnonymous, "allow_anonymous"),
		"browse":            func() error { return p.browse(&h.Browse) },
		"priority":          p.text(&h.Priority, "priority"),
		"timeout":           p.span(&h.Timeout, &h.MaxTimeout, "timeout"),
		"poll":              func() error { return p.poll(&h.Poll) },
		"poll_interval":     p.span(&h.PollInterval, &h.MaxPollInterval, "poll_interval"),
		"cache":             func() error { return p.cache(&h.Cache) },
		"max_request_size":  p.size(&h.MaxRequestSize, "max_request_size"),
		"max_response_size": p.size(&h.MaxResponseSize, "max_response_size"),
		"max_batch":         p.count(&h.MaxBatch, "max_batch"),
		"limits":            func() error { return p.limits(&h.Limits) },
		"circuit_breaker":   func() error { return p.circuitBreaker(&h.CircuitBreaker) },
		"retry_budget":      p.percentage(&h.RetryBudget, "retry_budget"),
		"audit":             p.flag(&h.Audit, "audit"),
		"allow_http":        p.flag(&h.AllowHTTP, "allow_http"),
		"allow_networks":    p.list(&h.AllowNetworks, "allow_networks", expandNetwork),
		"allow_ports":       p.ports(&h.AllowPorts),
		"transport":         p.transport(&h.TransportRaw, "transport"),
	}, "provider", "skill", "registry", "allow_networks", "allow_ports")
}

func (p *parser) provider(h *Handler) error {
	v := new(Provider)
	path := element("providers", len(h.Providers))
	p.mark(path)
	if err := p.args("an origin, such as https://skills.example.com", &v.Origin); err != nil {
		return err
	}
	h.Providers = append(h.Providers, v)
	return p.block("provider", map[string]option{
		"namespace":             p.text(&v.Namespace, path+".namespace"),
		"alias":                 func() error { return p.alias(v, path) },
		"trust":                 p.list(&v.Trust, path+".trust", nil),
		"trust_registry":        p.list(&v.TrustRegistry, path+".trust_registry", nil),
		"credentials":           p.credentials(&v.CredentialsRaw, path+".credentials"),
		"discovery_credentials": p.credentials(&v.DiscoveryCredentialsRaw, path+".discovery_credentials"),
		"capability_types":      p.list(&v.CapabilityTypes, path+".capability_types", nil),
		"list_private":          p.flag(&v.ListPrivate, path+".list_private"),
		"prefer_wait":           p.duration(&v.PreferWait, path+".prefer_wait"),
		"require_principal":     p.flag(&v.RequirePrincipal, path+".require_principal"),
		"transport":             p.transport(&v.TransportRaw, path+".transport"),
	}, "alias", "trust", "trust_registry", "capability_types")
}

func (p *parser) alias(v *Provider, path string) error {
	p.mark(element(path+".aliases", len(v.Aliases)))
	var a Alias
	if err := p.args("a name and a skill's id", &a.Name, &a.SkillID); err != nil {
		return err
	}
	v.Aliases = append(v.Aliases, a)
	return nil
}

func (p *parser) skill(h *Handler) error {
	v := new(Skill)
	path := element("skills", len(h.Skills))
	p.mark(path)
	if err := p.args("a name and the URL of a descriptor", &v.Name, &v.URL); err != nil {
		return err
	}
	h.Skills = append(h.Skills, v)
	return p.block("skill", map[string]option{
		"trust":             p.list(&v.Trust, path+".trust", nil),
		"credentials":       p.credentials(&v.CredentialsRaw, path+".credentials"),
		"prefer_wait":       p.duration(&v.PreferWait, path+".prefer_wait"),
		"require_principal": p.flag(&v.RequirePrincipal, path+".require_principal"),
		"transport":         p.transport(&v.TransportRaw, path+".transport"),
	}, "trust")
}

func (p *parser) registry(h *Handler) error {
	v := new(Registry)
	path := element("registries", len(h.Registries))
	p.mark(path)
	if err := p.args("a URL", &v.URL); err != nil {
		return err
	}
	h.Registries = append(h.Registries, v)
	return p.block("registry", map[string]option{
		"namespace":             p.text(&v.Namespace, path+".namespace"),
		"capability_types":      p.list(&v.CapabilityTypes, path+".capability_types", nil),
		"discovery_credentials": p.credentials(&v.DiscoveryCredentialsRaw, path+".discovery_credentials"),
		"require_principal":     p.flag(&v.RequirePrincipal, path+".require_principal"),
	}, "capability_types")
}

func (p *parser) caller(to **Caller) error {
	args := p.RemainingArgs()
	if len(args) < 1 || len(args) > 2 {
		return p.Errf("caller takes an id and, if wanted, a type (arguments given: %d)", len(args))
	}
	if slices.Contains(args, "") {
		return p.Err("caller has an empty argument")
	}
	*to = &Caller{ID: args[0]}
	if len(args) == 2 {
		(*to).Type = args[1]
	}
	return nil
}

func (p *parser) browse(to **Browse) error {
	p.mark("browse")
	args := p.RemainingArgs()
	if len(args) > 1 {
		return p.Errf("browse takes the file of a template, if wanted (arguments given: %d)", len(args))
	}
	*to = new(Browse)
	if len(args) == 1 {
		if args[0] == "" {
			return p.Err("browse has an empty argument; leave it out to use the bridge's own template")
		}
		(*to).TemplateFile = args[0]
	}
	return nil
}

func (p *parser) poll(to **Poll) error {
	p.mark("poll")
	args := p.RemainingArgs()
	if len(args) == 0 {
		return p.Errf("poll takes %s, %s or %s", pollAdaptive, pollFixed, pollBackoff)
	}
	v := &Poll{Mode: args[0]}
	*to = v
	targets := map[string][]*caddy.Duration{pollAdaptive: {&v.Price}, pollFixed: {&v.Interval}, pollBackoff: {&v.Interval, &v.MaxInterval}}[v.Mode]
	given := args[1:]
	if targets != nil && (len(given) > len(targets) || len(given) == 0 && v.Mode != pollAdaptive) {
		return p.Errf("poll %s takes %s (arguments given: %d)", v.Mode, map[string]string{
			pollAdaptive: "a price, if wanted", pollFixed: "an interval", pollBackoff: "an interval and, if wanted, a maximum",
		}[v.Mode], len(given))
	}
	for i, target := range targets[:min(len(given), len(targets))] {
		d, err := p.parseDuration("poll "+v.Mode, given[i])
		if err != nil {
			return err
		}
		if d <= 0 {
			return p.Errf("poll %s %q has to be longer than 0", v.Mode, given[i])
		}
		*target = caddy.Duration(d)
	}
	return nil
}

func (p *parser) cache(to **Cache) error {
	if err := p.noArgs("cache"); err != nil {
		return err
	}
	c := new(Cache)
	*to = c
	return p.block("cache", map[string]option{
		"max_size":       p.size(&c.MaxSize, "cache.max_size"),
		"ttl":            p.durationOrZero(&c.TTL, "cache.ttl"),
		"max_ttl":        p.duration(&c.MaxTTL, "cache.max_ttl"),
		"stale_if_error": p.durationOrZero(&c.StaleIfError, "cache.stale_if_error"),
		"negative_ttl":   p.durationOrZero(&c.NegativeTTL, "cache.negative_ttl"),
	})
}

func (p *parser) limits(to **Limits) error {
	if err := p.noArgs("limits"); err != nil {
		return err
	}
	l := new(Limits)
	*to = l
	return p.block("limits", map[string]option{
		"depth":               p.count(&l.Depth, "limits.depth"),
		"document_size":       p.size(&l.DocumentSize, "limits.document_size"),
		"skills":              p.count(&l.Skills, "limits.skills"),
		"parameters":          p.count(&l.Parameters, "limits.parameters"),
		"schema_size":         p.size(&l.SchemaSize, "limits.schema_size"),
		"argument_complexity": p.count(&l.ArgumentComplexity, "limits.argument_complexity"),
		"schema_complexity":   p.count(&l.SchemaComplexity, "limits.schema_complexity"),
		"output_size":         p.size(&l.OutputSize, "limits.output_size"),
		"answer_size":         p.size(&l.AnswerSize, "limits.answer_size"),
		"answers":             p.size(&l.Answers, "limits.answers"),
		"body_timeout":        p.duration(&l.BodyTimeout, "limits.body_timeout"),
		"connection_overhead": p.size(&l.ConnectionOverhead, "limits.connection_overhead"),
		"runs":                func() error { return p.runs(l) },
		"reads":               p.count(&l.Reads, "limits.reads"),
		"failed_reads":        p.count(&l.FailedReads, "limits.failed_reads"),
		"polls":               p.count(&l.Polls, "limits.polls"),
		"waiting":             p.count(&l.Waiting, "limits.waiting"),
	})
}

// runs reads how many calls may be in progress and, if it is there, how many of
// them may concern one provider.
func (p *parser) runs(l *Limits) error {
	p.mark("limits.runs")
	p.mark("limits.runs_per_provider")
	args := p.RemainingArgs()
	if len(args) < 1 || len(args) > 2 {
		return p.Errf("runs takes a number and, if wanted, another for each provider (arguments given: %d)", len(args))
	}
	for i, target := range []*int{&l.Runs, &l.RunsPerProvider}[:len(args)] {
		n, err := p.parseCount("runs", args[i])
		if err != nil {
			return err
		}
		*target = n
	}
	return nil
}

// circuitBreaker reads the word off, or a block that says something.
func (p *parser) circuitBreaker(to **CircuitBreaker) error {
	p.mark("circuit_breaker")
	b := new(CircuitBreaker)
	*to = b
	args := p.RemainingArgs()
	switch {
	case len(args) == 1 && args[0] == "off":
		b.Off = true
		return nil // a block is unexpected then
	case len(args) > 0:
		return p.Errf("circuit_breaker takes either the word off or a block, but has %q", strings.Join(args, " "))
	}
	err := p.block("circuit_breaker", map[string]option{
		"failures": p.count(&b.Failures, "circuit_breaker.failures"),
		"cooldown": p.duration(&b.Cooldown, "circuit_breaker.cooldown"),
	})
	if err == nil && *b == (CircuitBreaker{}) {
		return p.place("circuit_breaker").Err("circuit_breaker takes either the word off or a block with failures or cooldown; it has neither")
	}
	return err
}

// args reads exactly as many arguments as there are targets.
func (p *parser) args(what string, targets ...*string) error {
	name := p.Val()
	args := p.RemainingArgs()
	if len(args) != len(targets) {
		return p.Errf("%s takes %s (arguments given: %d)", name, what, len(args))
	}
	for i, target := range targets {
		if args[i] == "" {
			return p.Errf("%s has an empty argument; it takes %s", name, what)
		}
		*target = args[i]
	}
	return nil
}

func (p *parser) noArgs(name string) error {
	if p.NextArg() {
		return p.Errf("%s takes no argument, but has %q", name, p.Val())
	}
	return nil
}

func (p *parser) flag(to *bool, path string) option {
	return func() error {
		p.mark(path)
		*to = true
		return p.noArgs(p.Val())
	}
}

func (p *parser) text(to *string, path string) option {
	return func() error {
		p.mark(path)
		return p.args("one value", to)
	}
}

// list reads one or more values and adds them to those read before. Each may
// stand for several others.
func (p *parser) list(to *[]string, path string, expand func(string) []string) option {
	return func() error {
		name := p.Val()
		args := p.RemainingArgs()
		if len(args) == 0 {
			return p.Errf("%s takes at least one value", name)
		}
		for _, arg := range args {
			if arg == "" {
				return p.Errf("%s has an empty value", name)
			}
			values := []string{arg}
			if expand != nil {
				values = expand(arg)
			}
			for _, value := range values {
				p.mark(element(path, len(*to)))
				*to = append(*to, value)
			}
		}
		return nil
	}
}

// expandNetwork is the shortcut that Caddy's own options have, too.
func expandNetwork(text string) []string {
	if text == "private_ranges" {
		return caddyhttp.PrivateRangesCIDR()
	}
	return []string{text}
}

func (p *parser) ports(to *[]int) option {
	return func() error {
		args := p.RemainingArgs()
		if len(args) == 0 {
			return p.Err("allow_ports takes at least one port")
		}
		for _, arg := range args {
			port, err := strconv.Atoi(arg)
			if err != nil {
				return p.Errf("port %q is not a number from 1 to 65535", arg)
			}
			p.mark(element("allow_ports", len(*to)))
			*to = append(*to, port)
		}
		return nil
	}
}

func (p *parser) count(to *int, path string) option {
	return func() error {
		p.mark(path)
		name := p.Val()
		var text string
		if err := p.args("a number", &text); err != nil {
			return err
		}
		n, err := p.parseCount(name, text)
		if err != nil {
			return err
		}
		*to = n
		return nil
	}
}

func (p *parser) parseCount(name, text string) (int, error) {
	n, err := strconv.Atoi(text)
	switch {
	case errors.Is(err, strconv.ErrRange) && n > 0:
		return 0, p.Errf("%s %q is too large", name, text)
	case err != nil || n < 1:
		return 0, p.Errf("%s %q is not a number of at least 1", name, text)
	}
	return n, nil
}

// percentage reads a share in percent, written with or without the sign. Zero is
// a share, too.
func (p *parser) percentage(to **int, path string) option {
	return func() error {
		p.mark(path)
		name := p.Val()
		var text string
		if err := p.args("a percentage, such as 20%", &text); err != nil {
			return err
		}
		n, err := strconv.Atoi(strings.TrimSuffix(text, "%"))
		if err != nil {
			return p.Errf("%s %q is not a percentage from 0 to 100, such as 20%%", name, text)
		}
		*to = &n
		return nil
	}
}

func (p *parser) size(to *int64, path string) option {
	return func() error {
		p.mark(path)
		name := p.Val()
		var text string
		if err := p.args("a size, such as 10MiB", &text); err != nil {
			return err
		}
		n, err := humanize.ParseBytes(text)
		switch {
		case err != nil:
			return p.Errf("%s %q is not a size, such as 10MiB: %w", name, text, err)
		case n == 0:
			return p.Errf("%s %q is too small: the least is 1B", name, text)
		case n > math.MaxInt64:
			return p.Errf("%s %q is too large", name, text)
		}
		*to = int64(n)
		return nil
	}
}

func (p *parser) duration(to *caddy.Duration, path string) option {
	return func() error {
		p.mark(path)
		name := p.Val()
		var text string
		if err := p.args("a duration, such as 30s", &text); err != nil {
			return err
		}
		d, err := p.parseDuration(name, text)
		if err != nil {
			return err
		}
		if d <= 0 {
			return p.Errf("%s %q has to be longer than 0", name, text)
		}
		*to = caddy.Duration(d)
		return nil
	}
}

func (p *parser) durationOrZero(to **caddy.Duration, path string) option {
	return func() error {
		p.mark(path)
		name := p.Val()
		var text string
		if err := p.args("a duration, such as 30s", &text); err != nil {
			return err
		}
		d, err := p.parseDuration(name, text)
		if err != nil {
			return err
		}
		value := caddy.Duration(d)
		*to = &value
		return nil
	}
}

// span reads a duration and, if it is there, the longest that is allowed.
func (p *parser) span(to, limit *caddy.Duration, path string) option {
	return func() error {
		p.mark(path)
		p.mark("max_" + path)
		name := p.Val()
		args := p.RemainingArgs()
		if len(args) < 1 || len(args) > 2 {
			return p.Errf("%s takes a duration and, if wanted, a maximum (arguments given: %d)", name, len(args))
		}
		for i, target := range []*caddy.Duration{to, limit}[:len(args)] {
			d, err := p.parseDuration(name, args[i])
			if err != nil {
				return err
			}
			if d <= 0 {
				return p.Errf("%s %q has to be longer than 0", name, args[i])
			}
			*target = caddy.Duration(d)
		}
		return nil
	}
}

func (p *parser) parseDuration(name, text string) (time.Duration, error) {
	d, err := caddy.ParseDuration(text)
	if err != nil {
		return 0, p.Errf("%s %q is not a duration, such as 500ms, 30s or 10m", name, text)
	}
	return d, nil
}

// credentials reads a module that authenticates requests.
func (p *parser) credentials(to *json.RawMessage, path string) option {
	return func() error {
		p.mark(path)
		option := p.Val()
		if !p.NextArg() {
			return p.Errf("%s takes a module, such as api_key", option)
		}
		name := p.Val()
		if _, err := caddy.GetModule(credentialsNamespace + "." + name); err != nil {
			return p.Errf("%s %q: no such module; there are %s", option, name, strings.Join(credentialModules(), ", "))
		}
		module, err := caddyfile.UnmarshalModule(p.Dispenser, credentialsNamespace+"."+name)
		if err != nil {
			return err
		}
		if _, ok := module.(skillsharing.Credentials); !ok {
			return p.Errf("%s %s: the module is no credentials", option, name)
		}
		return p.encode(to, module, "type", name)
	}
}

// credentialModules names the kinds of credentials in this build.
func credentialModules() []string {
	modules := caddy.GetModules(credentialsNamespace)
	names := make([]string, len(modules))
	for i, m := range modules {
		names[i] = m.ID.Name()
	}
	return names
}

func (p *parser) transport(to *json.RawMessage, path string) option {
	return func() error {
		p.mark(path)
		if !p.NextArg() {
			return p.Err("transport takes a module: http")
		}
		if name := p.Val(); name != transportName {
			return p.Errf("transport %s: %w", name, errTransport)
		}
		// Caddy's transport would ignore these.
		if p.CountRemainingArgs() > 0 {
			return p.Err("transport http takes no further argument: its options go into a block")
		}
		module, err := caddyfile.UnmarshalModule(p.Dispenser, transportModule)
		if err != nil {
			return err
		}
		return p.encode(to, module, "protocol", transportName)
	}
}

// encode writes a guest module's configuration as JSON, with its name inline.
func (p *parser) encode(to *json.RawMessage, module caddyfile.Unmarshaler, key, name string) error {
	var warnings []caddyconfig.Warning
	*to = caddyconfig.JSONModuleObject(module, key, name, &warnings)
	if len(warnings) > 0 {
		return p.Errf("%s: %s", name, warnings[0].Message)
	}
	return nil
}

var _ caddyfile.Unmarshaler = (*Handler)(nil)
