package bridge

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// check returns the first fault of a configuration that can be found without loading modules,
// whether the configuration was written in JSON or in a Caddyfile.
func (h *Handler) check() *options.ConfigError {
	c := new(options.Checker)
	if h.Name != "" {
		c.Check("name", options.CheckName("bridge", h.Name))
		c.Check("name", options.CheckLiteral("bridge name", h.Name))
	}
	h.Mounts.Check(c)
	if h.Browse != nil && h.Any() && h.RPC == nil {
		c.Check("browse", errors.New("browse needs the option rpc: the page is served at its path, and runs skills with it"))
	}
	h.Sources.Check(c, h.AllowHTTP, h.requires() || h.AllowAnonymous)
	h.Callers.check(c, h.AllowHTTP)
	if h.Caller != nil {
		c.Check("caller.id", checkCaller(options.Globals.ReplaceAllString(h.Caller.ID, ""), h.placeholder()))
		c.Check("caller.type", checkCaller(options.Globals.ReplaceAllString(h.Caller.Type, ""), h.placeholder()))
	}
	if c.Fault == nil {
		h.checkConnect(c)
		names := h.Names()
		h.Access.check(c, &names, h.Quotas)
		h.checkQuotas(c, &names)
	}
	if h.MCP != nil && len(h.MCP.Scopes) > 0 && len(h.MCP.AuthorizationServer) == 0 && len(h.CallersJWT) == 0 {
		c.Check("mcp.scopes", errors.New("scopes need an authorization_server that grants them"))
	}
	if h.CallersFile != "" && len(h.CallersJWT) == 0 && h.MCP != nil && len(h.MCP.AuthorizationServer) > 0 {
		c.Check("callers_file", errors.New("callers_file and the authorization_server of mcp exclude each other: the bridge accepts the keys in the file, and no tokens of the server"))
	}
	switch h.Priority {
	case "", skillsharing.PriorityLow, skillsharing.PriorityNormal, skillsharing.PriorityHigh:
	default:
		c.Check("priority", fmt.Errorf("priority %q is none of low, normal and high", h.Priority))
	}
	h.Options.Check(c)
	h.Timing.check(c)
	h.Cache.check(c)
	h.Bounds.check(c)
	h.CircuitBreaker.check(c)
	h.Network.check(c)
	return c.Fault
}

// checkConnect checks what users need to connect accounts of their own.
func (h *Handler) checkConnect(c *options.Checker) {
	for _, path := range h.Personal() {
		if h.Connect == nil {
			c.Check(path, errors.New("credentials oauth2_user need the option connect, the pages on which users connect their accounts: connect { url https://<host>/connect }"))
		}
		if h.SealKey == "" {
			c.Check(path, errors.New("credentials oauth2_user need the option seal_key, with which the tokens of users are encrypted in the database: "+
				"openssl rand -base64 32 makes one; write it to a file, and seal_key {file./path/to/it}"))
		}
	}
	if h.Connect != nil && h.Connect.Principal == "" && h.byToken() {
		c.Check("connect.principal", errors.New("connect needs its own principal beside callers_file and callers_jwt: browsers send neither a key nor a token, so that the bridge does not know whose they are; "+
			"authenticate them in front of it, for example with basic_auth for the path of connect, and write principal {http.auth.user.id} in the block of connect"))
	}
}

// amount is a number, size or duration of the configuration.
type amount struct {
	path  string // in the JSON config
	value any
}

func checkAmounts(c *options.Checker, amounts []amount) {
	for _, a := range amounts {
		c.Check(a.path, checkAmount(a.path[strings.LastIndex(a.path, ".")+1:], a.value))
	}
}

// checkAmount checks a value. 0 stands for the default.
func checkAmount(name string, value any) error {
	switch v := value.(type) {
	case int:
		if v < 0 {
			return fmt.Errorf("%s %d is negative", name, v)
		}
	case int64:
		switch {
		case v < 0:
			return fmt.Errorf("%s %d is negative", name, v)
		case v == math.MaxInt64: // so that limit+1 does not overflow
			return fmt.Errorf("%s %d is too large", name, v)
		}
	case caddy.Duration:
		if v != 0 && time.Duration(v) < time.Millisecond {
			return fmt.Errorf("%s %s is too short: the minimum is 1ms", name, options.Shown(v))
		}
	case *caddy.Duration:
		if v != nil && *v < 0 {
			return fmt.Errorf("%s %s is negative", name, options.Shown(*v))
		}
	}
	return nil
}

// checkSpan checks a duration against its maximum.
func checkSpan(c *options.Checker, name string, value, limit time.Duration) {
	switch {
	case limit < time.Millisecond:
		c.Check("max_"+name, fmt.Errorf("maximum of %s %s is too short: the minimum is 1ms", name, options.Shown(limit)))
	case value > limit:
		c.Check(name, fmt.Errorf("%s %s is longer than its maximum of %s", name, options.Shown(value), options.Shown(limit)))
	}
}

// byDefaultText returns the text that says that a value is the default.
func byDefaultText(byDefault bool) string {
	if byDefault {
		return " by default"
	}
	return ""
}
