package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// maxBatch is the size of the largest batch, in bytes. A record of more than half of it has a file of its own.
	maxBatch = 1 << 20
	// maxBatchFile is how much of a batch is read.
	maxBatchFile = 2 * maxBatch
)

// batch is a file with several final records of one owner and day, one in each line. A line that is damaged does not affect the
// others.
type batch struct {
	first, last string
	event       uint64
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
	if b.records == 1 {
		return recordName(b.first, b.event)
	}
	return b.first + "_" + b.last + "." + strconv.Itoa(b.records) + ".batch"
}

func splitBatchName(name string) (first, last string, records int, ok bool) {
	name, isBatch := strings.CutSuffix(name, ".batch")
	first, rest, two := strings.Cut(name, "_")
	last, number, counted := strings.Cut(rest, ".")
	records, err := strconv.Atoi(number)
	return first, last, records, isBatch && two && counted && err == nil && records > 0
}

// lineStart is how Put begins the line of a record, before its id.
const lineStart = `{"id":"`

// parseLine reads only the beginning of a line, as Put writes it.
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
			} else {
				damaged = err
			}
		}
		text = rest
	}
}

// place is where the newest record of an id is.
type place struct {
	event uint64
	batch string // the name of the file; empty: the record has a file of its own
}

// List implements [run.Store].
func (s *Records) List(ctx context.Context, owner string, most int, need func(id string, event uint64) bool) iter.Seq2[*run.Record, error] {
	return func(yield func(*run.Record, error) bool) {
		days, err := s.list(ctx, ownerKey(owner))
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
			folder := path.Join(ownerKey(owner), day)
			places, err := s.places(ctx, folder)
			if err != nil {
				yield(nil, err)
				return
			}
			ids := make([]string, 0, len(places))
			for id := range places {
				ids = append(ids, id)
			}
			slices.Sort(ids)
			ids = ids[max(0, len(ids)-most):]
			most -= len(ids)
			if !s.listDay(ctx, owner, folder, ids, places, need, yield) {
				return
			}
		}
	}
}

// places returns where the newest records of a day are.
func (s *Records) places(ctx context.Context, folder string) (map[string]place, error) {
	names, err := s.list(ctx, folder)
	if err != nil {
		return nil, err
	}
	places := map[string]place{}
	for _, name := range names {
		if id, event, ok := splitRecordName(name); ok {
			if p, found := places[id]; !found || event >= p.event {
				places[id] = place{event: event}
			}
			continue
		}
		if _, _, _, ok := splitBatchName(name); !ok {
			continue
		}
		text, err := s.load(ctx, path.Join(folder, name), maxBatchFile)
		switch {
		case err == nil:
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, run.ErrDamaged):
			continue
		default:
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		for text := range bytes.Lines(text) {
			id, event, ok := parseLine(text)
			if p, found := places[id]; ok && (!found || event > p.event) {
				places[id] = place{event, name}
			}
		}
	}
	return places, nil
}

// listDay yields the records of ids that are needed, the last id first. It reports whether to continue.
func (s *Records) listDay(ctx context.Context, owner, folder string, ids []string, places map[string]place, need func(string, uint64) bool, yield func(*run.Record, error) bool) bool {
	var loaded string // the batch that was read last
	var text []byte
	for _, id := range slices.Backward(ids) {
		p := places[id]
		if !need(id, p.event) {
			continue
		}
		var r *run.Record
		var err error
		switch p.batch {
		case "":
			r, err = s.read(ctx, folder, id, p.event)
		default:
			if loaded != p.batch {
				loaded = p.batch
				if text, err = s.load(ctx, path.Join(folder, loaded), maxBatchFile); err != nil {
					loaded = ""
				}
			}
			if err == nil {
				r, err = recordIn(text, id)
			}
		}
		if errors.Is(err, run.ErrDamaged) && r == nil {
			r, err = s.find(ctx, folder, id) // an older one
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, run.ErrNoRecord) {
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
