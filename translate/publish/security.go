package publish

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// security returns how callers authenticate for an operation: of the alternatives none, else the first that the protocol has a type for, else the first.
func (t *translation) security(o *selection, operation *Operation) (document.Auth, error) {
	stated, ok := o.operation["security"].([]any)
	if !ok {
		stated, _ = t.root["security"].([]any)
	}
	components, err := t.object(t.root["components"])
	if err != nil {
		return document.Auth{}, err
	}
	definitions, err := t.object(cmp.Or(components["securitySchemes"], t.root["securityDefinitions"]))
	if err != nil {
		return document.Auth{}, err
	}
	none := document.Auth{Type: document.AuthNone}
	best, fault := none, error(nil)
	for _, alternative := range stated {
		requirement, _ := alternative.(map[string]any)
		if len(requirement) == 0 {
			operation.Credentials, operation.Demand = nil, Demand{}
			return none, nil
		}
		auth, credentials, err := t.requirement(requirement, definitions)
		switch {
		case err != nil:
			fault = cmp.Or(fault, err)
		case best.Type == document.AuthNone, best.Type == document.AuthCustom && auth.Type != document.AuthCustom:
			best, operation.Credentials = auth, credentials
		}
	}
	if best.Type == document.AuthNone {
		return none, fault
	}
	operation.Demand = Demand{Type: string(best.Type), Header: best.Header}
	if best.OAuth2 != nil {
		operation.Demand.AuthorizationURL = best.OAuth2.AuthorizationURL
	}
	return best, nil
}

// requirement returns the authentication of one alternative, and the headers that it needs.
func (t *translation) requirement(requirement, definitions map[string]any) (auth document.Auth, credentials []string, err error) {
	var ways []string
	for _, name := range slices.Sorted(maps.Keys(requirement)) {
		scheme, err := t.object(definitions[name])
		if err != nil {
			return auth, nil, err
		}
		kind, in, header := text(scheme["type"]), text(scheme["in"]), text(scheme["name"])
		description := lines(scheme["description"])
		scopes, _ := requirement[name].([]any)
		way := "the header Authorization with the scheme " + cmp.Or(line(scheme["scheme"]), "that the API takes")
		auth = document.Auth{Type: document.AuthCustom, Description: description}
		switch {
		case kind == "apiKey" && in == "header" && !document.ForbiddenHeader(header):
			auth.Type, auth.Header = document.AuthAPIKey, header
			way = "the header " + header + " with a key"
		case kind == "apiKey" && in == "cookie":
			header, way = "Cookie", "the header Cookie with the cookie "+line(header)
		case kind == "apiKey":
			header, way = "", "the "+line(in)+" parameter "+line(header)+", which the publisher of the API has to add: callers can't send it"
		case kind == "mutualTLS":
			header, way = "", "a client certificate"
		case kind == "http" && strings.EqualFold(text(scheme["scheme"]), "bearer"):
			auth.Type, auth.Header, header = document.AuthAPIKey, "Authorization", "Authorization"
			auth.Description = strings.TrimSpace(description + " The value is `Bearer …`, with a token.")
			way = "the header Authorization with `Bearer …`, with a token"
		case kind == "http", kind == "basic":
			header = "Authorization"
			if kind == "basic" || strings.EqualFold(text(scheme["scheme"]), "basic") {
				way = "the header Authorization with `Basic …` (RFC 7617), of a user name and a password"
			}
		case kind == "oauth2", kind == "openIdConnect":
			header, way = "Authorization", "the header Authorization with `Bearer …`, with an access token"
			if auth.OAuth2 = t.oauth2(scheme, scopes); auth.OAuth2 != nil {
				auth.Type = document.AuthOAuth2
			}
		default:
			return auth, nil, fmt.Errorf("its security %s is not one that the document defines", line(name))
		}
		if header != "" {
			credentials = append(credentials, http.CanonicalHeaderKey(header))
		}
		ways = append(ways, way)
	}
	if len(ways) > 1 || auth.Type == document.AuthCustom {
		instructions := "Each request needs " + strings.Join(ways, ", and ") + "."
		auth = document.Auth{Type: document.AuthCustom, Description: auth.Description, Custom: &document.CustomAuth{Instructions: instructions, Parameters: []document.Parameter{}}}
	}
	return auth, slices.Compact(slices.Sorted(slices.Values(credentials))), nil
}

// oauth2 returns the first flow of a scheme that has both URLs, with the scopes that an operation needs; nil: there is none.
func (t *translation) oauth2(scheme map[string]any, needed []any) *document.OAuth2 {
	flows, _ := t.object(scheme["flows"])
	if t.swagger {
		flows = map[string]any{"authorizationCode": scheme}
	}
	for _, name := range []string{"authorizationCode", "implicit", "password", "clientCredentials", "deviceAuthorization"} {
		flow, _ := t.object(flows[name])
		o := &document.OAuth2{AuthorizationURL: absolute(flow["authorizationUrl"]), TokenURL: absolute(flow["tokenUrl"]), Scopes: map[string]string{}}
		if o.AuthorizationURL == "" || o.TokenURL == "" {
			continue
		}
		scopes, _ := flow["scopes"].(map[string]any)
		for _, scope := range needed {
			o.Scopes[text(scope)] = line(scopes[text(scope)])
		}
		return o
	}
	return nil
}
