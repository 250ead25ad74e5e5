package catalog

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Listed is where a name leads to.
type Listed struct {
	Section *Section
	Name    string // under which the skill is listed
	ID      string // that the descriptor must have; empty: any

	descriptor discovery.Location
}

// directly is where the name of a directly configured skill leads to.
func directly(s *Section) *Listed {
	return &Listed{Section: s, Name: s.Namespace, descriptor: discovery.NewLocation(s.URL.String())}
}

// Found is a skill that a name led to, and the source whose credentials it is
// invoked with.
type Found struct {
	*Listed
	Skill   *discovery.Skill
	Invoker *Section
	State   cache.State // of the descriptor
	// withheld is a provider whose credential the skill, which a registry lists, does not get; nil: there is none.
	withheld *Section
}

// Withhold is why a credential is not used for a skill of a registry; nil: it may be.
func (f *Found) Withhold() (*run.Failure, *exchange.Notice) {
	if f.withheld == nil {
		return nil, nil
	}
	return f.withheld.Client.Unlisted(f.Skill, f.Section.Namespace)
}

// Forget has the descriptor read anew by the next call.
func (f *Found) Forget() { f.Section.Client.Forget(f.descriptor) }

// Denied is why calls are refused for want of a credential; nil: they are not.
func (f *Found) Denied() *run.Failure {
	if e, _ := f.Withhold(); e != nil {
		return e
	}
	return f.Invoker.Client.WithoutCredential(f.Skill)
}

// Read reads the descriptor of a listed skill and checks that it is the one
// meant. An empty version is any.
func (c *Catalog) Read(ctx context.Context, l *Listed, version string) (Found, *run.Failure) {
	skill, state, err := l.Section.Client.SkillDocument(ctx, l.descriptor, l.ID)
	switch {
	case err != nil:
		err.SkillID = l.ID
	case l.ID != "" && skill.ID != l.ID:
		err = wrongID(skill, l.ID)
	}
	if err != nil {
		if concernsSkill(err) {
			l.Section.Faults.note(l, err)
		}
		return Found{}, err
	}
	l.Section.Faults.note(l, nil)
	if version != "" && version != skill.Version {
		return Found{}, otherVersion(skill, version)
	}
	f := Found{Listed: l, Skill: skill, State: state}
	if f.Invoker, f.withheld, err = c.invoker(ctx, l, skill, c.load); err != nil {
		err.SkillID = l.ID
		return Found{}, err
	}
	return f, nil
}

// invoker is the source as which a skill may be invoked. A registry has no secrets
// of its own: its skills are invoked with those of a provider whose hosts allow that,
// if the provider's own index lists the same skill with the same descriptor, or the
// operator trusts the registry with them; else with none. Of the provider that has a
// credential for the skill but does not list it, withheld is the one. The indexes are
// read with table, which returns nil where an index is not known and the caller does
// not wait for it. An error means that it can't be told.
func (c *Catalog) invoker(ctx context.Context, l *Listed, skill *discovery.Skill, table loadTable) (invoker, withheld *Section, err *run.Failure) {
	if l.Section.Kind != RegistrySource {
		return l.Section, nil, nil
	}
	protected := skill.Auth.Type != document.AuthNone
	if !protected {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, openSkillTimeout)
		defer cancel()
	}
	for _, p := range c.sections {
		if p.Kind != ProviderSource || !skill.Hosts(p.Client.AllowedHosts) || !p.identifies(skill) {
			continue
		}
		if slices.Contains(p.TrustRegistries, l.Section.Namespace) {
			return p, nil, nil
		}
		t, e := table(ctx, p)
		switch {
		case e != nil:
			err = cmp.Or(err, e)
		case t == nil || t.lists(l):
			return p, nil, nil
		case withheld == nil:
			withheld = p
		}
	}
	if !protected {
		return l.Section, nil, nil // it needs none
	}
	return l.Section, withheld, err
}

// loadTable returns the names of a source.
type loadTable func(ctx context.Context, s *Section) (*nameTable, *run.Failure)

// openSkillTimeout is how long a call of a skill without authentication waits for the
// index of a provider that could only add a client certificate.
const openSkillTimeout = 2 * time.Second
