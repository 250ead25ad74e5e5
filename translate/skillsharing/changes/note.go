package changes

import (
	"weak"

	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
)

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
