package attacks_test

import (
	"context"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

func init() { caddy.RegisterModule(new(panicking)) }

// panicking are credentials with a bug, as those of other plugins may have.
type panicking struct {
	Secret string `json:"secret"`
}

// CaddyModule implements caddy.Module.
func (*panicking) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.skill_bridge.credentials.panicking", New: func() caddy.Module { return new(panicking) }}
}

// UnmarshalCaddyfile implements caddyfile.Unmarshaler.
func (p *panicking) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // its name
	for d.NextBlock(0) {
		if !d.NextArg() {
			return d.ArgErr()
		}
		p.Secret = d.Val()
	}
	return nil
}

func (p *panicking) Supports(*document.Auth) bool { return true }

func (p *panicking) Authenticate(_ context.Context, a *credential.Authentication) error {
	secret := caddy.NewReplacer().ReplaceAll(p.Secret, "")
	a.Request.Header.Set("X-Key", secret)
	panic("a bug of other credentials")
}

func (p *panicking) Secrets() []string { return []string{caddy.NewReplacer().ReplaceAll(p.Secret, "")} }
