package publish

import (
	"cmp"
	"errors"
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
	docs           *documents
	root           map[string]any
	options        *Options
	swagger        bool // Swagger 2.0
	old            bool // before OpenAPI 3.1
	title, version string
}

// Bounds of texts for people, in characters.
const (
	maxName        = 200
	maxDescription = 20_000
)

// object returns what a value refers to, or the value, if that is an object; nil: it is none.
func (t *translation) object(v any) (map[string]any, error) {
	v, err := t.docs.follow(v)
	object, _ := v.(map[string]any)
	return object, err
}

// schemas returns the translator of the schemas of a request, or of answers.
func (t *translation) schemas(omit string) *schemas {
	return &schemas{docs: t.docs, old: t.old, omit: omit}
}

// skill translates an operation.
func (t *translation) skill(o *selection) (*Skill, error) {
	operation := &Operation{Method: o.method}
	var err error
	if operation.Path, err = t.path(o); err != nil {
		return nil, err
	}
	auth, err := t.security(o, operation)
	if err != nil {
		return nil, err
	}
	inputs, err := t.inputs(o, operation)
	if err != nil {
		return nil, err
	}
	output, err := t.output(o, operation)
	if err != nil {
		return nil, err
	}
	id := cmp.Or(o.id, t.options.Namespace+"/"+cmp.Or(kebab(text(o.operation["operationId"])), kebab(o.method+" "+strings.ReplaceAll(o.path, "{", " by "))))
	words := strings.ReplaceAll(kebab(text(o.operation["operationId"])), "-", " ")
	title := o.method + " " + o.path
	summary := line(o.operation["summary"])
	d := &document.Descriptor{
		Protocol: document.ProtocolVersion{Version: document.ConsumerVersion}, ID: id, Version: t.version, CapabilityType: document.API,
		Name:        safetext.Line(cmp.Or(summary, words, title), maxName),
		Description: cmp.Or(lines(o.operation["description"]), summary, title),
		Provider:    t.options.Provider, Inputs: inputs, Output: output, Auth: auth,
		Access:   cmp.Or(t.options.Access, document.Restricted),
		Endpoint: document.Endpoint{Method: http.MethodPost, TimeoutMS: t.options.TimeoutMS},
	}
	if t.options.Access == "" && auth.Type == document.AuthNone {
		d.Access = document.Public
	}
	d.Provider.Name = cmp.Or(d.Provider.Name, t.title, t.options.Namespace)
	tags, _ := o.operation["tags"].([]any)
	for _, tag := range tags {
		if tag := line(tag); tag != "" && !slices.Contains(d.Tags, tag) {
			d.Tags = append(d.Tags, tag)
		}
	}
	docs, _ := t.object(o.operation["externalDocs"])
	d.DocumentationURL = absolute(docs["url"])
	return newSkill(d, operation)
}

// line returns a value as one line for people; empty: it is no text, or has none.
func line(v any) string { return strings.TrimSpace(safetext.Line(text(v), maxName)) }

// lines returns a value as a text for people; empty: it is no text, or has none.
func lines(v any) string {
	return strings.TrimSpace(safetext.Clip(safetext.Lines(text(v)), maxDescription))
}

// absolute returns a value if it is an absolute URL of http or https.
func absolute(v any) string {
	if u, err := document.ParseEndpointURL(text(v)); err != nil || u.Hostname() == "" {
		return ""
	}
	return text(v)
}

// placeholder is a parameter in a template of a path.
var placeholder = regexp.MustCompile(`\{([^{}]*)\}`)

// path returns the template of the path of an operation below that of the first server.
func (t *translation) path(o *selection) (string, error) {
	base := text(t.root["basePath"])
	if !t.swagger {
		for _, around := range []map[string]any{o.operation, o.around, t.root} {
			if servers, _ := around["servers"].([]any); len(servers) > 0 {
				server, err := t.object(servers[0])
				if err != nil {
					return "", err
				}
				variables, _ := server["variables"].(map[string]any)
				base = placeholder.ReplaceAllStringFunc(text(server["url"]), func(name string) string {
					variable, _ := variables[strings.Trim(name, "{}")].(map[string]any)
					return text(variable["default"])
				})
				break
			}
		}
	}
	u, err := url.Parse(base)
	if err != nil {
		return "", errors.New("the URL of its server is none")
	}
	if strings.ContainsAny(o.path, "?#\\") || !strings.HasPrefix(o.path, "/") {
		return "", errors.New("its path is none: it has a query, or does not begin with /")
	}
	var b strings.Builder
	b.WriteString(strings.TrimSuffix("/"+strings.TrimLeft(u.EscapedPath(), "/"), "/"))
	for i, part := range strings.Split(strings.ReplaceAll(o.path, "}", "{"), "{") { // every second one is a placeholder
		decoded, err := url.PathUnescape(part)
		switch {
		case i%2 == 1:
			part = "{" + part + "}"
		case err == nil:
			part = (&url.URL{Path: decoded, RawPath: part}).EscapedPath()
		default:
			return "", errors.New("its path has a percent sign that begins no escape")
		}
		b.WriteString(part)
	}
	return "/" + strings.TrimLeft(b.String(), "/"), nil
}
