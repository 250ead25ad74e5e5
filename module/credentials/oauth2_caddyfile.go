package credentials

import (
	"errors"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// UnmarshalCaddyfile reads
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
	if err := head(d); err != nil {
		return err
	}
	err := block(d, among(map[string]option{
		"client_id":     single(&o.ClientID, nil),
		"client_secret": single(&o.ClientSecret, nil),
		"token_url":     single(&o.TokenURL, checkWrittenTokenURL),
		"scopes":        {set: o.setScopes},
		"auth_style":    single(&o.AuthStyle, checkAuthStyle),
		"refresh_token": single(&o.RefreshToken, nil),
		"params":        {repeatable: true, set: o.addParam},
	}))
	switch {
	case err != nil:
		return err
	case o.ClientID == "":
		return d.Err("oauth2: client_id is missing")
	case o.ClientSecret == "" && o.RefreshToken == "":
		return d.Err("oauth2: client_secret is missing")
	}
	return nil
}

// checkWrittenTokenURL judges an address as far as it is known: one with
// placeholders is judged when they are resolved.
func checkWrittenTokenURL(address string) error {
	if strings.Contains(address, "{") {
		return nil
	}
	_, err := parseTokenURL(address)
	return err
}

func (o *OAuth2) setScopes(args []string) error {
	if len(args) == 0 {
		return errors.New("takes at least one scope")
	}
	for _, scope := range args {
		if err := checkScope(scope); err != nil {
			return err
		}
	}
	o.Scopes = args
	return nil
}

func (o *OAuth2) addParam(args []string) error {
	if len(args) != 2 {
		return errors.New("takes a name and a value")
	}
	if err := checkParam(args[0]); err != nil {
		return err
	}
	if o.Params == nil {
		o.Params = make(map[string][]string)
	}
	o.Params[args[0]] = append(o.Params[args[0]], args[1])
	return nil
}

// Interface guard
var _ caddyfile.Unmarshaler = (*OAuth2)(nil)
