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

// unit is what Trim deletes at once: the folder of an id, or a batch.
type unit struct {
	key     string
	id      string  // of the folder; empty: it is a batch
	newest  version // in the folder
	first   string  // id of the batch
	last    string  // id of the batch; also that of a folder
	files   []string
	changed time.Time // when its newest file was written
	ids     int
	bytes   int64
}

// holding is what an owner has stored.
type holding struct {
	folder string
	open   map[string]bool // ids of runs that go on, and of those that are spared
	// Of the others, by standing: the units, the newest first, and what they are together with those of lower standings.
	units [run.Final + 1][]unit
	ids   [run.Final + 1]int
	bytes [run.Final + 1]int64
	names []name
	days  int  // folders of days that are left
	part  bool // not all could be listed
}

// name is a name that an owner has given to an id.
type name struct{ key, id string }

// Trim implements [run.Store]. If something can't be deleted, Trim continues with the rest and returns the first error. It lists
// all folders, asks for the size of each file, and reads each name.
func (s *Records) Trim(ctx context.Context, b run.Bounds, spare func(id string) bool) error {
	owners, err := s.list(ctx, recordsKey, false)
	if err != nil {
		return err
	}
	t := &trimming{Records: s, bounds: b, spare: spare}
	for _, owner := range owners {
		if !isDigest(owner) {
			continue
		}
		t.hold(ctx, path.Join(recordsKey, owner))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	t.bound(ctx, run.Final)
	t.bound(ctx, run.Waiting)
	for _, h := range t.holdings {
		if !h.part {
			t.trimNames(ctx, h)
			t.tidy(ctx, h)
		}
	}
	return cmp.Or(t.failed, ctx.Err())
}

// trimming is a call of Trim.
type trimming struct {
	*Records
	bounds   run.Bounds
	spare    func(id string) bool
	holdings []*holding
	failed   error // the first one
}

func (t *trimming) fail(err error) { t.failed = cmp.Or(t.failed, err) }

// delete deletes a file or a folder.
func (t *trimming) delete(ctx context.Context, key string) { t.fail(t.storage.Delete(ctx, key)) }

// hold finds what an owner has, and deletes what is superseded or too old.
func (t *trimming) hold(ctx context.Context, folder string) {
	h := &holding{folder: folder, open: map[string]bool{}}
	t.holdings = append(t.holdings, h)
	t.readNames(ctx, h) // before the records: a name is stored after the first record of its id
	days, err := t.list(ctx, folder, false)
	if err != nil {
		h.part = true
		t.fail(err)
		return
	}
	for _, day := range days {
		if _, err := time.Parse(dayLayout, day); err == nil && len(day) == len(dayLayout) {
			t.holdDay(ctx, h, day)
		}
	}
	for standing := run.Waiting; standing <= run.Final; standing++ {
		slices.SortFunc(h.units[standing], func(a, b unit) int { return strings.Compare(b.last, a.last) })
		h.ids[standing], h.bytes[standing] = h.ids[standing-1], h.bytes[standing-1]
		for _, u := range h.units[standing] {
			h.ids[standing] += u.ids
			h.bytes[standing] += u.bytes
		}
	}
}

func (t *trimming) holdDay(ctx context.Context, h *holding, day string) {
	h.days++
	folder := path.Join(h.folder, day)
	d, err := t.listDay(ctx, folder)
	if err != nil {
		h.part = true
		t.fail(err)
		return
	}
	empty := true
	for _, u := range t.units(ctx, folder, d) {
		standing := u.newest.standing
		spared := standing != run.Final && t.spare(u.id)
		switch {
		case u.changed.Before(t.bounds.Before) && !spared:
			empty = t.drop(ctx, u) && empty
			continue
		case spared || standing == run.Running:
			h.open[u.id] = true
		default:
			h.units[standing] = append(h.units[standing], u)
		}
		empty = false
		for _, file := range u.files[:max(0, len(u.files)-2)] {
			t.delete(ctx, file)
		}
	}
	if empty && day < t.bounds.Before.UTC().Format(dayLayout) { // no id of that day is made any more
		t.delete(ctx, folder)
		h.days--
	}
}

// units returns what is in the folder of a day.
func (t *trimming) units(ctx context.Context, folder string, d day) []unit {
	units := make([]unit, 0, len(d.ids)+len(d.batches))
	for _, name := range d.batches {
		first, last, n, _ := splitBatchName(name)
		units = append(units, unit{key: path.Join(folder, name), newest: version{standing: run.Final}, first: first, last: last, ids: n})
		t.measure(ctx, &units[len(units)-1], path.Join(folder, name))
	}
	for id, of := range d.ids {
		if len(of) == 0 {
			continue // its first record is being written, or never was
		}
		u := unit{key: path.Join(folder, id), id: id, last: id, ids: 1, newest: of[len(of)-1]}
		for _, v := range of {
			u.files = append(u.files, path.Join(u.key, v.name()))
		}
		t.measure(ctx, &u, u.files[max(0, len(of)-2):]...)
		units = append(units, u)
	}
	return units
}

// measure counts the files of a unit, the newest of which is the last.
func (t *trimming) measure(ctx context.Context, u *unit, files ...string) {
	for _, file := range files {
		info, err := t.storage.Stat(ctx, file)
		if err != nil { // another instance has deleted it, or the storage fails
			info.Modified = t.now()
		}
		u.bytes += info.Size
		u.changed = info.Modified
	}
}

// drop deletes a unit. The folder of an id that has got a further record meanwhile is kept. The newest record is deleted last, so that no
// older one is taken for it.
func (t *trimming) drop(ctx context.Context, u unit) (gone bool) {
	if u.id != "" {
		names, err := t.list(ctx, u.key, false)
		if err != nil {
			t.fail(err)
			return false
		}
		if of := versions(names); len(of) > 0 && of[len(of)-1].compare(u.newest) > 0 {
			return false
		}
	}
	for _, key := range append(u.files, u.key) {
		if err := t.storage.Delete(ctx, key); err != nil {
			t.fail(err)
			return false
		}
	}
	return true
}

// bound deletes units of a standing until they, with those of lower standings, are within the bounds.
func (t *trimming) bound(ctx context.Context, standing run.Standing) {
	b := t.bounds
	var ids int
	var bytes int64
	for _, h := range t.holdings {
		for h.has(standing) && h.ids[standing]-h.oldest(standing).ids >= b.IDsPerOwner && ctx.Err() == nil {
			t.drop(ctx, h.cut(standing))
		}
		ids += h.ids[standing]
		bytes += h.bytes[standing]
	}
	for (ids > b.IDs || bytes > b.Bytes) && ctx.Err() == nil {
		var largest *holding
		var share float64
		for _, h := range t.holdings {
			of := max(float64(h.ids[standing])/float64(b.IDs), float64(h.bytes[standing])/float64(b.Bytes))
			if of > share && h.has(standing) {
				largest, share = h, of
			}
		}
		if largest == nil || bytes <= b.Bytes && ids-largest.oldest(standing).ids < b.IDs {
			return
		}
		u := largest.cut(standing)
		ids -= u.ids
		bytes -= u.bytes
		t.drop(ctx, u)
	}
}

func (h *holding) has(standing run.Standing) bool { return len(h.units[standing]) > 0 }

func (h *holding) oldest(standing run.Standing) unit {
	return h.units[standing][len(h.units[standing])-1]
}

// cut removes the oldest unit.
func (h *holding) cut(standing run.Standing) unit {
	u := h.oldest(standing)
	h.units[standing] = h.units[standing][:len(h.units[standing])-1]
	h.ids[standing] -= u.ids
	h.bytes[standing] -= u.bytes
	return u
}

// readNames reads the names of an owner.
func (t *trimming) readNames(ctx context.Context, h *holding) {
	folder := path.Join(h.folder, namesKey)
	digests, err := t.list(ctx, folder, false)
	t.fail(err)
	for _, of := range digests {
		if !isDigest(of) {
			continue
		}
		key := path.Join(folder, of)
		text, err := t.load(ctx, key, maxName)
		switch {
		case err == nil || errors.Is(err, run.ErrDamaged):
			h.names = append(h.names, name{key, string(text)})
		case !errors.Is(err, fs.ErrNotExist):
			t.fail(err)
		}
	}
}

// trimNames deletes the names whose record is gone, and the oldest ones of ended runs until the owner has no more than a number.
// A name that gets a new id between the reading and the deletion is lost: the task is then found by its id only.
func (t *trimming) trimNames(ctx context.Context, h *holding) {
	ended := make(map[string]bool, len(h.units[run.Final]))
	var batches []unit
	for _, u := range h.units[run.Final] {
		if u.id == "" {
			batches = append(batches, u)
		} else {
			ended[u.id] = true
		}
	}
	for _, u := range h.units[run.Waiting] {
		h.open[u.id] = true
	}
	var stored []name
	for _, n := range h.names {
		inBatch := func(u unit) bool { return u.first <= n.id && n.id <= u.last }
		if h.open[n.id] || ended[n.id] || slices.ContainsFunc(batches, inBatch) {
			stored = append(stored, n)
		} else {
			t.dropName(ctx, n)
		}
	}
	slices.SortFunc(stored, func(a, b name) int { return strings.Compare(a.id, b.id) })
	more := len(stored) - t.bounds.IDsPerOwner
	for _, n := range stored {
		if more > 0 && !h.open[n.id] {
			t.dropName(ctx, n)
			more--
		}
	}
}

// dropName deletes a name, unless it has got another id meanwhile.
func (t *trimming) dropName(ctx context.Context, n name) {
	if text, err := t.load(ctx, n.key, maxName); err != nil || string(text) == n.id {
		t.delete(ctx, n.key)
	}
}

// tidy deletes the folder of an owner that has had nothing for some time. Caddy's file storage keeps empty folders.
func (t *trimming) tidy(ctx context.Context, h *holding) {
	if h.days > 0 || len(h.names) > 0 {
		return
	}
	info, err := t.storage.Stat(ctx, h.folder)
	if err != nil || info.IsTerminal || !info.Modified.Before(t.bounds.Before) {
		return // other storages have no folders
	}
	if left, err := t.list(ctx, h.folder, false); err == nil && !slices.ContainsFunc(left, func(name string) bool { return name != namesKey }) {
		t.delete(ctx, h.folder)
	}
}
