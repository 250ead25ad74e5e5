package storage

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Sweep implements [run.Store]. If something can't be deleted, Sweep continues with the rest and returns the first error.
func (s *Records) Sweep(ctx context.Context, before time.Time) error {
	owners, err := s.list(ctx, recordsKey)
	if err != nil {
		return err
	}
	var failed error
	for _, owner := range owners {
		folders, err := s.list(ctx, path.Join(recordsKey, owner))
		failed = cmp.Or(failed, err)
		for _, folder := range folders {
			failed = cmp.Or(failed, s.sweepFolder(ctx, path.Join(recordsKey, owner, folder), folder, before))
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return failed
}

// sweepFolder deletes the folder of a day if all its files were written before a time. In the folder of names, it deletes
// each file that was written before it.
func (s *Records) sweepFolder(ctx context.Context, key, folder string, before time.Time) error {
	if folder != namesKey && folder >= before.UTC().Format(dayLayout) {
		return nil
	}
	names, err := s.list(ctx, key)
	if err != nil {
		return err
	}
	var failed error
	for _, name := range names {
		info, err := s.storage.Stat(ctx, path.Join(key, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // another instance has deleted it
		}
		old := err == nil && info.Modified.Before(before)
		switch {
		case err != nil:
			failed = cmp.Or(failed, err)
		case folder == namesKey && old:
			failed = cmp.Or(failed, s.storage.Delete(ctx, path.Join(key, name)))
		case folder != namesKey && !old:
			return nil
		}
	}
	if failed != nil || folder == namesKey {
		return failed
	}
	return s.storage.Delete(ctx, key)
}

// unit is what Trim deletes at once: the files of one id, or a batch.
type unit struct {
	last  string // the id, or the last one of the batch
	files []string
	ids   int
	bytes int64
	spare bool
}

// holding is what an owner has stored.
type holding struct {
	units []unit // the newest first
	ids   int
	bytes int64
}

// Trim implements [run.Store]. If something can't be deleted, Trim continues with the rest and returns the first error.
func (s *Records) Trim(ctx context.Context, b run.Bounds, spare func(id string) bool) error {
	owners, err := s.list(ctx, recordsKey)
	if err != nil {
		return err
	}
	var failed error
	var holdings []*holding
	var ids int
	var bytes int64
	for _, owner := range owners {
		h, err := s.holding(ctx, path.Join(recordsKey, owner), spare)
		failed = cmp.Or(failed, err)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for h.drops() && h.ids-h.oldest().ids >= b.IDsPerOwner {
			failed = cmp.Or(failed, s.dropLast(ctx, h))
		}
		if len(h.units) > 0 {
			holdings = append(holdings, h)
		}
		ids += h.ids
		bytes += h.bytes
	}
	for ids > b.IDs || bytes > b.Bytes {
		var largest *holding
		var share float64
		for _, h := range holdings {
			of := max(float64(h.ids)/float64(b.IDs), float64(h.bytes)/float64(b.Bytes))
			if of > share && h.drops() {
				largest, share = h, of
			}
		}
		if largest == nil || bytes <= b.Bytes && ids-largest.oldest().ids < b.IDs {
			break
		}
		ids -= largest.ids
		bytes -= largest.bytes
		failed = cmp.Or(failed, s.dropLast(ctx, largest))
		ids += largest.ids
		bytes += largest.bytes
	}
	return failed
}

// drops reports whether there is a unit to drop, which is then the last one.
func (h *holding) drops() bool {
	i := len(h.units) - 1
	for ; i >= 0 && h.units[i].spare; i-- {
	}
	h.units = h.units[:i+1] // what is spared is not looked at again
	return i >= 0
}

func (h *holding) oldest() unit { return h.units[len(h.units)-1] }

func (s *Records) dropLast(ctx context.Context, h *holding) error {
	u := h.oldest()
	h.units = h.units[:len(h.units)-1]
	h.ids -= u.ids
	h.bytes -= u.bytes
	var failed error
	for _, file := range u.files {
		failed = cmp.Or(failed, s.storage.Delete(ctx, file))
	}
	return failed
}

// holding returns what is in the folder of an owner, after it has deleted what is superseded.
func (s *Records) holding(ctx context.Context, folder string, spare func(id string) bool) (*holding, error) {
	h := &holding{}
	days, err := s.list(ctx, folder)
	if err != nil {
		return h, err
	}
	var failed error
	for _, day := range days {
		if day == namesKey {
			continue
		}
		names, err := s.list(ctx, path.Join(folder, day))
		failed = cmp.Or(failed, err)
		events := map[string][]uint64{}
		for _, name := range names {
			if id, event, ok := splitRecordName(name); ok {
				events[id] = append(events[id], event)
			} else if _, last, n, ok := splitBatchName(name); ok {
				h.units = append(h.units, unit{last: last, files: []string{path.Join(folder, day, name)}, ids: n})
			}
		}
		for id, of := range events {
			slices.Sort(of)
			u := unit{last: id, ids: 1, spare: spare(id)}
			for i, event := range of {
				file := path.Join(folder, day, recordName(id, event))
				if i < len(of)-2 {
					failed = cmp.Or(failed, s.storage.Delete(ctx, file))
					continue
				}
				u.files = append(u.files, file)
			}
			h.units = append(h.units, u)
		}
	}
	for i := range h.units {
		u := &h.units[i]
		for _, file := range u.files {
			if info, err := s.storage.Stat(ctx, file); err == nil {
				u.bytes += info.Size
			}
		}
		h.ids += u.ids
		h.bytes += u.bytes
	}
	slices.SortFunc(h.units, func(a, b unit) int { return strings.Compare(b.last, a.last) })
	return h, failed
}
