package catalog

import (
	"context"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// List returns the skills of one source that a caller may see, without pages.
func (c *Catalog) List(ctx context.Context, s *Section, principal string) (entries []Entry, failure *run.Failure) {
	v, failure := s.View(ctx, principal)
	if failure != nil {
		return nil, failure
	}
	for _, e := range v.table.entries {
		if v.lists(e, "") {
			entries = append(entries, v.table.entry(ctx, e))
		}
	}
	return entries, nil
}
