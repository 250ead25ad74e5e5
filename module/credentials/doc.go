// Package credentials holds the credentials a bridge can authenticate with
// towards providers of skills. Each kind is a Caddy module in the namespace
// http.skill_bridge.credentials:
//
//   - api_key puts a key into a header,
//   - oauth2 obtains access tokens and sends them as bearer tokens,
//   - headers sends fixed headers,
//   - hmac signs the body of each request.
//
// # Writing another kind
//
// Credentials of another kind are a Caddy module of the same namespace that
// implements [credential.Credentials]. Nothing else needs to know of it: a
// Caddy built with the module accepts its name after the options credentials
// and discovery_credentials, and in JSON as the member type.
//
//	package tenant
//
//	func init() { caddy.RegisterModule(Tenant{}) }
//
//	// Tenant names the tenant on whose behalf skills are invoked.
//	type Tenant struct {
//		// The tenant's name.
//		Name string `json:"name"`
//	}
//
//	func (Tenant) CaddyModule() caddy.ModuleInfo {
//		return caddy.ModuleInfo{
//			ID:  "http.skill_bridge.credentials.tenant",
//			New: func() caddy.Module { return new(Tenant) },
//		}
//	}
//
//	// Supports: providers that want something of their own ask for "custom".
//	func (*Tenant) Supports(auth *skillsharing.Auth) bool {
//		return auth == nil || auth.Type == skillsharing.AuthCustom
//	}
//
//	func (t *Tenant) Authenticate(_ context.Context, a *skillsharing.Authentication) error {
//		a.Request.Header.Set("X-Tenant", t.Name)
//		return nil
//	}
//
//	func (*Tenant) Secrets() []string { return nil }
//
//	// UnmarshalCaddyfile reads "credentials tenant <name>".
//	func (t *Tenant) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
//		d.Next() // the module's name
//		if !d.AllArgs(&t.Name) {
//			return d.ArgErr()
//		}
//		return nil
//	}
//
// Whether a request may carry a secret at all has been judged before
// Authenticate is called. Whatever a module sends by itself, for example to a
// token endpoint, goes through [credential.Authentication.Transport], after
// [credential.Authentication.MaySend] has allowed its address if a document
// named it. Everything a provider or its documents say is untrusted.
//
// Credentials that can be exchanged for fresh ones when a provider refuses them
// also implement [credential.Renewer].
//
// Loading a configuration has no side effects: Provision sends nothing and
// writes nothing. Secrets are resolved there from Caddy's placeholders and stay
// out of exported fields, errors and logs. When a configuration is replaced
// Caddy calls Cleanup while requests still use the module, so its methods have
// to work afterwards as well.
package credentials
