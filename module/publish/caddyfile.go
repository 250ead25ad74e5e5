package publish

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/skill-bridge/caddy-skill-bridge/module/callers"
	"github.com/skill-bridge/caddy-skill-bridge/module/network"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/publish"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

const directive = "skill_publish"

func init() {
	httpcaddyfile.RegisterHandlerDirective(directive, func(helper httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		h := new(Handler)
		return h, h.UnmarshalCaddyfile(helper.Dispenser)
	})
	// Before the blocks that may have the API, and so before skill_bridge, too.
	httpcaddyfile.RegisterDirectiveOrder(directive, httpcaddyfile.Before, "handle")
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	skill_publish [<matcher>] {
//		url        <origin>
//		provider   <name> [<url> [<contact>]]
//		namespace  <name>
//		skills     <folder>
//		openapi    <file or url> {
//			include       <operation>...
//			exclude       <operation>...
//			access        public|restricted|private
//			rename        <operation> <id>
//			output_schema on|off
//		}
//		private_for <placeholder>
//		async_after <duration>|off
//		timeout     <duration>
//		store       sqlite [<file>] | postgres <dsn> | memory
//		keep        <duration> [<n> [<per principal>]]
//		path        <path>
//		allow_http
//		allow_networks <cidr>...|private_ranges
//	}
//
// An operation is an operationId, or a method and a path in quotes; * stands for any text. The lines openapi, include, exclude, rename and allow_networks may
// be repeated.
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	r := options.NewReader(d)
	if d.NextArg() {
		return d.Errf("unexpected argument %q after %s: its options go into a block", d.Val(), directive)
	}
	targets := r.Of(h, options.Targets{
		"seal_key":       nil, // nothing is sealed
		"allow_networks": network.ReadNetworks(r, "allow_networks", &h.AllowNetworks),
		"openapi": options.Repeatable(func() error {
			h.OpenAPI = append(h.OpenAPI, Document{})
			return h.OpenAPI[len(h.OpenAPI)-1].read(r, options.Element("openapi", len(h.OpenAPI)-1))
		}),
	})
	if err := r.Block(directive, "", targets); err != nil {
		return err
	}
	if fault := h.check(); fault != nil {
		return r.At(fault.Path, fault.Err)
	}
	r.Remember(h)
	return nil
}

// Read reads the option provider.
func (p *Provider) Read(r *options.Reader) error {
	return r.Args("provider", "a name, and optionally a URL and a contact", 1, &p.Name, &p.URL, &p.Contact)
}

// read reads the option openapi, whose values have a JSON path.
func (d *Document) read(r *options.Reader, at string) error {
	r.Mark(at)
	return r.BlockWith("openapi", at, "a file or a URL", 1, d, options.Targets{
		"rename": options.Repeatable(func() error {
			var operation, id string
			if err := r.Args("rename", "an operation and the id of its skill", 2, &operation, &id); err != nil {
				return err
			}
			if d.Rename == nil {
				d.Rename = map[string]string{}
			}
			if _, twice := d.Rename[operation]; twice {
				return r.Errf("operation %q is renamed twice", operation)
			}
			d.Rename[operation] = id
			r.Mark(at + ".rename." + operation)
			return nil
		}),
	}, &d.Location)
}

// check returns the first fault of a configuration that can be found without reading documents.
func (h *Handler) check() *options.ConfigError {
	c := new(options.Checker)
	if h.URL != "" {
		c.Check("url", options.CheckURL("url", h.URL))
		if u, err := url.Parse(h.URL); err == nil && (u.Path != "" || u.RawQuery != "" || u.ForceQuery) {
			c.Check("url", fmt.Errorf("url %q is no origin: that is scheme, host and port only; where the skills are below it says path", h.URL))
		}
	}
	if h.Provider != nil && h.Provider.URL != "" {
		c.Check("provider.url", options.CheckURL("url of provider", h.Provider.URL))
	}
	if h.Namespace != "" {
		c.Check("namespace", checkNamespace(h.Namespace))
	}
	if len(h.OpenAPI) == 0 && h.Skills == "" {
		c.Check("openapi", errors.New("there is nothing to publish: add openapi with a document, or skills with a folder of descriptors"))
	}
	for i := range h.OpenAPI {
		h.OpenAPI[i].check(c, options.Element("openapi", i), h.AllowHTTP)
	}
	if p := h.PrivateFor; p != "" {
		c.Check("private_for", callers.CheckPlaceholder("private_for", p))
		if _, global := caddy.NewReplacer().Get(strings.Trim(p, "{}")); global {
			c.Check("private_for", fmt.Errorf("private_for %q is the same for all requests, so that private skills would be shown to everyone: write one such as %s", p, callers.DefaultPrincipal))
		}
	}
	_, err := h.asyncAfter()
	c.Check("async_after", err)
	if h.Timeout != 0 && time.Duration(h.Timeout) < time.Millisecond {
		c.Check("timeout", fmt.Errorf("timeout %s is too short: the minimum is 1ms", options.Shown(h.Timeout)))
	}
	if p := h.Path; p != "" && (p[0] != '/' || p == "/" || path.Clean(p) != p || strings.ContainsAny(p, "{}?#%*") || strings.HasPrefix(p+"/", "/.well-known/")) {
		c.Check("path", fmt.Errorf("path %q is not a path such as %s: it begins with one slash, does not end with one, has no placeholders, and is not below /.well-known", p, defaultPath))
	}
	h.Options.Check(c)
	if h.SealKey != "" || h.OldSealKey != "" {
		c.Check("seal_key", errors.New("seal_key has no effect: nothing is sealed"))
	}
	network.CheckAllowed(c, "", h.AllowNetworks, nil)
	return c.Fault
}

func checkNamespace(name string) error {
	err := cmp.Or(options.CheckName("namespace", name), options.CheckLiteral("namespace", name))
	switch {
	case err != nil:
	case slices.Contains(publish.Reserved, name):
		err = fmt.Errorf("namespace %q is taken: %s are other paths; write another one", name, strings.Join(publish.Reserved, " and "))
	case strings.ContainsAny(name, "/?#%"):
		err = fmt.Errorf("namespace %q has a character that is not possible in one part of a path", name)
	}
	return err
}

func (d *Document) check(c *options.Checker, at string, allowHTTP bool) {
	switch {
	case d.Location == "":
		c.Check(at+".location", errors.New("openapi has no location: a file or a URL"))
	case d.remote():
		c.Check(at+".location", options.CheckURL("openapi", d.Location))
		if strings.HasPrefix(strings.ToLower(d.Location), "http:") && !allowHTTP {
			c.Check(at+".location", fmt.Errorf("openapi %q is read without TLS, so that anyone on the network path can change it: write https, or the option allow_http", d.Location))
		}
	default:
		c.Check(at+".location", options.CheckLiteral("openapi", d.Location))
	}
	if len(d.Include) == 0 {
		c.Check(at+".include", errors.New("openapi needs include with the operations to publish, such as include listPets \"GET /pets/*\"; "+
			"include * publishes all, also those that the document gets later"))
	}
	if !slices.Contains([]document.AccessPolicy{"", document.Public, document.Restricted, document.Private}, d.Access) {
		c.Check(at+".access", fmt.Errorf("access %q is none of public, restricted and private", d.Access))
	}
	if !slices.Contains([]string{"", "on", "off"}, d.OutputSchema) {
		c.Check(at+".output_schema", fmt.Errorf("output_schema %q is neither on nor off", d.OutputSchema))
	}
	for operation, id := range d.Rename {
		first, rest, _ := strings.Cut(id, "/")
		err := checkNamespace(first)
		if err == nil && rest == "" {
			err = errors.New("the second part is missing")
		}
		if err != nil {
			c.Check(at+".rename."+operation, fmt.Errorf("the id %q of %s is not one such as pets/list: %w", id, operation, err))
		}
	}
}

// remote reports whether the document is at a URL.
func (d *Document) remote() bool { return strings.Contains(d.Location, "://") }

// asyncAfter returns after which time operations are answered with 202; 0: never.
func (h *Handler) asyncAfter() (time.Duration, error) {
	switch h.AsyncAfter {
	case "":
		return defaultAsync, nil
	case "off":
		return 0, nil
	}
	d, err := caddy.ParseDuration(h.AsyncAfter)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("async_after %q is neither a duration, such as 2s, nor off", h.AsyncAfter)
	}
	return d, nil
}

var _ caddyfile.Unmarshaler = (*Handler)(nil)
