package credentials_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

func init() { caddy.RegisterModule(Tenant{}) }

// Tenant sends the name of a tenant with each request.
type Tenant struct {
	// The tenant's name.
	Name string `json:"name"`
}

var (
	_ credential.Credentials = (*Tenant)(nil)
	_ caddyfile.Unmarshaler  = (*Tenant)(nil)
)

// CaddyModule implements caddy.Module.
func (Tenant) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.skill_bridge.credentials.tenant",
		New: func() caddy.Module { return new(Tenant) },
	}
}

// Supports implements credential.Credentials. The type "custom" is for authentication that the
// protocol does not define; auth is nil for requests for documents.
func (*Tenant) Supports(auth *document.Auth) bool {
	return auth == nil || auth.Type == document.AuthCustom
}

// Authenticate implements credential.Credentials.
func (t *Tenant) Authenticate(_ context.Context, a *credential.Authentication) error {
	a.Request.Header.Set("X-Tenant", t.Name)
	return nil
}

// Secrets implements credential.Credentials. A tenant's name is no secret.
func (*Tenant) Secrets() []string { return nil }

// UnmarshalCaddyfile parses "credentials tenant <name>".
func (t *Tenant) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the module's name
	if !d.AllArgs(&t.Name) {
		return d.ArgErr()
	}
	return nil
}

// A Caddy that is built with this module accepts "credentials tenant <name>".
func Example() {
	tenant := &Tenant{}
	if err := tenant.UnmarshalCaddyfile(caddyfile.NewTestDispenser("tenant acme")); err != nil {
		panic(err)
	}
	request, err := http.NewRequest(http.MethodPost, "https://skills.example.com/shout", http.NoBody)
	if err != nil {
		panic(err)
	}
	if err := tenant.Authenticate(context.Background(), &credential.Authentication{Request: request}); err != nil {
		panic(err)
	}
	fmt.Println(request.Header.Get("X-Tenant"))
	// Output: acme
}
