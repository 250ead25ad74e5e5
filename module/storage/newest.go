package storage

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// ofOwner is an id in the folder of a day of an owner.
type ofOwner struct{ folder, id string }

// Newest yields the newest records of the newest ids of all owners except one, up to most of them, the newest day first. It reads only
// the records of ids that are needed. The records have no owner: the storage has only hashes of owners. It lists all days of all
// owners, so it is for the operator.
func (s *Records) Newest(ctx context.Context, except string, most int, need func(id string) bool) iter.Seq2[*run.Record, error] {
	return func(yield func(*run.Record, error) bool) {
		days, err := s.days(ctx, except)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, day := range slices.Backward(slices.Sorted(maps.Keys(days))) {
			if most <= 0 {
				return
			}
			var found []ofOwner
			places := map[string]map[string]place{} // by folder and id
			for _, folder := range days[day] {
				if places[folder], err = s.places(ctx, folder); err != nil {
					yield(nil, err)
					return
				}
				for id := range places[folder] {
					if need(id) {
						found = append(found, ofOwner{folder, id})
					}
				}
			}
			slices.SortFunc(found, func(a, b ofOwner) int {
				return cmp.Or(strings.Compare(b.id, a.id), strings.Compare(a.folder, b.folder))
			})
			found = found[:min(most, len(found))]
			most -= len(found)
			ids := map[string][]string{} // by folder, in ascending order
			for _, f := range slices.Backward(found) {
				ids[f.folder] = append(ids[f.folder], f.id)
			}
			for folder, of := range ids {
				if !s.yieldDay(ctx, "", folder, of, places[folder], func(string, run.Version) bool { return true }, yield) {
					return
				}
			}
		}
	}
}

// days returns the folders of the days of all owners except one, by day.
func (s *Records) days(ctx context.Context, except string) (map[string][]string, error) {
	owners, err := s.list(ctx, s.root, false)
	days := map[string][]string{}
	for _, owner := range owners {
		folder := path.Join(s.root, owner)
		if !isDigest(owner) || folder == s.ownerKey(except) {
			continue
		}
		of, failed := s.list(ctx, folder, false)
		if err = cmp.Or(err, failed, ctx.Err()); err != nil { // the file storage does not look at the context
			return nil, err
		}
		for _, day := range of {
			if day != namesKey {
				days[day] = append(days[day], path.Join(folder, day))
			}
		}
	}
	return days, err
}

// Find returns the newest record of an id, of whichever owner except one. It has no owner. The error is [run.ErrNoRecord] if there is none.
func (s *Records) Find(ctx context.Context, except, id string) (*run.Record, error) {
	day, err := dayOf(id)
	if err != nil {
		return nil, run.ErrNoRecord // Put refuses such an id
	}
	days, err := s.days(ctx, except)
	if err != nil {
		return nil, err
	}
	for _, folder := range days[day] {
		r, failed := s.get(ctx, folder, id)
		if r != nil || ctx.Err() != nil {
			return r, cmp.Or(failed, ctx.Err())
		}
		if !errors.Is(failed, run.ErrNoRecord) {
			err = cmp.Or(err, failed)
		}
	}
	return nil, cmp.Or(err, run.ErrNoRecord)
}
