package changes

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
)

// note is what is known about the descriptors of a skill without a store. There is one for each skill in use, so it is small.
type note struct {
	last atomic.Pointer[compared] // nil: there was none

	mu       sync.Mutex // held during a comparison
	asked    *asked     // by the last; nil: there was none
	reported []string   // digests
}

// compared is the descriptor that was compared last; weak, so that the cache decides how long it is in memory.
type compared struct {
	skill weak.Pointer[discovery.Skill]
	names discovery.Names
}

func (c *compared) is(read *discovery.Skill, names discovery.Names) bool {
	return c != nil && c.skill == weak.Make(read) && c.names == names
}

// asked is what a skill asks for, by the last descriptor. The hashes are short, to save memory. The seed of the guard is secret, so that a
// provider can't look for two descriptors with the same hashes.
type asked struct {
	key   string
	parts [len(partNames)]uint64
}

func (g *Guard) askedBy(key string, p *fingerprint) *asked {
	a := &asked{key: key}
	for i := range p {
		a.parts[i] = maphash.Bytes(g.seed, p[i][:])
	}
	return a
}

// note notes a descriptor. It reports a change since the last one that this process has read for the skill, or for another one that had its name.
func (g *Guard) note(read *discovery.Skill, names discovery.Names) {
	n := entry(g, g.notes, read.ID)
	if n.last.Load().is(read, names) { // as for nearly all calls
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last.Load().is(read, names) {
		return
	}
	hashes := fingerprintOf(read.Descriptor)
	before, now := n.asked, g.askedBy(g.key(read.ID), &hashes)
	if other := g.takeOver(now, names); other != nil {
		before = other
	}
	if before != nil && before.parts != now.parts {
		g.report(&n.reported, Change{SkillID: read.ID, Digest: hashes.digest(), Parts: changed(now.parts, before.parts)})
	}
	n.asked = now
	n.last.Store(&compared{weak.Make(read), names})
}

// takeOver notes that a skill has names, and returns another one that had one of them, or nil.
func (g *Guard) takeOver(now *asked, names discovery.Names) (before *asked) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range listOf(names) {
		if other := g.owned[name]; other != nil && other.key != now.key {
			before = other
		}
		for other := range g.owned {
			if len(g.owned) < 2*maxSkills {
				break
			}
			delete(g.owned, other)
		}
		g.owned[name] = now
	}
	return before
}
