package storage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// maxBatch is the size of the largest batch of several records, in bytes.
	maxBatch = 1 << 20
	// maxBatchFile is the largest batch that is read, in bytes.
	maxBatchFile = 2 * maxBatch
)

// batch is a file with final records of one owner and day that were stored together, one in each line. A damaged line does not
// affect the others.
type batch struct {
	first, last string
	records     int
	text        []byte
}

func (b *batch) add(id string, text []byte) {
	if b.records == 0 || id < b.first {
		b.first = id
	}
	b.last = max(b.last, id)
	b.records++
	b.text = append(append(b.text, text...), '\n')
}

func (b *batch) name() string {
	return b.first + "_" + b.last + "." + strconv.Itoa(b.records) + ".batch"
}

func splitBatchName(name string) (first, last string, records int, ok bool) {
	name, isBatch := strings.CutSuffix(name, ".batch")
	first, rest, two := strings.Cut(name, "_")
	last, number, counted := strings.Cut(rest, ".")
	records, err := strconv.Atoi(number)
	return first, last, records, isBatch && two && counted && err == nil && records > 0
}

func (s *Records) storeBatch(ctx context.Context, folder string, b *batch) error {
	err := s.store(ctx, path.Join(folder, b.name()), b.text)
	batchPuts.add(folder)
	return err
}

// loadBatch reads a batch.
func (s *Records) loadBatch(ctx context.Context, folder, name string) ([]byte, error) {
	most := int64(maxBatchFile)
	if _, _, records, _ := splitBatchName(name); records == 1 {
		most = maxRecord + 1
	}
	return s.load(ctx, path.Join(folder, name), most)
}

// batched returns the newest undamaged record of an id in the batches of a day; nil: there is none.
func (s *Records) batched(ctx context.Context, folder, id string) (newest *run.Record, failed error) {
	names, err := s.listBatches(ctx, folder)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if first, last, _, ok := splitBatchName(name); !ok || id < first || last < id {
			continue
		}
		text, err := s.loadBatch(ctx, folder, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was deleted since the day was listed
		}
		if errors.Is(err, run.ErrNoRoom) {
			return nil, err
		}
		if err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		r, err := recordIn(text, id)
		if r != nil && (newest == nil || r.Event > newest.Event) {
			newest = r
		}
		failed = cmp.Or(failed, err)
	}
	return newest, failed
}

// lineStart is the beginning of the line of a record, before its id.
const lineStart = `{"id":"`

// parseLine reads only the beginning of a line that Put has written.
func parseLine(text []byte) (id string, event uint64, ok bool) {
	const between, idLength = `","event":`, 36
	rest, ok := bytes.CutPrefix(text, []byte(lineStart))
	if !ok || len(rest) < idLength {
		return "", 0, false
	}
	of := rest[:idLength]
	rest, ok = bytes.CutPrefix(rest[idLength:], []byte(between))
	if !ok {
		return "", 0, false
	}
	number, _, _ := bytes.Cut(rest[:min(len(rest), 24)], []byte(","))
	event, err := strconv.ParseUint(string(number), 10, 64)
	return string(of), event, err == nil
}

// recordIn returns the newest undamaged record of an id in a batch; nil: there is none.
func recordIn(text []byte, id string) (newest *run.Record, damaged error) {
	start := []byte(lineStart + id + `"`)
	for {
		i := bytes.Index(text, start)
		if i < 0 {
			return newest, damaged
		}
		of, rest, _ := bytes.Cut(text[i:], []byte("\n"))
		_, event, ok := parseLine(of)
		if ok && (i == 0 || text[i-1] == '\n') && (newest == nil || newest.Event <= event) {
			if r, err := decodeRecord(of, id, event); err == nil {
				newest = r
				newest.Standing = run.Final
			} else {
				damaged = err
			}
		}
		text = rest
	}
}

// place is the file with the newest record of an id.
type place struct {
	version run.Version
	batch   string // the name of the file; empty: the record is in the folder of the id
}

// List implements [run.Store].
func (s *Records) List(ctx context.Context, owner string, most int, need func(id string, v run.Version) bool) iter.Seq2[*run.Record, error] {
	return func(yield func(*run.Record, error) bool) {
		days, err := s.list(ctx, s.ownerKey(owner), false)
		if err != nil {
			yield(nil, err)
			return
		}
		slices.Sort(days)
		for _, day := range slices.Backward(days) {
			if day == namesKey {
				continue
			}
			if most <= 0 {
				return
			}
			folder := path.Join(s.ownerKey(owner), day)
			places, err := s.places(ctx, folder)
			if err != nil {
				yield(nil, err)
				return
			}
			ids := slices.Sorted(maps.Keys(places))
			ids = ids[max(0, len(ids)-most):]
			most -= len(ids)
			if !s.yieldDay(ctx, owner, folder, ids, places, need, yield) {
				return
			}
		}
	}
}

// places returns the places of the newest records of a day.
func (s *Records) places(ctx context.Context, folder string) (map[string]place, error) {
	d, err := s.listDay(ctx, folder)
	if err != nil {
		return nil, err
	}
	places := make(map[string]place, len(d.ids))
	for id, of := range d.ids {
		if len(of) > 0 {
			places[id] = place{version: of[len(of)-1]}
		}
	}
	for _, name := range d.batches {
		if ctx.Err() != nil { // the file storage does not look at it
			return nil, ctx.Err()
		}
		text, err := s.loadBatch(ctx, folder, name)
		switch {
		case err == nil:
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, run.ErrDamaged):
			continue
		default:
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		for text := range bytes.Lines(text) {
			id, event, ok := parseLine(text)
			v := run.Version{Event: event, Standing: run.Final}
			if p, found := places[id]; ok && (!found || v.Compare(p.version) > 0) {
				places[id] = place{v, name}
			}
		}
	}
	return places, nil
}

// yieldDay yields the needed records of a day, in the descending order of their ids. It returns false if the iteration has ended.
func (s *Records) yieldDay(ctx context.Context, owner, folder string, ids []string, places map[string]place, need func(string, run.Version) bool, yield func(*run.Record, error) bool) bool {
	var loaded string // the batch in memory
	var text []byte
	for _, id := range slices.Backward(ids) {
		p := places[id]
		if !need(id, p.version) {
			continue
		}
		if ctx.Err() != nil { // the file storage does not look at it
			yield(nil, ctx.Err())
			return false
		}
		var r *run.Record
		var err error
		switch p.batch {
		case "":
			r, err = s.read(ctx, folder, id, p.version)
		default:
			if loaded != p.batch {
				loaded = p.batch
				if text, err = s.loadBatch(ctx, folder, loaded); err != nil {
					loaded = ""
				}
			}
			if err == nil {
				r, err = recordIn(text, id)
			}
		}
		if r == nil && (errors.Is(err, run.ErrDamaged) || errors.Is(err, fs.ErrNotExist)) {
			r, err = s.get(ctx, folder, id) // an older one, or a newer one that was stored since the folder was listed
		}
		if r == nil && (err == nil || errors.Is(err, run.ErrNoRecord)) {
			continue // it was deleted since its folder was listed
		}
		if r != nil {
			r.Owner, err = owner, nil
		}
		if !yield(r, err) {
			return false
		}
	}
	return true
}
