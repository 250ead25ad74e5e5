package publish

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// translation makes skills of the operations of a document.
type translation struct {
	docs      *documents
	root      map[string]any
	options   *Options
	swagger   bool // Swagger 2.0
	old       bool // before OpenAPI 3.1
	version   string
	others    map[string][][]string // by method; see Operation
	size      int                   // bytes of the schemas of the inputs of the operation
	schemes   map[string]any        // of security
	noSchemes error                 // why there are none
	secrets   []string              // places of the keys of all of them
	fixed     []fixed               // by the queries in paths
}

// object returns what a value refers to, or the value, if that is an object; nil: it is none.
func (t *translation) object(v any) (map[string]any, error) {
	v, err := t.docs.follow(v)
	object, _ := v.(map[string]any)
	return object, err
}

// skill translates an operation.
func (t *translation) skill(o *selection) (*Skill, error) {
	operation := &Operation{Method: o.method, Secrets: t.reserved(o.path)}
	t.size, t.docs.missing = 0, nil
	title := o.method + " " + o.path
	path, err1 := t.path(o)
	auth, err2 := t.security(o, operation) // first: parameters do not set its headers
	inputs, err3 := t.inputs(o, operation)
	output, err4 := t.output(o, operation)
	if err := cmp.Or(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	operation.Path, operation.Query = path, (&url.URL{RawQuery: o.query}).Query().Encode()
	if operation.Below = o.below; strings.Contains(path, "{") {
		operation.Others = t.others[strings.ToLower(o.method)]
	}
	summary := line(o.operation["summary"])
	d := &document.Descriptor{
		Protocol: document.ProtocolVersion{Version: document.ConsumerVersion}, ID: o.id, Version: t.version, CapabilityType: document.API,
		Name:        line(cmp.Or(summary, strings.ReplaceAll(kebab(text(o.operation["operationId"])), "-", " "), title)),
		Description: lines(cmp.Or(lines(o.operation["description"]), summary, title)),
		Provider:    t.options.Provider, Inputs: inputs, Output: output, Auth: auth, Access: t.options.Access,
		Endpoint:         document.Endpoint{Method: http.MethodPost, TimeoutMS: t.options.TimeoutMS},
		DocumentationURL: absolute(objectIn(t.docs.part(o.operation["externalDocs"]))["url"]),
	}
	if d.Access = cmp.Or(d.Access, document.Restricted); t.options.Access == "" && auth.Type == document.AuthNone {
		d.Access = document.Public
	}
	d.Provider.Name = cmp.Or(d.Provider.Name, anyProvider)
	for _, tag := range listIn(o.operation["tags"]) {
		if tag := line(tag); tag != "" {
			d.Tags = append(d.Tags, tag)
		}
	}
	s, err := newSkill(d, operation)
	if s.from.Reason = strings.Join(t.docs.missing, "; "); s.from.Reason != "" {
		s.from.Reason = "anything may be in place of what can't be found: " + s.from.Reason
	}
	return s, err
}

// absolute returns a value if it is an absolute URL of http or https.
func absolute(v any) string {
	if _, err := document.ParseEndpointURL(text(v)); err != nil {
		return ""
	}
	return text(v)
}

// placeholder is a parameter in a template of a path.
var placeholder = regexp.MustCompile(`\{([^{}]*)\}`)

// origin begins the URL of a server, of which only the path counts. Its host may be a placeholder.
var origin = regexp.MustCompile(`^([^/?#]*:)?//[^/?#]*/*`)

// path returns the template of the path of an operation below that of the first server, which it puts before that of o.
func (t *translation) path(o *selection) (string, error) {
	base := text(t.root["basePath"])
	for _, around := range []map[string]any{t.root, o.around, o.operation} {
		if servers := listIn(around["servers"]); len(servers) > 0 && !t.swagger {
			server := objectIn(servers[0])
			base = placeholder.ReplaceAllStringFunc(text(server["url"]), func(name string) string {
				variable, isDefined := objectIn(server["variables"])[strings.Trim(name, "{}")]
				return map[bool]string{true: text(objectIn(variable)["default"]), false: name}[isDefined] // what is not defined is an input
			})
		}
	}
	location := t.docs.first // of a file, it is not known
	if t.docs.folder != nil {
		location = &url.URL{Path: "/"}
	}
	u, err := location.Parse(cmp.Or(origin.ReplaceAllString(base, "/"), "/"))
	if err != nil || strings.Contains(o.path, "\\") || strings.ContainsAny(o.query, "{}") || !safetext.Printable(o.path+o.query) || !strings.HasPrefix(o.path, "/") {
		return "", errors.New("its path is none, or the URL of its server: a path begins with /, and a query in it has no parameters")
	}
	var path []string
	before := strings.NewReplacer("%7B", "{", "%7D", "}").Replace(strings.TrimSuffix(u.EscapedPath(), "/"))
	o.path, o.below = before+o.path, strings.Count(before, "/")
	for i, part := range strings.Split(strings.ReplaceAll(o.path, "}", "{"), "{") {
		if i%2 == 1 { // a placeholder
			path = append(path, "{"+part+"}")
			continue
		}
		decoded, err := url.PathUnescape(part)
		if err != nil {
			return "", errors.New("its path has a percent sign that begins no escape")
		}
		path = append(path, (&url.URL{Path: decoded, RawPath: part}).EscapedPath())
	}
	if dotted(strings.Join(path, "")) {
		return "", errors.New("its path has . or .. as a segment")
	}
	return "/" + strings.TrimLeft(strings.Join(path, ""), "/"), nil
}

// maxSecurity bounds the alternatives of an operation, and the schemes of each: many operations may have the same ones.
const maxSecurity = 100

var errManyAlternatives = fmt.Errorf("its security has more than %d alternatives, or more than %d schemes in one", maxSecurity, maxSecurity)

// security returns how callers authenticate for an operation: of the alternatives none, else the first that the protocol has a type for, else the first.
func (t *translation) security(o *selection, operation *Operation) (auth document.Auth, err error) {
	alternatives, stated := o.operation["security"].([]any)
	if !stated {
		alternatives, _ = t.root["security"].([]any)
	}
	isNone := func(v any) bool { return len(objectIn(v)) == 0 }
	if len(alternatives) == 0 || slices.ContainsFunc(alternatives, isNone) {
		return document.Auth{Type: document.AuthNone}, nil
	}
	if len(alternatives) > maxSecurity {
		return auth, errManyAlternatives
	}
	for _, alternative := range alternatives {
		other, credentials, basic, fault := t.requirement(objectIn(alternative))
		if fault != nil {
			err = fault
		} else if auth.Type == "" || auth.Type == document.AuthCustom && other.Type != document.AuthCustom {
			auth, operation.Credentials, operation.Basic = other, credentials, basic
		}
	}
	if auth.Type == "" {
		return auth, err
	}
	operation.Demand = Demand{Type: string(auth.Type), Header: auth.Header}
	if auth.OAuth2 != nil {
		operation.Demand.AuthorizationURL = auth.OAuth2.AuthorizationURL
	}
	return auth, nil
}

// findSchemes finds the security schemes, and the places of the keys of all: an operation may take one that it does not need.
func (t *translation) findSchemes() {
	components, err1 := t.object(t.root["components"])
	schemes, err2 := t.object(cmp.Or(components["securitySchemes"], t.root["securityDefinitions"]))
	t.schemes, t.noSchemes = schemes, cmp.Or(err1, err2)
	for _, definition := range schemes {
		if scheme, _ := t.object(definition); text(scheme["type"]) == "apiKey" {
			t.secrets = append(t.secrets, place(text(scheme["in"]), line(scheme["name"])))
		}
	}
}

// requirement returns the authentication of one alternative, the headers that it needs, and whether one is for HTTP Basic.
func (t *translation) requirement(requirement map[string]any) (auth document.Auth, credentials []string, basic bool, err error) {
	if len(requirement) > maxSecurity || t.noSchemes != nil {
		return auth, nil, false, cmp.Or(t.noSchemes, errManyAlternatives)
	}
	var needs []string
	for _, name := range slices.Sorted(maps.Keys(requirement)) {
		scheme, err := t.object(t.schemes[name])
		if err != nil {
			return auth, nil, false, err
		}
		var need string
		kind, key, header := text(scheme["type"]), line(scheme["name"]), "Authorization"
		if kind == "apiKey" || kind == "http" {
			kind += " " + strings.ToLower(text(scheme["in"])+text(scheme["scheme"]))
		}
		auth = document.Auth{Type: document.AuthCustom, Description: lines(scheme["description"])}
		switch kind {
		case "apiKey header":
			header, need = key, "with a key"
			if !document.ForbiddenHeader(header) {
				auth.Type, auth.Header = document.AuthAPIKey, header
			}
		case "apiKey cookie":
			header, need = "Cookie", "with the cookie "+key
		case "apiKey query":
			header, need = "", "the query parameter "+key+", which the publisher adds: callers can't send it"
		case "mutualTLS":
			header, need = "", "a client certificate"
		case "http bearer":
			need = "with `Bearer …`, where … is a token"
			auth.Type, auth.Header, auth.Description = document.AuthAPIKey, header, strings.TrimSpace(auth.Description+" The value is `Bearer …`, where … is a token.")
		case "http basic", "basic":
			basic, need = true, "with `Basic …`, where … is base64 of a user name, a colon and a password"
		case "openIdConnect", "oauth2":
			if need = "with `Bearer …`, where … is an access token"; kind == "openIdConnect" {
				need += " of the issuer that " + line(scheme["openIdConnectUrl"]) + " describes"
			}
			if auth.OAuth2 = t.oauth2(scheme, requirement[name]); auth.OAuth2 != nil {
				auth.Type = document.AuthOAuth2
			}
		case "":
			return auth, nil, false, fmt.Errorf("its security %s is not defined", name)
		default:
			need = "as the scheme " + line(kind) + " says"
		}
		if header != "" {
			need = "the header " + header + " " + need
		}
		if header == "Cookie" || header != "" && !document.ForbiddenHeader(header) {
			credentials = append(credentials, http.CanonicalHeaderKey(header))
		}
		needs = append(needs, need)
	}
	if len(needs) > 1 || auth.Type == document.AuthCustom {
		custom := &document.CustomAuth{Instructions: "Each request needs " + strings.Join(needs, ", and ") + ".", Parameters: []document.Parameter{}}
		auth = document.Auth{Type: document.AuthCustom, Description: auth.Description, Custom: custom}
	}
	return auth, slices.Compact(slices.Sorted(slices.Values(credentials))), basic, nil
}

// oauth2 returns the first flow of a scheme, or that of its OpenID Connect issuer, that has both URLs, with the scopes that an operation needs; nil: there is none.
func (t *translation) oauth2(scheme map[string]any, needed any) *document.OAuth2 {
	flows := objectIn(scheme["flows"])
	if t.swagger {
		flows = map[string]any{"authorizationCode": scheme}
	}
	if issuer := t.docs.issuer(text(scheme["openIdConnectUrl"])); issuer != nil {
		flows = map[string]any{"issuer": map[string]any{"authorizationUrl": issuer["authorization_endpoint"], "tokenUrl": issuer["token_endpoint"]}}
	}
	for _, name := range slices.Sorted(maps.Keys(flows)) { // authorizationCode comes first
		flow := objectIn(flows[name])
		o := &document.OAuth2{AuthorizationURL: absolute(flow["authorizationUrl"]), TokenURL: absolute(flow["tokenUrl"]), Scopes: map[string]string{}}
		for _, scope := range listIn(needed) {
			o.Scopes[text(scope)] = line(objectIn(flow["scopes"])[text(scope)])
		}
		if o.AuthorizationURL != "" && o.TokenURL != "" {
			return o
		}
	}
	return nil
}
