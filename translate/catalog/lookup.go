package catalog

import (
	"context"
	"slices"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/faults"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/near"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// lookUp finds a name in one source. With a failure, it also returns a [Listed] that has only
// the source and the name.
func (v viewer) lookUp(ctx context.Context, s *Section, name string) (*Listed, *run.Failure) {
	t, err := v.catalog.load(ctx, s)
	if err != nil {
		return &Listed{Section: s, Name: name}, err
	}
	found := t.visible(t.find(name), v, maxAmbiguous)
	if len(found) == 0 && IsToolName(name) {
		found = t.visible(t.withTool(ctx, name), v, maxAmbiguous)
	}
	switch len(found) {
	case 0:
		if left := t.leftOut(v, name); left != nil {
			return &Listed{Section: s, Name: name}, document.InvalidEntry(left)
		}
		candidates := names(t.withHashedTool(ctx, name, v, maxAmbiguous))
		if len(candidates) == 0 {
			candidates = v.similar(name, t.near)
		}
		return &Listed{Section: s, Name: name}, faults.NotFound(name, candidates, nil)
	case 1:
		return found[0], nil
	}
	return &Listed{Section: s, Name: name}, faults.Ambiguous(name, names(found), nil)
}

// leftOut returns the entry of an index that has a name and can't be used; nil: there is none, or the caller may not know of it, since what an invalid
// entry says of its access does not count.
func (t *nameTable) leftOut(v viewer, name string) *document.LeftOut {
	s := t.section
	if v.role != nil || v.principal == "" && s.DiscoveryCredentials != nil {
		return nil
	}
	for _, index := range t.indexes {
		for i := range index.LeftOut {
			if l := &index.LeftOut[i]; l.ID != "" && (l.ID == name || slices.Contains(s.namesOf(l.ID), name)) {
				return l
			}
		}
	}
	return nil
}

// lookUpTool finds a tool name in the sources that could have it. It returns nil if none has it, and with a
// failure like lookUp.
func (v viewer) lookUpTool(ctx context.Context, name string) (*Listed, *run.Failure) {
	owners := v.catalog.toolOwners(name)
	if len(owners) == 0 {
		return nil, nil
	}
	var found, hashed []*Listed
	var failed *loaded
	for _, r := range v.catalog.loadAll(ctx, func(s *Section) bool { return slices.Contains(owners, s) && s.admits(v) }) {
		switch {
		case r.err == nil:
			found = append(found, r.table.visible(r.table.withTool(ctx, name), v, maxAmbiguous)...)
			hashed = append(hashed, r.table.withHashedTool(ctx, name, v, maxAmbiguous-len(hashed))...)
		case failed == nil || failed.err.Next() == run.NextAskOperator: // a source that may be readable later may have the name, too
			failed = &r
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return &Listed{Section: found[0].Section, Name: name}, faults.Ambiguous(name, names(found[:min(len(found), maxAmbiguous)]), nil)
	case failed != nil:
		return &Listed{Section: failed.section, Name: name}, failed.err
	case len(hashed) > 0:
		return &Listed{Section: hashed[0].Section, Name: name}, faults.NotFound(name, names(hashed), nil)
	}
	return nil, nil
}

// unqualified returns the failure for a name without a namespace if there are several
// sources: the name is ambiguous, or no source has such a skill.
func (v viewer) unqualified(ctx context.Context, name string) *run.Failure {
	var found, unread []string
	var known []*near.Index
	loaded := v.catalog.loadAll(ctx, func(s *Section) bool { return s.Kind != SkillSource && s.admits(v) })
	for _, r := range loaded {
		if r.err != nil {
			unread = append(unread, r.section.Namespace)
			continue
		}
		found = append(found, names(r.table.visible(r.table.find(name), v, max(1, maxAmbiguous/len(loaded))))...)
		known = append(known, r.table.near)
	}
	if len(found) > 0 {
		slices.Sort(found)
		return faults.Ambiguous(name, found[:min(len(found), maxAmbiguous)], unread)
	}
	for _, s := range v.catalog.sections {
		if s.admits(v) {
			known = append(known, s.near)
		}
	}
	return faults.NotFound(name, v.similar(name, known...), unread)
}

// maxAmbiguous bounds the candidates for an ambiguous name. A provider can list thousands of
// ids that differ only in their separators.
const maxAmbiguous = 20
