package changes

import (
	"sync"
	"sync/atomic"
	"weak"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
)

// note is what is known about the descriptors of a skill without a store.
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

// asked is what a skill asks for, by the last descriptor.
type asked struct {
	key string
	fingerprint
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
	before, now := n.asked, &asked{g.key(read.ID), fingerprintOf(read.Descriptor)}
	if other := g.takeOver(now, names); other != nil {
		before = other
	}
	if before != nil && before.fingerprint != now.fingerprint {
		g.report(&n.reported, Change{SkillID: read.ID, Digest: now.digest(), Parts: changed(now.fingerprint, before.fingerprint)})
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
