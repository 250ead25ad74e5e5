package cli

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/near"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// warnings collects what a valid document says that is most likely a mistake.
type warnings struct {
	found   []run.Violation
	private bool // of the [Validator]
}

// maxWarnings bounds the warnings about one document.
const maxWarnings = 50

func (w *warnings) add(path, message string) {
	if len(w.found) < maxWarnings {
		w.found = append(w.found, run.Violation{Path: path, Message: message})
	}
}

// warningsOfIndex returns the warnings about an index.
func (by *Validator) warningsOfIndex(index *document.Index) []run.Violation {
	w := warnings{private: by.Private}
	w.misspelt("", index, index.Unknown)
	w.provider(&index.Provider)
	for i := range index.Skills {
		e, path := &index.Skills[i], "/skills/"+strconv.Itoa(i)
		w.misspelt(path, e, e.Unknown)
		w.empty(path+"/name", e.Name)
		w.empty(path+"/description", e.Description)
		w.address(path+"/descriptor_url", e.DescriptorURL)
	}
	return w.found
}

// warningsOfDescriptor returns the warnings about a descriptor.
func (by *Validator) warningsOfDescriptor(ctx context.Context, skill *discovery.Skill) []run.Violation {
	w := warnings{private: by.Private}
	d := skill.Descriptor
	w.misspelt("", d, d.Unknown)
	w.provider(&d.Provider)
	w.empty("/name", d.Name)
	w.empty("/description", d.Description)
	w.endpoint(&d.Endpoint, d.Auth.Type != document.AuthNone)
	for i := range d.Inputs {
		w.input(ctx, "/inputs/"+strconv.Itoa(i), &d.Inputs[i], skill)
	}
	w.misspelt("/output", &d.Output, d.Output.Unknown)
	w.misspelt("/auth", &d.Auth, d.Auth.Unknown)
	if o := d.Auth.OAuth2; o != nil {
		w.misspelt("/auth/oauth2", o, o.Unknown)
		w.secure("/auth/oauth2/token_url", o.TokenURL)
	}
	if c := d.Auth.Custom; c != nil {
		w.misspelt("/auth/custom", c, c.Unknown)
	}
	return w.found
}

func (w *warnings) provider(p *document.Provider) {
	w.misspelt("/provider", p, p.Unknown)
	w.empty("/provider/name", p.Name)
}

func (w *warnings) empty(path, text string) {
	if strings.TrimSpace(text) == "" {
		w.add(path, "is empty: agents and people see nothing there")
	}
}

// endpoint adds the warnings about the URLs of an endpoint.
func (w *warnings) endpoint(e *document.Endpoint, secret bool) {
	w.misspelt("/endpoint", e, e.Unknown)
	if e.Retry != nil {
		w.misspelt("/endpoint/retry", e.Retry, e.Retry.Unknown)
	}
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
		if u.ofRun && !strings.Contains(u.text, "{execution_id}") {
			w.add(path, "has no {execution_id}: all runs would have the same URL")
		}
	}
}

// input adds the warnings about an input.
func (w *warnings) input(ctx context.Context, path string, p *document.Parameter, skill *discovery.Skill) {
	w.misspelt(path, p, p.Unknown)
	w.empty(path+"/description", p.Description)
	if jsonvalue.TypesNamed(p.Type) == 0 {
		message := "is no type of JSON Schema, so that values of any type are accepted; the types are " + strings.Join(jsonvalue.TypeNames, ", ")
		if meant := near.Find(strings.ToLower(p.Type), typeIndex); len(meant) > 0 {
			message += "; did you mean " + meant[0] + "?"
		} else if meant := otherTypes[strings.ToLower(p.Type)]; meant != "" {
			message += "; did you mean " + meant + "?"
		}
		w.add(path+"/type", message)
	}
	if p.Default != nil {
		text := jsontext.Value("{" + string(jsonvalue.Quoted(p.Name)) + ":" + string(p.Default) + "}")
		if _, invalid := skill.CheckGiven(ctx, "", jsonrpc.Object{Text: text}, nil); invalid != nil {
			w.add(path+"/default", "does not fit the input: "+invalid.Message)
		}
	}
}

// typeIndex finds the types of JSON Schema by similar names.
var typeIndex = near.NewIndex(slices.Sorted(slices.Values(jsonvalue.TypeNames)))

// otherTypes are the names that types have elsewhere.
var otherTypes = map[string]string{
	"str": "string", "text": "string", "url": "string", "uri": "string", "date": "string", "enum": "string", "file": "string", "int": "integer", "long": "integer",
	"float": "number", "double": "number", "decimal": "number", "bool": "boolean", "list": "array", "dict": "object", "map": "object", "json": "object",
}

// secure adds a warning about a URL that would show a secret on its way.
func (w *warnings) secure(path, text string) {
	if u, err := url.Parse(text); err == nil && u.Scheme == "http" && !w.private {
		w.add(path, "is plain HTTP, and requests to it carry a credential: use https")
	}
}

// address adds a warning about a URL that only few bridges can reach.
func (w *warnings) address(path, text string) {
	u, err := url.Parse(text)
	if err != nil || w.private {
		return
	}
	host := u.Hostname()
	ip, err := netip.ParseAddr(host)
	switch {
	case err == nil && (!ip.IsGlobalUnicast() || ip.IsPrivate()), host == "localhost", strings.HasSuffix(host, ".local"), strings.HasSuffix(host, ".internal"):
		w.add(path, "is at "+net.JoinHostPort(host, portOf(u))+", which is not public: bridges refuse it unless their operators allow it")
	case u.Scheme == "http":
		w.add(path, "is plain HTTP: bridges refuse it unless their operators allow it")
	}
}

// portOf returns the port of a URL.
func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return "80"
	}
	return "443"
}

// misspelt adds a warning about each unknown member whose name resembles one that the object may have, but does not.
func (w *warnings) misspelt(path string, object any, unknown jsontext.Value) {
	if len(unknown) == 0 {
		return
	}
	index := membersOf(object)
	jsonrpc.EachMember(unknown, func(name, _ jsontext.Value) bool {
		said := string(jsonrpc.Unquote(name))
		if meant := near.Find(said, index); len(meant) > 0 {
			w.add(path+"/"+pointer(said), "is no member of the protocol, so it is ignored; did you mean "+meant[0]+"?")
		}
		return len(w.found) < maxWarnings
	})
}

var pointer = strings.NewReplacer("~", "~0", "/", "~1").Replace

// membersOf finds the members of an object of the protocol by similar names.
func membersOf(object any) *near.Index {
	t := reflect.TypeOf(object).Elem()
	var names []string
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return near.NewIndex(names)
}
