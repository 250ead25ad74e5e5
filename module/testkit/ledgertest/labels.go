package ledgertest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// labels are the methods of a [Store] about labels.
type labels struct{ s *Store }

// maxLooks is how many entries a page looks at.
const maxLooks = 1000

// Labelled implements [ledger.Store].
func (l labels) Labelled(ctx context.Context, q *ledger.LabelQuery) (*ledger.LabelPage, error) {
	s := l.s
	return statement(ctx, s, "labelled", func() (*ledger.LabelPage, error) {
		order := func(a, b *ledger.Entry) int {
			return cmp.Or(b.Label.At.Compare(a.Label.At), strings.Compare(b.ID, a.ID))
		}
		after := &ledger.Entry{ID: q.AfterID, Label: ledger.Label{At: q.After}}
		page, bytes, counted, looked := &ledger.LabelPage{Apart: map[string][]byte{}}, int64(0), 0, 0
		for _, e := range slices.SortedFunc(maps.Values(s.entries), order) {
			of := e.Label
			if e.Owner != q.Owner || of.State == 0 || of.At.Before(q.Since) {
				continue
			}
			fits := s.used(e.Identity()) != nil && (q.Group == "" || q.Group == of.Group) && (q.Skill == "" || q.Skill == e.Skill) && (q.State == 0 || q.State == of.State)
			if counted++; fits && counted <= maxLooks {
				page.Total++
			}
			if page.More || looked == maxLooks || q.AfterID != "" && order(e, after) <= 0 {
				continue
			}
			looked++
			if fits {
				bytes += int64(len(e.Notes) + len(e.Outcome))
				if q.Whole {
					bytes += e.Apart
				}
				if n := len(page.Entries); n == q.Limit || n > 0 && bytes > q.Bytes {
					page.More = true
					continue
				}
				page.Entries = append(page.Entries, s.copied(e))
				if q.Whole && e.Apart > 0 {
					page.Apart[e.ID] = s.outcomes[e.Identity()]
				}
			}
			page.NextAt, page.NextID = of.At, e.ID
		}
		page.More = page.More || looked == maxLooks
		return page, nil
	})
}

// Unname implements [ledger.Store].
func (l labels) Unname(ctx context.Context, id ledger.Identity) error {
	s := l.s
	_, err := statement(ctx, s, "unname", func() (bool, error) {
		if e := s.entries[id]; e != nil && e.State.Ended() && e.Key != nil {
			delete(s.keys, keyOf(e.Owner, e.Key))
			without := *e
			without.Key = nil
			s.entries[id] = &without
		}
		return true, nil
	})
	return err
}

// Evict implements [ledger.Store].
func (l labels) Evict(ctx context.Context, owner ledger.Owner, most int) (int, error) {
	s := l.s
	return statement(ctx, s, "evict", func() (n int, _ error) {
		for _, e := range slices.SortedFunc(maps.Values(s.entries), func(a, b *ledger.Entry) int { return strings.Compare(a.ID, b.ID) }) {
			if n < most && e.Owner == owner && e.State.Ended() && e.Label.State != 0 {
				delete(s.entries, e.Identity())
				delete(s.outcomes, e.Identity())
				n++
			}
		}
		return n, nil
	})
}
