package changes

import (
	"context"
	"errors"
	"slices"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
)

// A provider can give the name of a skill to another one: the name follows from the id, and several ids can have the same name. Callers know a skill
// by its name. So another skill under a name that was in use is a change of the skill that had it.

// listOf returns the names that are not empty.
func listOf(names discovery.Names) []string {
	return slices.DeleteFunc(names[:], func(name string) bool { return name == "" })
}

// owners returns another skill that had one of the names, and the names that no skill had.
func (g *Guard) owners(ctx context.Context, id string, names discovery.Names) (other string, free []string, err error) {
	for _, name := range listOf(names) {
		owners, err := g.config.Store.Owners(ctx, name)
		switch {
		case err != nil:
			return "", nil, err
		case len(owners.IDs) == 0:
			free = append(free, name)
		case !slices.Contains(owners.IDs, id):
			other = owners.IDs[0]
		}
	}
	return other, free, nil
}

// giveNames lets a skill have names. Those that had them before may have them again.
func (g *Guard) giveNames(ctx context.Context, id string, names []string) error {
	for _, name := range names {
		stored := false
		for try := 0; try < maxTries && !stored; try++ {
			owners, err := g.config.Store.Owners(ctx, name)
			if err != nil {
				return err
			}
			ids := append([]string{id}, slices.DeleteFunc(owners.IDs, func(other string) bool { return other == id })...)
			owners.IDs = ids[:min(len(ids), maxDigests)]
			if stored, err = g.config.Store.Own(ctx, name, owners); err != nil {
				return err
			}
		}
		if !stored {
			return errContended
		}
		g.words.own(name, id)
	}
	return nil
}

// replace holds a skill that has the name of another one. The other one is used instead, unless the skill was used under another name before: then
// it must not stand for the other one, nor the other one for it.
func (g *Guard) replace(ctx context.Context, r *discovery.Reader, s *skill, read *discovery.Skill, other string) (*discovery.Skill, *run.Failure) {
	used, err := g.get(ctx, InUse, other)
	if err == nil && (used == nil || len(used.Digests) == 0) {
		err = errDamaged
	}
	var own *Record
	if err == nil {
		own, err = g.get(ctx, InUse, g.key(read.ID))
	}
	if err != nil {
		return nil, unknown(read, "the skill that had its name can't be read", err)
	}
	s.digests = nil
	if own == nil {
		return g.instead(ctx, r, s, read, used, other)
	}
	known, err := g.get(ctx, OnHold, g.key(read.ID))
	if err == nil {
		_, err = g.hold(ctx, s, read, other)
	}
	if err != nil {
		return nil, unknown(read, "the change can't be stored", err)
	}
	if known == nil || known.Instead != other {
		g.report(&s.reported, Change{SkillID: read.ID, Digest: s.digest, Parts: partNames[:1], Held: true})
	}
	f := run.NotExecuted(run.Internal, run.PhaseDescriptor, "The name of this skill was the name of another skill of its provider.")
	f.SkillID, f.Advice = read.ID, run.AskOperator+" to look at the change and approve it."
	f.Cause = errors.New("on_change hold: the name was that of the skill " + other + ": caddy skill-bridge approve")
	return nil, f
}

// own notes that a skill has a name.
func (w *words) own(name, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owners[name] = key
}
