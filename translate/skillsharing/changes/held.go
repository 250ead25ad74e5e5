package changes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema"
)

// HeldChange is a change that waits for approval.
type HeldChange struct {
	SkillID     string
	Digest      string
	Since       time.Time
	Parts       []string
	Differences []Difference
	More        int // differences that a list leaves out
}

// Bounds of a list of held changes. A change by itself has all its differences.
const (
	maxListed      = 100
	maxListedBytes = 1 << 20 // of differences
)

// Held returns the changes that wait for approval, in the order of the ids, and how many further ones there are. If there are too many, those of
// the ids that the source lists come first. A change whose differences have no room has none of them.
func (g *Guard) Held(ctx context.Context, listed func() []string) (list []HeldChange, more int, err error) {
	store := g.config.Store
	if store == nil {
		return nil, 0, nil
	}
	names, err := store.Names(ctx, OnHold)
	if err != nil {
		return nil, 0, err
	}
	if len(names) > maxListed {
		first := map[string]int{}
		for _, id := range listed() {
			first[store.Name(g.key(id))] = -1
		}
		slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(first[a], first[b]), strings.Compare(a, b)) })
	}
	room := maxListedBytes
	for i, name := range names {
		if len(list) == maxListed {
			more = len(names) - i
			break
		}
		held, err := store.Get(ctx, OnHold, name)
		if err != nil {
			return nil, 0, err
		}
		c, err := g.change(ctx, held)
		if err != nil {
			return nil, 0, err
		}
		if c == nil {
			continue
		}
		size := 0
		for _, d := range c.Differences {
			size += len(d.Path) + len(d.Was) + len(d.Now)
		}
		if size > room {
			c.Differences, c.More = nil, len(c.Differences)
		} else {
			room -= size
		}
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b HeldChange) int { return strings.Compare(a.SkillID, b.SkillID) })
	return list, more, nil
}

// HeldOf returns the change of a skill that waits for approval, with all differences; nil: there is none.
func (g *Guard) HeldOf(ctx context.Context, id string) (*HeldChange, error) {
	if g.config.Store == nil {
		return nil, nil
	}
	held, err := g.get(ctx, OnHold, g.key(id))
	if err != nil {
		return nil, err
	}
	return g.change(ctx, held)
}

// stored reads a descriptor, which was valid by the limits of its source when it was stored.
func stored(text []byte) (*document.Descriptor, error) {
	limits := document.Limits{SchemaSize: schema.MaxBound}
	return limits.ReadDescriptor(text, func([]document.Parameter, []any) jsonvalue.Violations { return nil })
}

// change returns the change of a descriptor that is held; nil: another process has removed or approved it.
func (g *Guard) change(ctx context.Context, held *Record) (*HeldChange, error) {
	if held == nil {
		return nil, nil
	}
	used, err := g.get(ctx, InUse, cmp.Or(held.Instead, g.key(held.SkillID)))
	if err != nil {
		return nil, err
	}
	if used == nil || len(held.Digests) != 1 || slices.Contains(used.Digests, held.Digests[0]) {
		return nil, nil
	}
	was, err := stored(used.Document)
	if err != nil {
		return nil, fmt.Errorf("the descriptor of %s that is in use: %w", held.SkillID, err)
	}
	now, err := stored(held.Document)
	if err != nil {
		return nil, fmt.Errorf("the descriptor of %s that is held: %w", held.SkillID, err)
	}
	return &HeldChange{
		SkillID: held.SkillID, Digest: held.Digests[0], Since: held.At, Parts: changed(fingerprintOf(now), fingerprintOf(was)), Differences: Compare(was, now),
	}, nil
}

// Approve lets the held descriptor of a skill be used, if what it asks for has this digest.
func (g *Guard) Approve(ctx context.Context, id, digest string) error {
	if g.config.Store == nil {
		return ErrNotHeld
	}
	key := g.key(id)
	stored, err := false, error(nil)
	for try := 0; try < maxTries && !stored && err == nil; try++ {
		stored, err = g.approve(ctx, key, digest)
	}
	if err == nil && !stored {
		err = errContended
	}
	g.mu.Lock()
	delete(g.known, key)
	g.mu.Unlock()
	if used, failed := g.get(ctx, InUse, key); failed == nil && used != nil { // also if another guard has approved it just before
		g.words.set(key, wordsOf(used), used.Digests)
	}
	return err
}

// approve does what Approve says, unless another process changes what is stored in between.
func (g *Guard) approve(ctx context.Context, key, digest string) (stored bool, err error) {
	held, err := g.get(ctx, OnHold, key)
	if err != nil {
		return false, err
	}
	if held == nil {
		return false, ErrNotHeld
	}
	used, err := g.get(ctx, InUse, cmp.Or(held.Instead, key))
	switch {
	case err != nil:
		return false, err
	case used == nil || len(held.Digests) != 1:
		return false, ErrNotHeld
	case held.Digests[0] != digest:
		return false, ErrOther
	}
	held.Digests, held.At, held.Version = append(held.Digests, used.Digests...), time.Now().UTC(), used.Version
	held.Digests = held.Digests[:min(len(held.Digests), maxDigests)]
	if held.Instead != "" {
		own, err := g.get(ctx, InUse, key)
		if err != nil {
			return false, err
		}
		held.Instead, held.Version = "", 0
		if own != nil {
			held.Version = own.Version
		}
	}
	if stored, err := g.put(ctx, InUse, key, held); !stored || err != nil {
		return false, err
	}
	if err := g.giveNames(ctx, key, held.Names); err != nil {
		return false, err
	}
	return true, g.config.Store.Drop(ctx, g.config.Store.Name(key))
}
