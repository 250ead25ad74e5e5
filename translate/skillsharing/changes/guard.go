package changes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Change is a change that a [Guard] has noticed.
type Change struct {
	SkillID string
	Digest  string   // of what the new descriptor asks for
	Parts   []string // skill, description, endpoint, inputs, auth
	Held    bool
}

// Config configures a [Guard].
type Config struct {
	// Single says that the source has a single skill, which remains the same skill with another id.
	Single bool
	// Store keeps the descriptors in use, and those that are held. nil: changes are only reported, and compared with the descriptor that this
	// process has read before.
	Store Store
	// Report is called once for each change. It must return quickly.
	Report func(Change)
}

// Guard notices changes of the descriptors of one source. It is safe for concurrent use.
type Guard struct {
	config Config

	mu    sync.RWMutex
	known map[string]*skill
	owned map[string]*asked // by names, without a store

	words words
}

// New returns a guard.
func New(config Config) *Guard {
	return &Guard{config: config, known: map[string]*skill{}, owned: map[string]*asked{}, words: words{of: map[string]*kept{}, owners: map[string]string{}, names: map[string]bool{}}}
}

// skill is what is known about the descriptors of a skill. Without a store, it has only what it asks for, what was reported and the verdict.
type skill struct {
	mu       sync.Mutex
	asked    *asked                        // by the last, without a store; nil: there was none
	last     weak.Pointer[discovery.Skill] // that was compared; weak, so that the cache decides how long it is in memory
	print    fingerprint                   // of the last
	digest   string
	digests  []string         // of the descriptors that may be used
	names    discovery.Names  // that the skill may have
	held     *discovery.Skill // is used instead of the last; nil: the last is used
	base     string           // the digest of held
	instead  string           // the digest of the descriptor instead of which it is used
	waits    bool             // a change was found, which is held
	failure  *run.Failure     // of the last attempt to use the store; nil: it did not fail
	checked  time.Time        // when the store was asked about held
	reported []string         // digests
	verdict  atomic.Pointer[verdict]
}

// verdict says which descriptor is used instead of one that was read.
type verdict struct {
	read  weak.Pointer[discovery.Skill]
	names discovery.Names
	held  *discovery.Skill // nil: the one that was read is used
}

// is reports whether the verdict is about a descriptor that was read.
func (v *verdict) is(read *discovery.Skill, names discovery.Names) bool {
	return v != nil && v.read == weak.Make(read) && v.names == names
}

const (
	// maxSkills bounds the skills in memory. Forgetting one costs an access to the store; without one, its next change is not noticed.
	maxSkills = 20_000
	// recheck is how long a held change is not looked up in the store, where another instance may have approved it.
	recheck = 5 * time.Second
	// maxReported bounds the digests of changes of a skill that were reported.
	maxReported = 16
)

// key returns the id under which a skill is kept.
func (g *Guard) key(id string) string {
	if g.config.Single {
		return ""
	}
	return id
}

// skill returns what is known about a skill. If nothing was, it is new.
func (g *Guard) skill(id string) *skill {
	g.mu.RLock() // every call asks
	s := g.known[g.key(id)]
	g.mu.RUnlock()
	if s != nil {
		return s
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if s = g.known[g.key(id)]; s == nil {
		share.MakeRoom(g.known, maxSkills)
		s = new(skill)
		g.known[g.key(id)] = s
	}
	return s
}

var _ discovery.Guard = (*Guard)(nil)

// Settled implements [discovery.Guard].
func (g *Guard) Settled(read *discovery.Skill, names discovery.Names) *discovery.Skill {
	if g.config.Store == nil {
		return read
	}
	s := g.skill(read.ID)
	v := s.verdict.Load()
	if v.is(read, names) {
		return cmp.Or(v.held, read)
	}
	// It was read again, or before the configuration was loaded.
	if !g.words.permit(g.key(read.ID), fingerprintOf(read.Descriptor).digest(), names) {
		return nil
	}
	s.verdict.CompareAndSwap(v, &verdict{read: weak.Make(read), names: names})
	return read
}

// Settle implements [discovery.Guard].
func (g *Guard) Settle(ctx context.Context, r *discovery.Reader, read *discovery.Skill, names discovery.Names) (*discovery.Skill, *run.Failure) {
	if g.config.Store == nil {
		g.note(read, names)
		return read, nil
	}
	s := g.skill(read.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	sameNames := s.names == names
	if same := s.last == weak.Make(read) && sameNames; same && s.held == nil {
		return read, nil
	} else if same && time.Since(s.checked) < recheck {
		return s.held, nil
	} else if !same {
		s.print = fingerprintOf(read.Descriptor)
		s.digest = s.print.digest()
	}
	ctx = context.WithoutCancel(ctx) // a caller that hangs up must not decide
	if sameNames && slices.Contains(s.digests, s.digest) {
		return s.accept(ctx, g, read), nil
	}
	if sameNames && s.failure != nil && time.Since(s.checked) < recheck {
		return nil, new(*s.failure)
	}
	s.names = names
	used, failure := g.decide(ctx, r, s, read)
	if s.failure = failure; failure != nil {
		s.last, s.checked = weak.Pointer[discovery.Skill]{}, time.Now()
		return nil, new(*failure)
	}
	return used, nil
}

// get returns the record of a skill; nil: there is none.
func (g *Guard) get(ctx context.Context, kind Kind, key string) (*Record, error) {
	return g.config.Store.Get(ctx, kind, g.config.Store.Name(key))
}

// put stores the record of a skill as [Store] says.
func (g *Guard) put(ctx context.Context, kind Kind, key string, r *Record) (stored bool, err error) {
	return g.config.Store.Put(ctx, kind, g.config.Store.Name(key), r)
}

// report reports a change, unless it is among those that were reported.
func (g *Guard) report(reported *[]string, c Change) {
	if slices.Contains(*reported, c.Digest) {
		return
	}
	*reported = append(*reported, c.Digest)
	if len(*reported) > maxReported {
		*reported = (*reported)[1:]
	}
	g.config.Report(c)
}

// accept lets a descriptor be used. What was held is dropped: the provider has returned to this one.
func (s *skill) accept(ctx context.Context, g *Guard, read *discovery.Skill) *discovery.Skill {
	if s.waits {
		_ = g.config.Store.Drop(ctx, g.config.Store.Name(g.key(read.ID))) // otherwise it can be approved later, which does no harm
	}
	s.last, s.held, s.waits = weak.Make(read), nil, false
	g.settled(s, read.ID, read)
	return read
}

// decide decides by the store which descriptor is used.
func (g *Guard) decide(ctx context.Context, r *discovery.Reader, s *skill, read *discovery.Skill) (*discovery.Skill, *run.Failure) {
	id := g.key(read.ID)
	other, free, err := g.owners(ctx, id, s.names)
	if err != nil {
		return nil, unknown(read, "the skills that had its name can't be read", err)
	}
	if other != "" {
		return g.replace(ctx, r, s, read, other)
	}
	used, err := g.get(ctx, InUse, id)
	if err == nil && used == nil {
		used = recordOf(read, s.digest, s.names)
		var first bool
		if first, err = g.put(ctx, InUse, id, used); err == nil && !first {
			used, err = g.get(ctx, InUse, id)
		}
		if err == nil && used == nil {
			err = errContended
		}
	}
	if err != nil {
		return nil, unknown(read, "the descriptor that is in use can't be read or stored", err)
	}
	if s.digests = used.Digests; len(s.digests) == 0 {
		return nil, unknown(read, "the record of the descriptor that is in use is damaged", errDamaged)
	}
	for _, name := range free {
		stored, err := g.config.Store.Own(ctx, name, Owners{IDs: []string{id}})
		if err != nil {
			return nil, unknown(read, "its name can't be stored", err)
		}
		if !stored { // another process has given the name to a skill just now
			return g.decide(ctx, r, s, read)
		}
		g.words.own(name, id)
	}
	if slices.Contains(s.digests, s.digest) {
		return s.accept(ctx, g, read), nil
	}
	if kept, err := discovery.Restore(r, used.Document, used.URL, used.Way); err == nil && fingerprintOf(kept.Descriptor) == s.print { // the bridge made digests in another way then
		s.digests = append(slices.Clip(s.digests), s.digest)
		return s.accept(ctx, g, read), nil
	}
	return g.instead(ctx, r, s, read, used, "")
}

// instead holds the descriptor that was read and returns the one that is used instead of it, which is that of another skill if its key is not empty.
func (g *Guard) instead(ctx context.Context, r *discovery.Reader, s *skill, read *discovery.Skill, used *Record, other string) (*discovery.Skill, *run.Failure) {
	s.last, s.checked = weak.Make(read), time.Now()
	since, err := g.hold(ctx, s, read, other)
	if err != nil {
		return nil, unknown(read, "the change can't be stored", err)
	}
	if base := used.Digests[0]; s.held != nil && s.base == base && s.instead == s.digest {
		g.settled(s, read.ID, s.held)
		return s.held, nil
	}
	held, err := discovery.Restore(r, used.Document, used.URL, used.Way)
	if err != nil {
		return nil, unknown(read, "the descriptor that is in use is no longer valid here", err)
	}
	held.Held = &discovery.Held{Since: since, Parts: changed(s.print, fingerprintOf(held.Descriptor))}
	s.held, s.base, s.instead = held, used.Digests[0], s.digest
	g.settled(s, read.ID, held)
	g.report(&s.reported, Change{SkillID: read.ID, Digest: s.digest, Parts: held.Held.Parts, Held: true})
	return held, nil
}

// settled notes which descriptor is used instead of the last.
func (g *Guard) settled(s *skill, id string, used *discovery.Skill) {
	s.verdict.Store(&verdict{s.last, s.names, s.held})
	g.words.set(g.key(id), discovery.NewWords(used.Descriptor), s.digests)
}

// hold stores the descriptor that is held, unless it is stored, and returns since when it is.
func (g *Guard) hold(ctx context.Context, s *skill, read *discovery.Skill, other string) (since time.Time, err error) {
	s.waits = true
	held := recordOf(read, s.digest, s.names)
	held.Instead = other
	for range maxTries {
		known, err := g.get(ctx, OnHold, g.key(read.ID))
		if err != nil {
			return time.Time{}, err
		}
		if known != nil {
			if slices.Equal(known.Digests, held.Digests) && known.Instead == other && slices.Equal(known.Names, held.Names) {
				return known.At, nil
			}
			held.Version = known.Version
		}
		if stored, err := g.put(ctx, OnHold, g.key(read.ID), held); stored || err != nil {
			return held.At, err
		}
	}
	return time.Time{}, errContended
}

// maxTries bounds how often something is stored because other processes have stored something else in between.
const maxTries = 10

var errContended = errors.New("other instances change it all the time")

func recordOf(read *discovery.Skill, digest string, names discovery.Names) *Record {
	r := &Record{SkillID: read.ID, Names: listOf(names), At: time.Now().UTC(), Digests: []string{digest}, Document: document.WithoutBOM(read.Document), URL: origin(read.URL)}
	for _, u := range read.Way {
		r.Way = append(r.Way, origin(u))
	}
	return r
}

// origin returns the parts of a URL that [discovery.Skill] uses.
func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

var errDamaged = errors.New("it has no digest")

// unknown returns the failure of a call for which it is not known whether the descriptor may be used.
func unknown(read *discovery.Skill, what string, err error) *run.Failure {
	f := run.NotExecuted(run.Internal, run.PhaseDescriptor, "The bridge can't tell whether the provider has changed this skill: "+what+".")
	f.SkillID, f.Advice, f.Cause = read.ID, run.AskOperator+": the log has the reason.", fmt.Errorf("on_change hold: %s: %w", what, err)
	return f
}

// asked is what a skill asks for, by the last descriptor.
type asked struct {
	key string
	fingerprint
}

// note notes a descriptor. It reports a change since the last one that this process has read for the skill, or for another one that had its name.
func (g *Guard) note(read *discovery.Skill, names discovery.Names) {
	s := g.skill(read.ID)
	if s.verdict.Load().is(read, names) { // as for nearly all calls
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.verdict.Load().is(read, names) {
		return
	}
	before, now := s.asked, &asked{g.key(read.ID), fingerprintOf(read.Descriptor)}
	if other := g.takeOver(now, names); other != nil {
		before = other
	}
	if before != nil && before.fingerprint != now.fingerprint {
		g.report(&s.reported, Change{SkillID: read.ID, Digest: now.digest(), Parts: changed(now.fingerprint, before.fingerprint)})
	}
	s.asked = now
	s.verdict.Store(&verdict{read: weak.Make(read), names: names})
}

// takeOver notes that a skill has names, and returns another one that had one of them, or nil.
func (g *Guard) takeOver(now *asked, names discovery.Names) (before *asked) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range listOf(names) {
		if other := g.owned[name]; other != nil && other.key != now.key {
			before = other
		}
		share.MakeRoom(g.owned, 2*maxSkills)
		g.owned[name] = now
	}
	return before
}
