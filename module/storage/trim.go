package storage

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// unit is the folder of an id or a batch, which Trim deletes as a whole.
type unit struct {
	key     string
	id      string      // of the folder; empty: it is a batch
	newest  run.Version // in the folder
	first   string      // id of the batch
	last    string      // id of the batch; also that of a folder
	files   []string
	changed time.Time // the time of its newest file
	ids     int64
	bytes   int64
}

// holding lists the stored records and names of an owner.
type holding struct {
	folder string
	open   map[string]bool       // ids of runs that go on, and of further ones that are not deleted
	units  [run.Final + 1][]unit // the others, by standing, the newest first
	ids    int64                 // of the others
	bytes  int64                 // of all
	names  []name
	days   int  // folders of days that are left
	part   bool // not all could be listed
}

// name is a name that an owner has given to an id.
type name struct{ key, id string }

// Trim implements [run.Store]. If something can't be deleted, Trim continues with the rest and returns the first error. It lists
// all folders, asks for the size of each file, and reads each name.
func (s *Records) Trim(ctx context.Context, b run.Bounds, spare func(id string) bool) error {
	owners, err := s.list(ctx, s.root, false)
	if err != nil {
		return err
	}
	t := &trimming{Records: s, bounds: b, spare: spare, young: map[string]bool{}}
	for _, owner := range owners {
		if !isDigest(owner) {
			continue
		}
		t.hold(ctx, path.Join(s.root, owner))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	t.units = slices.DeleteFunc(t.units, func(u unit) bool { return u.newest.Standing == run.Running && t.young[u.id] })
	t.bound(b)
	for _, h := range t.holdings {
		if !h.part {
			t.trimNames(h)
			t.tidy(ctx, h)
		}
	}
	t.delete(ctx)
	return cmp.Or(t.failed, ctx.Err())
}

// trimming is a call of Trim.
type trimming struct {
	*Records
	bounds   run.Bounds
	spare    func(id string) bool
	holdings []*holding
	young    map[string]bool // ids that some owner has a record of that is not too old
	failed   error           // the first one

	// What is to be deleted, in this order.
	superseded []string
	units      []unit
	names      []name
}

func (t *trimming) fail(err error) { t.failed = cmp.Or(t.failed, err) }

// hold finds what an owner has, and what of it is superseded or too old.
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
		for _, u := range h.units[standing] {
			h.ids += u.ids
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
	found := t.find(ctx, folder, d)
	if len(found) == 0 && day < t.bounds.Before.UTC().Format(dayLayout) { // no id of that day is made any more
		t.fail(t.storage.Delete(ctx, folder)) // now, before it gets a record
		h.days--
	}
	for _, u := range found {
		standing := u.newest.Standing
		spared := standing != run.Final && t.spare(u.id)
		switch {
		case u.changed.Before(t.bounds.Before) && !spared:
			t.units = append(t.units, u)
			continue // but see young
		case spared || standing == run.Running:
			h.open[u.id] = true
		default:
			h.units[standing] = append(h.units[standing], u)
		}
		h.bytes += u.bytes
		t.young[u.id] = true
		t.superseded = append(t.superseded, u.files[:max(0, len(u.files)-2)]...)
	}
}

// find returns what is in the folder of a day.
func (t *trimming) find(ctx context.Context, folder string, d day) []unit {
	units := make([]unit, 0, len(d.ids)+len(d.batches))
	for _, name := range d.batches {
		first, last, n, _ := splitBatchName(name)
		units = append(units, unit{key: path.Join(folder, name), newest: run.Version{Standing: run.Final}, first: first, last: last, ids: int64(n)})
		t.measure(ctx, &units[len(units)-1], path.Join(folder, name))
	}
	for id, of := range d.ids {
		if len(of) == 0 {
			continue // its first record is being written, or never was
		}
		u := unit{key: path.Join(folder, id), id: id, last: id, ids: 1, newest: of[len(of)-1]}
		for _, v := range of {
			u.files = append(u.files, path.Join(u.key, fileName(v)))
		}
		t.measure(ctx, &u, u.files[max(0, len(of)-2):]...)
		units = append(units, u)
	}
	return units
}

// measure counts the files of a unit. The last one has to be the newest.
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

// delete deletes what was found.
func (t *trimming) delete(ctx context.Context) {
	t.fail(atOnce(ctx, t.superseded, t.storage.Delete))
	t.fail(atOnce(ctx, t.units, t.deleteUnit))
	t.fail(atOnce(ctx, t.names, t.deleteName))
}

// deleters is how much is deleted at the same time. If it were one by one, tasks could be stored faster than they are deleted.
const deleters = 8

// atOnce deletes a list, several at the same time. It returns the first error.
func atOnce[T any](ctx context.Context, list []T, remove func(context.Context, T) error) (failed error) {
	var mu sync.Mutex
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(deleters, len(list)) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(list) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := remove(ctx, list[i]); err != nil {
					mu.Lock()
					failed = cmp.Or(failed, err)
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	return failed
}

// deleteUnit deletes a unit. The folder of an id that has got a further record meanwhile is kept. The newest record is deleted
// last, so that no older one is taken for it.
func (t *trimming) deleteUnit(ctx context.Context, u unit) error {
	if u.id != "" {
		names, err := t.list(ctx, u.key, false)
		if err != nil {
			return err
		}
		if of := versions(names); len(of) > 0 && of[len(of)-1].Compare(u.newest) > 0 {
			return nil
		}
	}
	for _, key := range append(u.files, u.key) {
		if err := t.storage.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// bound finds the units to be deleted, until the rest is within the bounds.
func (t *trimming) bound(b run.Bounds) {
	most, mostPerOwner := int64(b.IDs), int64(b.IDsPerOwner)
	for _, h := range t.holdings {
		for u, ok := h.oldest(); ok && h.ids-u.ids >= mostPerOwner; u, ok = h.oldest() {
			t.cut(h)
		}
	}
	t.share(func(h *holding) int64 { return h.ids }, most, func(u unit, rest int64) bool { return rest-u.ids >= most })
	t.share(func(h *holding) int64 { return h.bytes }, b.Bytes, func(unit, int64) bool { return true })
}

// share finds the units to be deleted until all owners together have no more of something than a bound. The owner that has the
// most is first, and those that have no more than their share lose nothing.
func (t *trimming) share(has func(*holding) int64, bound int64, may func(u unit, rest int64) bool) {
	all := make([]int64, len(t.holdings))
	var sum int64
	for i, h := range t.holdings {
		all[i] = has(h)
		sum += all[i]
	}
	share := shareOf(all, bound)
	for sum > bound {
		var largest *holding
		for _, h := range t.holdings {
			if _, ok := h.oldest(); ok && has(h) > share && (largest == nil || has(h) > has(largest)) {
				largest = h
			}
		}
		if largest == nil {
			return
		}
		u, _ := largest.oldest()
		if !may(u, sum) {
			return
		}
		sum -= has(largest)
		t.cut(largest)
		sum += has(largest)
	}
}

// shareOf returns how much each owner may have at least, so that all together have no more than a bound. What those with less
// leave is divided among the others.
func shareOf(all []int64, bound int64) int64 {
	slices.Sort(all)
	for i, n := range all {
		each := bound / int64(len(all)-i)
		if n > each {
			return each
		}
		bound -= n
	}
	return math.MaxInt64
}

// oldest returns the unit of an owner that is deleted first: the oldest ended one, or else the oldest one that waits.
func (h *holding) oldest() (u unit, ok bool) {
	for standing := run.Final; standing >= run.Waiting; standing-- {
		if units := h.units[standing]; len(units) > 0 {
			return units[len(units)-1], true
		}
	}
	return unit{}, false
}

// cut moves the oldest unit of an owner to those to be deleted.
func (t *trimming) cut(h *holding) {
	u, _ := h.oldest()
	units := &h.units[u.newest.Standing]
	*units = (*units)[:len(*units)-1]
	h.ids -= u.ids
	h.bytes -= u.bytes
	t.units = append(t.units, u)
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

// trimNames finds the names whose record is gone, and the oldest ones of ended runs until the owner has no more than the bound.
func (t *trimming) trimNames(h *holding) {
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
			t.names = append(t.names, n)
		}
	}
	slices.SortFunc(stored, func(a, b name) int { return strings.Compare(a.id, b.id) })
	more := len(stored) - t.bounds.IDsPerOwner
	for _, n := range stored {
		if more > 0 && !h.open[n.id] {
			t.names = append(t.names, n)
			more--
		}
	}
}

// deleteName deletes a name, unless it has got another id meanwhile. If that happens at this very moment, the name is lost.
func (t *trimming) deleteName(ctx context.Context, n name) error {
	if text, err := t.load(ctx, n.key, maxName); err == nil && string(text) != n.id {
		return nil
	}
	return t.storage.Delete(ctx, n.key)
}

// tidy deletes the folder of an owner that has been empty for some time, since Caddy's file storage keeps empty folders.
func (t *trimming) tidy(ctx context.Context, h *holding) {
	if h.days > 0 || len(h.names) > 0 {
		return
	}
	info, err := t.storage.Stat(ctx, h.folder)
	if err != nil || info.IsTerminal || !info.Modified.Before(t.bounds.Before) {
		return // other storages have no folders
	}
	if left, err := t.list(ctx, h.folder, false); err == nil && !slices.ContainsFunc(left, func(name string) bool { return name != namesKey }) {
		t.fail(t.storage.Delete(ctx, h.folder))
	}
}
