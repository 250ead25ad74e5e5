// Package inspection finds out what is wrong with the sources and rules of a configuration, without a call of a skill.
package inspection

import (
	"context"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Source is what [Of] has found out about a source.
type Source struct {
	Namespace string
	Kind      catalog.SourceKind
	URL       string // without userinfo, query and fragment
	// Failure says why the source can't be read; nil: it was read.
	Failure *run.Failure
	// Skills are all that the source lists, in the order of their names.
	Skills []Skill
	// LeftOut are entries that are not listed, and aliases for none.
	LeftOut catalog.LeftOut
	// Credentials says that there are credentials for invocations; APIKey, that they are an API key.
	Credentials, APIKey bool
	// Unused says that no skill that could be read needs them. Then they got a token if they can without a descriptor (TokenTried), and TokenFailure
	// says why they got none.
	Unused, TokenTried bool
	TokenFailure       *run.Failure
}

// Skill is what [Of] has found out about a skill.
type Skill struct {
	Name string
	Tool string // empty: it has none, since several skills would have the same
	// Failure says why the skill can't be called; nil: no reason is known without a call.
	Failure *run.Failure
	// Notice names the setting that lets a host receive the credential, if the Failure is that it may not; else nil.
	Notice *exchange.Notice
	// CredentialsOf is the namespace of the source whose credentials a call of the skill sends; empty: it sends none.
	CredentialsOf string
	// Untried says that the skill needs a credential that only a call can try.
	Untried bool
	// Changed are the parts that the provider has changed since its earlier descriptor, which is used until the change is approved.
	Changed []string
	// Descriptor is that of the skill; nil: it could not be read.
	Descriptor *document.Descriptor
}

const (
	// inspectedAtOnce is how many skills of a source are inspected at a time.
	inspectedAtOnce = 8
	// timeout bounds how long each list, descriptor and token is waited for.
	timeout = 10 * time.Second
)

// Of finds out whether each source of a catalog can be read and each skill can be called, as far as that is possible without a call. It reads
// all documents, and applies the credentials to requests that it does not send; to do so, they may get tokens. It neither counts as
// a call nor has limits: it is for an operator who checks a configuration.
func Of(ctx context.Context, c *catalog.Catalog) []Source {
	sections := c.Sections()
	list := make([]Source, len(sections))
	var group panics.Group
	for i, s := range sections {
		group.Go(func() { list[i] = inspectSource(ctx, c, s) })
	}
	group.Wait()
	used := map[string]bool{}
	for i := range list {
		for j := range list[i].Skills {
			used[list[i].Skills[j].CredentialsOf] = true
		}
	}
	for i, s := range sections {
		if list[i].Unused = list[i].Credentials && !used[s.Namespace]; list[i].Unused {
			group.Go(func() {
				reading, cancel := context.WithTimeout(ctx, timeout)
				defer cancel()
				list[i].TokenTried, list[i].TokenFailure = s.Client.RehearseToken(reading)
			})
		}
	}
	group.Wait()
	for _, l := range c.LeftOut(ctx) {
		for i := range list {
			if list[i].Namespace == l.Namespace {
				list[i].LeftOut = l
			}
		}
	}
	return list
}

func inspectSource(ctx context.Context, c *catalog.Catalog, s *catalog.Section) Source {
	source := Source{Namespace: s.Namespace, Kind: s.Kind, URL: exchange.BareURL(s.URL), Credentials: s.Credentials != nil}
	source.APIKey = source.Credentials && s.Credentials.Supports(&document.Auth{Type: document.AuthAPIKey})
	reading, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var listed []*catalog.Listed
	if listed, source.Failure = s.All(reading); source.Failure != nil {
		return source
	}
	source.Skills = make([]Skill, len(listed))
	var group panics.Group
	group.SetLimit(inspectedAtOnce)
	for i, l := range listed {
		group.Go(func() { source.Skills[i] = inspectSkill(ctx, c, l) })
	}
	group.Wait()
	return source
}

func inspectSkill(ctx context.Context, c *catalog.Catalog, l *catalog.Listed) Skill {
	skill := Skill{Name: l.Name, Tool: l.Tool(ctx, "")}
	reading, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found, failure := c.Read(reading, l, "")
	if failure != nil {
		skill.Failure = failure
		return skill
	}
	skill.Descriptor = found.Skill.Descriptor
	if found.Skill.Held != nil {
		skill.Changed = found.Skill.Held.Parts
	}
	if skill.Failure, skill.Notice = found.Withhold(); skill.Failure != nil {
		return skill
	}
	if found.Skill.NeedsCredential() {
		skill.CredentialsOf = found.Invoker.Namespace
		o, obtained := found.Invoker.Credentials.(credential.Obtainer)
		_, personal := found.Invoker.Credentials.(credential.Personal)
		skill.Untried = !personal && (!obtained || !o.Obtains())
	}
	skill.Failure, skill.Notice = found.Invoker.Client.Rehearse(ctx, found.Skill)
	return skill
}
