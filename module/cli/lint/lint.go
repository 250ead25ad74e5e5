// Package lint finds what a valid document says that is most likely a mistake.
package lint

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// Allowed is what the bridges that are to use a document allow: there are no warnings about it. By default, they allow nothing of it.
type Allowed struct {
	HTTP     bool           // plain HTTP
	Networks []netip.Prefix // addresses that are not public
}

// private reports whether a host has an address that is not public, and whether it is allowed. Of names, it is not known which
// addresses they have.
func (a *Allowed) private(host string) (private, allowed bool) {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		private = host == "localhost" || strings.HasSuffix(host, ".local") || strings.HasSuffix(host, ".internal")
		return private, private && len(a.Networks) > 0
	}
	private = !ip.IsGlobalUnicast() || ip.IsPrivate()
	return private, private && slices.ContainsFunc(a.Networks, func(p netip.Prefix) bool { return p.Contains(ip.Unmap()) })
}

// warnings are the warnings about one document.
type warnings struct {
	found   []run.Violation
	allowed Allowed
}

// maxWarnings bounds the warnings about one document.
const maxWarnings = 50

func (w *warnings) add(path, message string) {
	if len(w.found) < maxWarnings {
		w.found = append(w.found, run.Violation{Path: path, Message: message})
	}
}

// Index returns the warnings about an index with a text, at most 50. If the index is invalid, index is nil, and all warnings are about
// the names of members.
func Index(text []byte, index *document.Index, allowed Allowed) []run.Violation {
	w := warnings{allowed: allowed}
	w.misspelt(text, reflect.TypeFor[document.Index]())
	if index == nil {
		return w.found
	}
	w.empty("/provider/name", index.Provider.Name)
	for i := range index.Skills {
		e, path := &index.Skills[i], "/skills/"+strconv.Itoa(i)
		w.empty(path+"/name", e.Name)
		w.empty(path+"/description", e.Description)
		w.address(path+"/descriptor_url", e.DescriptorURL)
	}
	return w.found
}

// Descriptor returns the warnings about a descriptor, as [Index].
func Descriptor(ctx context.Context, text []byte, skill *discovery.Skill, allowed Allowed) []run.Violation {
	w := warnings{allowed: allowed}
	w.misspelt(text, reflect.TypeFor[document.Descriptor]())
	if skill == nil {
		return w.found
	}
	d := skill.Descriptor
	if why := document.UnlistedID(d.ID); why != "" {
		w.add("/id", "is not listed by bridges: "+why)
	}
	w.empty("/provider/name", d.Provider.Name)
	w.empty("/name", d.Name)
	w.empty("/description", d.Description)
	w.endpoint(&d.Endpoint, d.Auth.Type != document.AuthNone)
	if f := skill.Unsupported(); f != nil {
		w.add("/endpoint/content_type", "is valid, but bridges can't call the skill: they send only JSON")
	}
	for _, v := range Requests(d) {
		w.add(v.Path, v.Message)
	}
	for i := range d.Inputs {
		w.input(ctx, "/inputs/"+strconv.Itoa(i), &d.Inputs[i], skill)
	}
	if d.Output.Schema.Kind() == '{' && skill.OutputSchema() == nil {
		w.add("/output/schema", "is no JSON Schema that bridges can apply, so that they leave it out, and check no output")
	}
	if o := d.Auth.OAuth2; o != nil {
		w.address("/auth/oauth2/token_url", o.TokenURL)
		w.secure("/auth/oauth2/token_url", o.TokenURL)
	}
	return w.found
}

func (w *warnings) empty(path, text string) {
	if strings.TrimSpace(text) == "" {
		w.add(path, "is empty: agents and people see nothing there")
	}
}

// endpoint adds the warnings about the URLs of an endpoint.
func (w *warnings) endpoint(e *document.Endpoint, secret bool) {
	for _, u := range []struct {
		name, text string
		ofRun      bool
	}{{"url", e.URL, false}, {"status_url", e.StatusURL, true}, {"result_url", e.ResultURL, true}} {
		path := "/endpoint/" + u.name
		if u.text == "" {
			continue
		}
		w.address(path, u.text)
		if secret {
			w.secure(path, u.text)
		}
		if u.ofRun && !strings.Contains(u.text, executionID) {
			w.add(path, "has no "+executionID+": all runs would have the same URL")
		}
	}
}

// input adds the warnings about an input.
func (w *warnings) input(ctx context.Context, path string, p *document.Parameter, skill *discovery.Skill) {
	w.empty(path+"/name", p.Name)
	w.empty(path+"/description", p.Description)
	if jsonvalue.TypesNamed(p.Type) == 0 {
		w.add(path+"/type", "is no type of JSON Schema, so that values of any type are accepted; the types are "+strings.Join(jsonvalue.TypeNames, ", "))
	}
	value, _ := jsonvalue.Read(p.Schema, jsonvalue.Bounds{Depth: maxDepth, Values: maxValues})
	w.patterns(path+"/schema", value)
	if own := typesOf(value); own != 0 && jsonvalue.TypesNamed(p.Type) != 0 && own.Common(jsonvalue.TypesNamed(p.Type)) == 0 {
		w.add(path+"/schema/type", "contradicts the type of the input, which is "+p.Type+": bridges check values by the schema, so that they accept only "+jsonvalue.WithArticle(own.Names()...))
	}
	if p.Default != nil {
		text := jsontext.Value("{" + string(jsonvalue.Quoted(p.Name)) + ":" + string(p.Default) + "}")
		if _, invalid := skill.CheckGiven(ctx, "", jsonrpc.Object{Text: text}, nil); invalid != nil {
			w.add(path+"/default", "does not fit the input: "+invalid.Message)
		}
	}
}

// typesOf returns the types that a schema names; empty: none.
func typesOf(schema any) jsonvalue.TypeSet {
	object, _ := schema.(map[string]any)
	return jsonvalue.TypesOf(object["type"])
}

// secure adds a warning about a URL that would show a secret on its way. A trial at an address that is not public shows none.
func (w *warnings) secure(path, text string) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" {
		return
	}
	if _, allowed := w.allowed.private(u.Hostname()); !allowed || !w.allowed.HTTP {
		w.add(path, "is plain HTTP, and requests to it carry a credential: use https")
	}
}

// address adds a warning about a URL that only few bridges can reach.
func (w *warnings) address(path, text string) {
	u, err := url.Parse(text)
	if err != nil {
		return
	}
	switch private, allowed := w.allowed.private(u.Hostname()); {
	case private && !allowed:
		w.add(path, "is at "+net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), map[string]string{"http": "80"}[u.Scheme], "443"))+", which is not public: bridges refuse it unless their operators allow it")
	case u.Scheme == "http" && !w.allowed.HTTP:
		w.add(path, "is plain HTTP: bridges refuse it unless their operators allow it")
	}
}
