package credentials

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials/tokens"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
)

// UnmarshalCaddyfile parses
//
//	api_key <key> {
//		header <name>
//		prefix <text>
//	}
func (k *APIKey) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return parse(options.NewReader(d), "api_key", "a key", k, nil, &k.Key)
}

// UnmarshalCaddyfile parses
//
//	oauth2 {
//		client_id     <id>
//		client_secret <secret>
//		token_url     <url>
//		scopes        <scope>...
//		auth_style    header|params
//		refresh_token <token>
//		params        <name> <value>
//	}
func (o *OAuth2) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	r := options.NewReader(d)
	return parse(r, "oauth2", "no argument", o, options.Targets{"params": paramsOf(r, &o.Params)})
}

// UnmarshalCaddyfile parses
//
//	oauth2_user {
//		client_id         <id>
//		client_secret     <secret>
//		auth_style        header|params
//		authorization_url <url>
//		token_url         <url>
//		revocation_url    <url>
//		issuer            <url>
//		scopes            [+]<scope>...
//		params            <name> <value>
//		resource          <uri>
//	}
func (o *OAuth2User) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	r := options.NewReader(d)
	return parse(r, "oauth2_user", "no argument", o, options.Targets{"params": paramsOf(r, &o.Params)})
}

// paramsOf reads a parameter of requests.
func paramsOf(r *options.Reader, params *map[string][]string) any {
	return options.Repeatable(func() error {
		var name, value string
		if err := r.Args("params", "a name and a value", 2, &name, &value); err != nil {
			return err
		}
		r.Mark("params." + name)
		if *params == nil {
			*params = make(map[string][]string)
		}
		(*params)[name] = append((*params)[name], value)
		return nil
	})
}

// UnmarshalCaddyfile parses
//
//	headers {
//		<name> <value>
//	}
func (h *Headers) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	r := options.NewReader(d)
	if err := r.Args("headers", "no argument", 0); err != nil {
		return err
	}
	h.Headers = make(map[string]string)
	for r.NextBlock(0) {
		name := r.Val()
		_, twice := h.Headers[name]
		switch {
		case name == "{" || name == "}":
			return r.Errf("unexpected %q: a header takes no block", name)
		case twice:
			return r.Errf("%s is given twice for headers", name)
		}
		var value string
		if err := r.Args(name, "one value", 1, &value); err != nil {
			return err
		}
		r.Mark("headers." + name)
		h.Headers[name] = value
	}
	return finish(r, h, nil)
}

// UnmarshalCaddyfile parses
//
//	hmac {
//		secret   <secret>
//		header   <name>
//		encoding hex|base64
//		prefix   <text>
//		signed   method,path,body|body
//	}
func (h *HMAC) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return parse(options.NewReader(d), "hmac", "no argument", h, nil)
}

// checked is a module that checks its options.
type checked interface{ check(c *options.Checker) }

// parse reads the arguments and the block of a module, and checks its options. own are those that are not as [options.Reader.Of] reads them.
func parse(r *options.Reader, name, takes string, block checked, own options.Targets, args ...any) error {
	return finish(r, block, r.BlockWith(name, "", takes, len(args), block, own, args...))
}

// finish checks the options of a module, unless parsing its block failed with err.
func finish(r *options.Reader, block checked, err error) error {
	c := new(options.Checker)
	if err != nil {
		return err
	}
	if block.check(c); c.Fault != nil {
		return r.At(c.Fault.Path, c.Fault)
	}
	return nil
}

// Interface guards
var (
	_ = []interface {
		credential.Credentials
		credential.Renewer
		credential.Advisor
		caddy.Provisioner
		caddyfile.Unmarshaler
	}{(*APIKey)(nil), (*OAuth2)(nil), (*OAuth2User)(nil), (*Headers)(nil), (*HMAC)(nil)}
	_ = []credential.Signer{(*HMAC)(nil), (*OAuth2)(nil), (*OAuth2User)(nil)}
	_ = []caddy.CleanerUpper{(*OAuth2)(nil), (*OAuth2User)(nil)}

	_ credential.Personal = (*OAuth2User)(nil)
	_ credential.Obtainer = (*OAuth2)(nil)
	_ tokens.Keeper       = (*OAuth2)(nil)
)
