package card

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// SecurityScheme is a way to authenticate to the agent, as Caddy or a proxy in front of it requires. The authentication that
// providers require is never part of a card.
type SecurityScheme struct {
	// Name of the scheme in the card.
	Name string `json:"name"`
	// Type is http, api_key, openid or mutual_tls.
	Type string `json:"type"`
	// Scheme is the scheme of the Authorization header for the type http, such as bearer.
	Scheme string `json:"scheme,omitzero"`
	// In is the place of an API key: header, query or cookie. Key is its name there.
	In  string `json:"in,omitzero"`
	Key string `json:"key,omitzero"`
	// URL is the URL of the OpenID Connect discovery document.
	URL string `json:"url,omitzero"`
}

// The types of security schemes.
const (
	typeHTTP      = "http"
	typeAPIKey    = "api_key"
	typeOpenID    = "openid"
	typeMutualTLS = "mutual_tls"
)

// ParseSecurityScheme reads the arguments of the option security: a name, a type, and the arguments of the type.
func ParseSecurityScheme(args []string) (SecurityScheme, error) {
	var s SecurityScheme
	if len(args) < 2 {
		return s, errors.New("a security scheme needs a name and a type: http, api_key, openid or mutual_tls")
	}
	s.Name, s.Type = args[0], args[1]
	values, known := map[string][]*string{typeHTTP: {&s.Scheme}, typeAPIKey: {&s.In, &s.Key}, typeOpenID: {&s.URL}, typeMutualTLS: {}}[s.Type]
	if known && len(args)-2 != len(values) {
		return s, fmt.Errorf("the security scheme %s takes %d arguments after its type, not %d", s.Type, len(values), len(args)-2)
	}
	for i, value := range values {
		*value = args[2+i]
	}
	return s, s.Validate()
}

// Validate returns what is wrong with a scheme.
func (s *SecurityScheme) Validate() error {
	if s.Name == "" || !safetext.Printable(s.Name) {
		return fmt.Errorf("%q is not a name for a security scheme", s.Name)
	}
	switch s.Type {
	case typeHTTP:
		if s.Scheme == "" || strings.ContainsAny(s.Scheme, " \t\r\n,;\"") {
			return fmt.Errorf("%q is not an authentication scheme of HTTP", s.Scheme)
		}
	case typeAPIKey:
		if s.In != "header" && s.In != "query" && s.In != "cookie" {
			return fmt.Errorf("an API key is in a header, query or cookie, not in %q", s.In)
		}
		if s.Key == "" {
			return errors.New("an API key needs the name of the header, query parameter or cookie")
		}
	case typeOpenID:
		if u, err := url.Parse(s.URL); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			return fmt.Errorf("%q is not the URL of an OpenID Connect discovery document", s.URL)
		}
	case typeMutualTLS:
	default:
		return fmt.Errorf("%q is not one of the security schemes http, api_key, openid and mutual_tls", s.Type)
	}
	return nil
}

// httpName returns the name of the authentication scheme in header fields, such as Bearer; empty: HTTP has none.
func (s *SecurityScheme) httpName() string {
	switch s.Type {
	case typeHTTP:
		return http.CanonicalHeaderKey(s.Scheme)
	case typeOpenID:
		return bearer
	}
	return ""
}

const bearer = "Bearer"

// Challenge returns the value of WWW-Authenticate for callers who have not authenticated: the first of the schemes that HTTP has, and
// Bearer if there are no schemes.
//
// A response 401 must have a challenge (RFC 9110, section 15.5.2), but HTTP has no scheme for API keys and client certificates. Where
// there are only these, the challenge has a name that is not registered. Clients ignore such a challenge, whereas Bearer would make
// them get a token that is not accepted.
func Challenge(schemes []SecurityScheme) string {
	const realm = ` realm="skill-bridge"`
	for i := range schemes {
		if name := schemes[i].httpName(); name != "" {
			return name + realm
		}
	}
	switch {
	case len(schemes) == 0:
		return bearer + realm
	case schemes[0].Type == typeAPIKey:
		return "ApiKey" + realm
	}
	return "ClientCertificate" + realm
}

// CurlOptions returns the options with which curl authenticates, with placeholders for the secrets.
func (s *SecurityScheme) CurlOptions() []string {
	switch {
	case s.Type == typeMutualTLS:
		return []string{"--cert", "<certificate file>", "--key", "<key file>"}
	case s.Type == typeAPIKey && s.In == "header":
		return []string{"-H", s.Key + ": <key>"}
	case s.Type == typeAPIKey && s.In == "cookie":
		return []string{"-b", s.Key + "=<key>"}
	case s.Type == typeAPIKey:
		return []string{"--url-query", s.Key + "=<key>"}
	case s.httpName() == "Basic":
		return []string{"-u", "<user>:<password>"}
	case s.httpName() == bearer:
		return []string{"-H", "Authorization: Bearer <token>"}
	}
	return []string{"-H", "Authorization: " + s.httpName() + " <credentials>"}
}

// mutualTLS describes the scheme, which has no other members in A2A 1.0.
const mutualTLS = "A client certificate (mutual TLS)."

// writeSecurity adds the schemes, and a requirement for each, since each of them is sufficient. In a combined card, a scheme has
// the members of both versions, and there are two lists of requirements.
//
// A requirement has an empty array of scopes also in A2A 1.0, although its definition has an object there, which would
// hold the array: a2a-go and the specification's own example have an array, and other clients read both as no scopes.
func (a *assembler) writeSecurity(schemes []SecurityScheme, form string) {
	if len(schemes) == 0 {
		return
	}
	a.OpenMember("securitySchemes")
	for i := range schemes {
		s := &schemes[i]
		a.Key(s.Name)
		a.Open()
		if form != v10 {
			s.writeOpenAPI(&a.Writer)
		}
		if form == v10 || form == combined {
			s.writeProto(&a.Writer)
		}
		a.Close()
	}
	a.Close()
	if form == v10 || form == combined {
		a.OpenArray("securityRequirements")
		for i := range schemes {
			a.Open()
			a.Name("schemes")
			a.writeRequirement(&schemes[i])
			a.Close()
		}
		a.CloseArray()
	}
	if form != v10 {
		a.OpenArray("security")
		for i := range schemes {
			a.writeRequirement(&schemes[i])
		}
		a.CloseArray()
	}
}

func (a *assembler) writeRequirement(s *SecurityScheme) {
	a.Open()
	a.Key(s.Name)
	a.Buf = append(a.Buf, "[]}"...)
}

// writeOpenAPI adds the members of a scheme in A2A 0.2 and 0.3, which are those of OpenAPI.
func (s *SecurityScheme) writeOpenAPI(w *front.Writer) {
	w.Text("type", s.openAPIType())
	switch s.Type {
	case typeHTTP:
		w.Text("scheme", s.Scheme)
	case typeAPIKey:
		w.Text("in", s.In)
		w.Text("name", s.Key)
	case typeOpenID:
		w.Text("openIdConnectUrl", s.URL)
	case typeMutualTLS:
		w.Text("description", mutualTLS)
	}
}

func (s *SecurityScheme) openAPIType() string {
	return map[string]string{typeHTTP: "http", typeAPIKey: "apiKey", typeOpenID: "openIdConnect", typeMutualTLS: "mutualTLS"}[s.Type]
}

// writeProto adds the member of a scheme in A2A 1.0.
func (s *SecurityScheme) writeProto(w *front.Writer) {
	switch s.Type {
	case typeHTTP:
		w.OpenMember("httpAuthSecurityScheme")
		w.Text("scheme", s.Scheme)
	case typeAPIKey:
		w.OpenMember("apiKeySecurityScheme")
		w.Text("location", s.In)
		w.Text("name", s.Key)
	case typeOpenID:
		w.OpenMember("openIdConnectSecurityScheme")
		w.Text("openIdConnectUrl", s.URL)
	case typeMutualTLS:
		w.OpenMember("mtlsSecurityScheme")
		w.Text("description", mutualTLS)
	}
	w.Close()
}

// writeLegacyAuthentication adds the schemes in the form of A2A 0.1.
func (a *assembler) writeLegacyAuthentication(schemes []SecurityScheme) {
	if len(schemes) == 0 {
		return
	}
	names := make([]string, len(schemes))
	for i := range schemes {
		if names[i] = schemes[i].Scheme; schemes[i].Type != typeHTTP {
			names[i] = schemes[i].openAPIType()
		}
	}
	a.OpenMember("authentication")
	a.Texts("schemes", names)
	a.Close()
}
