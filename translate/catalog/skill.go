package catalog

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Listed is a skill that a source lists, or whose name was resolved. Its descriptor may not have been read.
type Listed struct {
	Section *Section
	Name    string // in lists
	ID      string // id that the descriptor must have; empty: any
	// Hidden says that lists for anonymous callers do not have it: it is private and has no alias.
	Hidden bool
	// IndexEntry is what the index says; nil: there is no index, or it does not list the skill.
	*document.IndexEntry

	descriptor discovery.Location
	plain      string // its name without aliases; empty: it has none
	at         int    // index in nameTable.entries
	aliased    bool
}

// names returns what callers know the skill by, besides aliases and its id.
func (l *Listed) names(ctx context.Context) discovery.Names {
	t := l.Section.table.Load()
	if e := t.withID(l.ID); l.Section.Guard != nil && e != nil && e.Name != "" && !e.aliased {
		return discovery.Names{l.plain, t.toolNames(ctx).names[e.at]}
	}
	return discovery.Names{l.plain}
}

// Named reports whether the skill has a name, or could have it if its source did not list others.
func (l *Listed) Named(name string) bool {
	if name == l.Name || slices.Contains(l.Section.namesOf(l.ID), name) {
		return true
	}
	t := l.Section.table.Load()
	return t != nil && t.byName[name] != nil && t.byName[name].ID == l.ID
}

// Found is a skill whose descriptor was read, and the source whose credentials it is invoked with.
type Found struct {
	*Listed
	Skill   *discovery.Skill
	Invoker *Section
	State   cache.State // of the descriptor
	// unlistedBy is a provider that has a credential for a registry's skill, but does not list the skill, so that the
	// credential is not used. nil: there is none.
	unlistedBy *Section
}

// Withhold returns the failure of calls of a registry's skill whose credential must not be used; nil: there is none.
func (f *Found) Withhold() (*run.Failure, *exchange.Notice) {
	if f.unlistedBy == nil {
		return nil, nil
	}
	return f.unlistedBy.Client.Unlisted(f.Skill, f.Section.Namespace)
}

// Forget removes the descriptor from the cache.
func (f *Found) Forget() { f.Section.Client.Forget(f.descriptor) }

// Denied returns the failure of calls of a principal that the bridge can't send, or for which there is no usable credential; nil: there is one, or none is needed.
func (f *Found) Denied(ctx context.Context, principal string) *run.Failure {
	if e := f.Skill.Unsupported(); e != nil {
		return e
	}
	if e, _ := f.Withhold(); e != nil {
		return e
	}
	if e := f.Invoker.Client.WithoutCredential(f.Skill); e != nil {
		return e
	}
	return f.Unconnected(ctx, principal)
}

// Unconnected returns the failure of calls of a principal whose user has to connect an account, or to consent to some scopes, first; nil: the user has done
// so, needs none, or that is not known.
func (f *Found) Unconnected(ctx context.Context, principal string, scopes ...string) *run.Failure {
	personal, ok := f.Invoker.Credentials.(credential.Personal)
	if !ok || !f.Skill.NeedsCredential() || principal == anyone {
		return nil
	}
	e := personal.Missing(ctx, principal, &f.Skill.Auth, scopes, f.Invoker.Auths)
	if e == nil {
		return nil
	}
	own := *e // calls may share it
	own.SkillID = f.Skill.ID
	return &own
}

// Read reads the descriptor of a listed skill and checks its id and version. An empty version
// matches any.
func (c *Catalog) Read(ctx context.Context, l *Listed, version string) (Found, *run.Failure) {
	skill, state, err := l.read(ctx)
	if err != nil {
		return Found{}, err
	}
	if version != "" && version != skill.Version {
		return Found{}, otherVersion(skill, version)
	}
	f := Found{Listed: l, Skill: skill, State: state}
	if f.Invoker, f.unlistedBy, err = c.invoker(ctx, l, skill, c.load); err != nil {
		err.SkillID = l.ID
		return Found{}, err
	}
	return f, nil
}

// read reads the descriptor of a listed skill and checks its id.
func (l *Listed) read(ctx context.Context) (*discovery.Skill, cache.State, *run.Failure) {
	skill, state, err := l.Section.Client.SkillDocument(ctx, l.descriptor, l.ID, l.names(ctx))
	switch {
	case err != nil:
		err.SkillID = l.ID
	case l.ID != "" && skill.ID != l.ID && skill.Held == nil:
		err = discovery.WrongID(skill, l.ID)
	}
	if err != nil {
		if IsSkillFault(err) {
			l.noteFault(err)
		}
		return nil, 0, err
	}
	l.noteFault(skill.Unsupported())
	t := l.Section.table.Load()
	if e := t.withID(l.ID); e != nil {
		t.words.Know(e.at, skill.Tags) // for searches
	}
	return skill, state, nil
}

// noteFault stores the failure of the skill; nil removes it.
func (l *Listed) noteFault(failure *run.Failure) {
	if l.Section.Kind == SkillSource && l.ID != "" {
		return // l is the skill of an earlier run; the source may offer another one now
	}
	l.Section.Faults.Note(l.ID, failure)
}

// invoker returns the source whose credentials a skill is invoked with. A registry has no credentials. Its skills are invoked with those of a
// provider that may send them to the skill's hosts, if the provider's index lists the same skill with the same descriptor; else with none. The result withheld is the first provider that has credentials for the skill but does not list it. The function table
// returns the names of a provider, or nil if they are not known and reading them would take too long. An error means that an index could not be read.
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
		if p.Kind != ProviderSource || !skill.Hosts(p.Client.AllowedHosts) || !p.hasCredentials(skill) {
			continue
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
		return l.Section, nil, nil // it needs no credential
	}
	return l.Section, withheld, err
}

// loadTable returns the names of a source.
type loadTable func(ctx context.Context, s *Section) (*nameTable, *run.Failure)

// openSkillTimeout is how long a call of a skill without authentication waits for the
// index of a provider that could only add a client certificate.
const openSkillTimeout = 2 * time.Second

// ReadDescriptors reads the descriptors of entries of one source, of which there is at least one, those that the cache does not have as discovery.Stalls says. It sets those that it
// could read and use, and returns the failures of the others, in the order of the entries. It begins to read no further one when it has read most bytes; 0: no bound.
func ReadDescriptors(ctx context.Context, entries []*Entry, most int64) []*run.Failure {
	failures := make([]*run.Failure, len(entries))
	var left atomic.Int64
	left.Store(most)
	read := func(ctx context.Context, i int) (late bool) {
		if most > 0 && left.Load() <= 0 {
			return false
		}
		e := entries[i]
		skill, state, failure := e.listed.read(ctx)
		if failure == nil {
			left.Add(-int64(len(skill.Document)))
			failure = skill.Unsupported()
		}
		if failures[i] = failure; failure != nil {
			return ctx.Err() != nil && failure.Kind != run.RateLimited // a limit says nothing about the host
		}
		e.Descriptor = skill.Descriptor
		if e.Files = skill.Files.Brief(); e.Files == nil { // a list does not hold the other files, which may take 16 MiB each
			e.skill = skill
		}
		return ctx.Err() != nil && state == cache.Stale
	}
	lanes := map[int]discovery.Lane{}
	for i, e := range entries {
		if s := e.Section(); discovery.IsFresh(&s.Client.Reader, e.listed.descriptor) {
			read(ctx, i)
		} else {
			lanes[i] = discovery.LaneOf(e.listed.descriptor, e.listed.ID, s.Kind == RegistrySource)
		}
	}
	entries[0].Section().Stalls.Read(ctx, lanes, read)
	return failures
}
