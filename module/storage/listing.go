package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// standings are the endings of the names of records. None is only a number: Caddy's file storage gives such endings to files that
// it is writing.
var standings = [...]string{run.Running: ".running", run.Waiting: ".waiting", run.Final: ".final"}

// fileName returns the name of a record in the folder of its id.
func fileName(v run.Version) string { return strconv.FormatUint(v.Event, 10) + standings[v.Standing] }

func splitVersion(name string) (v run.Version, ok bool) {
	number, _, _ := strings.Cut(name, ".")
	event, err := strconv.ParseUint(number, 10, 64)
	i := slices.Index(standings[:], name[len(number):])
	if err != nil || i < 0 {
		return run.Version{}, false
	}
	v = run.Version{Event: event, Standing: run.Standing(i)} //nolint:gosec // there are three
	return v, fileName(v) == name
}

// versions returns the records in the folder of an id, the newest last. It ignores other names.
func versions(names []string) []run.Version {
	found := make([]run.Version, 0, len(names))
	for _, name := range names {
		if v, ok := splitVersion(name); ok {
			found = append(found, v)
		}
	}
	slices.SortFunc(found, run.Version.Compare)
	return found
}

// listTries is the number of attempts to list a folder. The pauses between them double from a millisecond, to one second together.
const listTries = 11

// list returns the names in a folder, which need not exist. With recursive, names of folders within contain slashes. Caddy's file
// storage fails if a file disappears while it lists a folder, as each one does that is written under a preliminary name. So list tries again.
func (s *Records) list(ctx context.Context, folder string, recursive bool) ([]string, error) {
	for try := range listTries {
		names, err := s.storage.List(ctx, folder, recursive)
		if err == nil {
			for i, key := range names {
				names[i] = strings.TrimPrefix(key, folder+"/")
			}
			return names, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("listing %s: %w", folder, err)
		}
		if !s.storage.Exists(ctx, folder) {
			return nil, nil
		}
		pause := time.NewTimer(time.Millisecond << try)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil, fmt.Errorf("listing %s: %w", folder, ctx.Err())
		}
	}
	return nil, fmt.Errorf("listing %s: its files change while they are listed", folder)
}

// day is the content of the folder of a day.
type day struct {
	ids     map[string][]run.Version // the newest last; none: the folder of the id has no record
	batches []string
}

// listDay lists the folder of a day, with the folders in it.
func (s *Records) listDay(ctx context.Context, folder string) (day, error) {
	names, err := s.list(ctx, folder, true)
	if err != nil {
		return day{}, err
	}
	d := day{ids: map[string][]run.Version{}}
	for _, name := range names {
		id, rest, inside := strings.Cut(name, "/")
		if _, isID := run.TimeOfID(id); isID {
			of := d.ids[id]
			if v, ok := splitVersion(rest); ok && inside {
				of = append(of, v)
			}
			d.ids[id] = of
		} else if _, _, _, ok := splitBatchName(name); ok {
			d.batches = append(d.batches, name)
		}
	}
	for _, of := range d.ids {
		slices.SortFunc(of, run.Version.Compare)
	}
	return d, nil
}

const (
	// batchListAge is the maximum age of the list of a day's batches. For as long, a batch of another instance may be missing in it.
	batchListAge = time.Second
	// maxBatchLists bounds the names and folders in the lists. Each takes about 100 bytes.
	maxBatchLists = 20_000
)

// batchLists are the names of batches of the days that were listed last. Without them, each reading of a task that is only in a
// batch, and each guess of an id, would list the whole day of the owner.
type batchLists struct {
	mu    sync.Mutex
	of    map[string]batchList // by folder
	names int                  // in them, with the folders
}

// batchList has the names of the batches in a folder.
type batchList struct {
	names []string
	at    time.Time
	puts  uint64
}

func (l *batchLists) get(folder string) (batchList, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, ok := l.of[folder]
	return found, ok
}

func (l *batchLists) set(folder string, list batchList) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old, ok := l.of[folder]; ok {
		l.names -= 1 + len(old.names)
	}
	l.names += 1 + len(list.names)
	if l.of == nil || l.names > maxBatchLists {
		l.of, l.names = map[string]batchList{}, 1+len(list.names)
	}
	l.of[folder] = list
}

// listBatches returns the names of the batches in the folder of a day.
func (s *Records) listBatches(ctx context.Context, folder string) ([]string, error) {
	l, ok := s.lists.get(folder)
	puts := batchPuts.newest(folder) // before the listing, which may miss what is stored meanwhile
	if age := s.now().Sub(l.at); ok && l.puts == puts && age >= 0 && age < batchListAge {
		return l.names, nil
	}
	l = batchList{at: s.now(), puts: puts}
	names, err := s.list(ctx, folder, false)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if _, _, _, ok := splitBatchName(name); ok {
			l.names = append(l.names, name)
		}
	}
	s.lists.set(folder, l)
	return l.names, nil
}

// batchPuts tells all Records of this process that one of them has stored a batch, so that older lists of its folder are outdated.
var batchPuts puts

// puts has the number of the newest batch that was stored in a folder.
type puts struct {
	mu    sync.Mutex
	of    map[string]uint64 // by folder
	last  uint64
	least uint64 // of folders that are not in the map
}

func (p *puts) add(folder string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	if p.of == nil || len(p.of) >= maxBatchLists {
		p.of, p.least = map[string]uint64{}, p.last
	}
	p.of[folder] = p.last
}

func (p *puts) newest(folder string) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.of[folder], p.least)
}
