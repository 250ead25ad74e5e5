package sources

import (
	"encoding/json" // for Caddy's raw modules

	"github.com/skill-bridge/caddy-skill-bridge/module/network"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
)

// Site is a web site that publishes skills in the Agent Skills format: it serves
// `/.well-known/agent-skills/index.json` (Agent Skills Discovery 0.2.0). Its skills are instructions
// to read: agents read their files with `read_skill_file`, after the bridge has checked the digest, and
// can't execute them.
type Site struct {
	// Where the site is: scheme, host and, if it is not the scheme's default, port, without a
	// path. `http` needs `allow_http`. Required. Example: `https://docs.example.com`.
	Origin string `json:"origin" option:"-"`

	// The first part of the names of the site's skills, as in a provider.
	// Default: the host name in lower case. Example: `docs`.
	Namespace string `json:"namespace,omitempty"`

	// Your own names for skills of this site, as in a provider. The skill's id is its name in
	// the site's index. Default: none.
	Aliases []Alias `json:"aliases,omitempty"`

	// Further hosts that may receive the secrets configured here, as in a provider.
	// Default: none.
	Trust []string `json:"trust,omitempty"`

	// How to authenticate when reading the index and the files. Needs `require_principal`, here
	// or in the handler, or the handler's `allow_anonymous`. Default: none.
	// Example: `{"type": "api_key", "key": "{env.DOCS_KEY}"}`.
	DiscoveryCredentialsRaw json.RawMessage `json:"discovery_credentials,omitempty" caddy:"namespace=http.skill_bridge.credentials inline_key=type"`

	// Answer callers without a principal with AUTH_REQUIRED, as in a provider.
	// Default: false.
	RequirePrincipal bool `json:"require_principal,omitempty"`

	// Transport for all requests to this site, instead of the handler's, as in a provider.
	TransportRaw json.RawMessage `json:"transport,omitempty" caddy:"namespace=http.reverse_proxy.transport inline_key=protocol"`
}

// ReadSite returns the function that reads the option agent_skills: with an origin, it is a site; without one, serve reads it.
func (from *Sources) ReadSite(r *options.Reader, serve func() error) options.Repeatable {
	p, served := parser{r}, 0
	return func() error {
		if p.NextArg() {
			p.Prev()
			return p.site(from)
		}
		if served != 0 {
			return p.Errf("agent_skills is given twice without an origin, first at line %d", served)
		}
		served = p.Line()
		p.Mark("agent_skills")
		return serve()
	}
}

func (p parser) site(to *Sources) error {
	v, path := new(Site), options.Element("sites", len(to.Sites))
	to.Sites = append(to.Sites, v)
	what := "the origin of a site, such as https://docs.example.com, or nothing to serve the skills of this bridge"
	return p.source("agent_skills", "agent_skills <origin>", what, path, p.Of(v, options.Targets{
		"alias":                 options.Repeatable(func() error { return p.alias(&v.Aliases, path) }),
		"discovery_credentials": p.credentials(&v.DiscoveryCredentialsRaw),
		"transport":             network.ReadTransport(p.Reader, &v.TransportRaw),
	}), &v.Origin)
}

// alias reads the option alias of a source.
func (p parser) alias(to *[]Alias, path string) error {
	p.Mark(options.Element(path+".aliases", len(*to)))
	var a Alias
	err := p.Args("alias", "a name and a skill's id", 2, &a.Name, &a.SkillID)
	*to = append(*to, a)
	return err
}
