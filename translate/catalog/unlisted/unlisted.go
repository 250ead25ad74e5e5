// Package unlisted warns of names that an operator has written in rules and that no skill of their source has.
package unlisted

import (
	"context"
	"log/slog"
	"slices"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/near"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// maxNamed bounds the names in a warning.
const maxNamed = 10

// Source is what a source lists.
type Source struct {
	Namespace string
	Lists     func(name string) bool
	Near      *near.Index // of the names that it lists
	Observer  exchange.Observer
}

// Warn logs the names in some kind of rules that the source does not list, with similar ones.
func (s *Source) Warn(ctx context.Context, rules string, names []string) {
	missing := slices.DeleteFunc(slices.Clone(names), s.Lists)
	if len(missing) == 0 {
		return
	}
	first, similar := missing[:min(len(missing), maxNamed)], []string{}
	for _, name := range first {
		found := near.Find(name, s.Near)
		similar = append(similar, found[:min(len(found), 1)]...)
	}
	s.Observer.Notice(ctx, &exchange.Notice{
		Level: slog.LevelWarn, Source: s.Namespace, Message: rules + " name skills that the source does not list",
		Attrs: []slog.Attr{slog.Int("count", len(missing)), slog.Any("first", first), slog.Any("near", similar)},
	})
}
