package sources

import (
	"encoding/json" // for Caddy's raw modules

	"github.com/skill-bridge/caddy-skill-bridge/module/network"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
)

// Targets returns the options provider, skill and registry of a block.
func (from *Sources) Targets(r *options.Reader) options.Targets {
	p := parser{r}
	r.Places = places
	return options.Targets{
		"provider": options.Repeatable(func() error { return p.provider(from) }),
		"skill":    options.Repeatable(func() error { return p.skill(from) }),
		"registry": options.Repeatable(func() error { return p.registry(from) }),
	}
}

// places says where the options of sources belong.
var places = map[string]string{
	"credentials": "in provider, or in skill <name> <descriptor-url>", "discovery_credentials": "in provider, skill, registry or agent_skills",
	"api_key": "in provider or skill, behind credentials", "oauth2": "in provider or skill, behind credentials",
	"headers": "in provider or skill, behind credentials", "hmac": "in provider or skill, behind credentials",
	"namespace": "in provider, registry or agent_skills", "alias": "in provider or agent_skills", "trust": "in provider, skill or agent_skills",
	"capability_types": "in provider or registry",
	"on_change":        "in provider, skill or registry",
}

// parser parses sources.
type parser struct{ *options.Reader }

// source parses the required arguments and the block of a source.
func (p parser) source(option, block, what, path string, targets options.Targets, args ...any) error {
	p.Mark(path)
	if err := p.Args(option, what, len(args), args...); err != nil {
		return err
	}
	return p.Block(block, path, targets)
}

func (p parser) provider(to *Sources) error {
	v, path := new(Provider), options.Element("providers", len(to.Providers))
	to.Providers = append(to.Providers, v)
	return p.source("provider", "provider", "an origin, such as https://skills.example.com", path, p.Of(v, options.Targets{
		"alias": options.Repeatable(func() error { return p.alias(&v.Aliases, path) }),
		"credentials": options.Single{
			Read:  p.credentials(&v.CredentialsRaw),
			Again: "a provider has one kind; for a skill that needs another, write beside the provider skill <name> <descriptor-url> { credentials ... }",
		},
		"discovery_credentials": p.credentials(&v.DiscoveryCredentialsRaw),
		"transport":             network.ReadTransport(p.Reader, &v.TransportRaw),
	}), &v.Origin)
}

func (p parser) skill(to *Sources) error {
	v, path := new(Skill), options.Element("skills", len(to.Skills))
	to.Skills = append(to.Skills, v)
	return p.source("skill", "skill", "a name and the URL of a descriptor", path, p.Of(v, options.Targets{
		"credentials": p.credentials(&v.CredentialsRaw),
		"transport":   network.ReadTransport(p.Reader, &v.TransportRaw),
	}), &v.Name, &v.URL)
}

func (p parser) registry(to *Sources) error {
	v, path := new(Registry), options.Element("registries", len(to.Registries))
	to.Registries = append(to.Registries, v)
	return p.source("registry", "registry", "a URL", path, p.Of(v, options.Targets{"discovery_credentials": p.credentials(&v.DiscoveryCredentialsRaw)}), &v.URL)
}

// credentials parses a credentials module.
func (p parser) credentials(to *json.RawMessage) func() error {
	return p.Module("http.skill_bridge.credentials", "type", "a module, such as api_key", to)
}
