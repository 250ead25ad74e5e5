package storage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// recordsKey is the storage key of all records. Below it, each owner has a folder named by a hash, with a folder for
	// each day (UTC) on which records were begun, and one for names:
	//
	//	<owner>/<yyyymmdd>/<id>.<event>
	//	<owner>/ids/<hash of the name>
	recordsKey = "skill_bridge/records"
	locksKey   = "skill_bridge/record_locks"
	namesKey   = "ids"
	dayLayout  = "20060102"

	// maxRecord is the size of the largest record, in bytes.
	maxRecord = 32 << 20
)

// Records keeps the records of runs in Caddy's storage. It implements [run.Store].
type Records struct{ storage certmagic.Storage }

// NewRecords returns the records in a storage.
func NewRecords(storage certmagic.Storage) *Records { return &Records{storage} }

// storedRecord is a [run.Record] as it is written, without the owner: the storage key has a hash of the owner.
type storedRecord struct {
	ID    string         `json:"id"`
	Event uint64         `json:"event"`
	At    time.Time      `json:"at"`
	Data  jsontext.Value `json:"data"`
}

// Put implements [run.Store].
func (s *Records) Put(ctx context.Context, records ...*run.Record) error {
	for _, r := range records {
		if err := s.put(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (s *Records) put(ctx context.Context, r *run.Record) error {
	day, err := dayOf(r.ID)
	if err != nil {
		return err
	}
	text, err := json.Marshal(storedRecord{r.ID, r.Event, r.At.UTC(), r.Data})
	if err != nil {
		return fmt.Errorf("record %s: %w", r.ID, err)
	}
	if len(text) > maxRecord {
		return fmt.Errorf("record %s has %d bytes, and %d are stored at most", r.ID, len(text), maxRecord)
	}
	if err := s.storage.Store(ctx, path.Join(ownerKey(r.Owner), day, recordName(r.ID, r.Event)), text); err != nil {
		return fmt.Errorf("storing record %s: %w", r.ID, err)
	}
	return nil
}

// Get implements [run.Store]. If the newest event of a record is damaged, it returns the newest undamaged one.
func (s *Records) Get(ctx context.Context, owner, id string) (*run.Record, error) {
	day, err := dayOf(id)
	if err != nil {
		return nil, run.ErrNoRecord // Put refuses such an id
	}
	folder := path.Join(ownerKey(owner), day)
	names, err := s.list(ctx, folder)
	if err != nil {
		return nil, err
	}
	var events []uint64
	for _, name := range names {
		if of, event, ok := splitRecordName(name); ok && of == id {
			events = append(events, event)
		}
	}
	slices.Sort(events)
	var damaged error
	for _, event := range slices.Backward(events) {
		r, err := s.read(ctx, folder, id, event)
		if err == nil {
			r.Owner = owner
			return r, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		damaged = cmp.Or(damaged, err)
	}
	return nil, cmp.Or(damaged, run.ErrNoRecord)
}

func (s *Records) read(ctx context.Context, folder, id string, event uint64) (*run.Record, error) {
	text, err := s.storage.Load(ctx, path.Join(folder, recordName(id, event)))
	if err != nil {
		return nil, fmt.Errorf("reading event %d of record %s: %w", event, id, err)
	}
	var stored storedRecord
	if err := json.Unmarshal(text, &stored); err != nil {
		return nil, fmt.Errorf("event %d of record %s : %w: %w", event, id, run.ErrDamaged, err)
	}
	if stored.ID != id || stored.Event != event {
		return nil, fmt.Errorf("event %d of record %s says that it is event %d of %q: %w", event, id, stored.Event, stored.ID, run.ErrDamaged)
	}
	return &run.Record{ID: id, Event: event, At: stored.At, Data: stored.Data}, nil
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
			folder := path.Join(ownerKey(owner), day)
			names, err := s.list(ctx, folder)
			if err != nil {
				yield(nil, err)
				return
			}
			newest := map[string]uint64{}
			for _, name := range names {
				if id, event, ok := splitRecordName(name); ok {
					newest[id] = max(newest[id], event)
				}
			}
			ids := slices.Sorted(maps.Keys(newest))
			for _, id := range slices.Backward(ids) {
				if most--; most < 0 {
					return
				}
				if !need(id, newest[id]) {
					continue
				}
				r, err := s.read(ctx, folder, id, newest[id])
				if r != nil {
					r.Owner = owner
				}
				if !yield(r, err) {
					return
				}
			}
		}
	}
}

// Name implements [run.Store].
func (s *Records) Name(ctx context.Context, owner, name, id string) error {
	if _, err := dayOf(id); err != nil {
		return err
	}
	if err := s.storage.Store(ctx, nameKey(owner, name), []byte(id)); err != nil {
		return fmt.Errorf("storing a name of record %s: %w", id, err)
	}
	return nil
}

// Named implements [run.Store].
func (s *Records) Named(ctx context.Context, owner, name string) (string, error) {
	text, err := s.storage.Load(ctx, nameKey(owner, name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", run.ErrNoRecord
	}
	if err != nil {
		return "", fmt.Errorf("reading the record of a name: %w", err)
	}
	if _, err := dayOf(string(text)); err != nil {
		return "", fmt.Errorf("the record of a name is damaged: %w", err)
	}
	return string(text), nil
}

// Lock implements [run.Store]. A lock costs several operations of the storage, and a caller that has to wait for one may
// notice its release a second late.
func (s *Records) Lock(ctx context.Context, owner, id string) (unlock func(), err error) {
	key := lockKey(owner, id)
	if err := s.storage.Lock(ctx, key); err != nil {
		return nil, fmt.Errorf("locking a record: %w", err)
	}
	return sync.OnceFunc(func() { _ = s.storage.Unlock(context.WithoutCancel(ctx), key) }), nil // the lock also expires by itself
}

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

// list returns the names in a folder, which need not exist.
func (s *Records) list(ctx context.Context, folder string) ([]string, error) {
	keys, err := s.storage.List(ctx, folder, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", folder, err)
	}
	for i, key := range keys {
		keys[i] = path.Base(key)
	}
	return keys, nil
}

// ownerKey is the storage key of an owner's records. A principal can be any text: its hash fits into a key.
func ownerKey(owner string) string { return path.Join(recordsKey, digest("owner", owner)) }

func nameKey(owner, name string) string {
	return path.Join(ownerKey(owner), namesKey, digest("name", name))
}

// lockKey is the storage key of a lock. It is not below recordsKey, since some storages keep their locks among the other keys.
func lockKey(owner, id string) string {
	return path.Join(locksKey, digest("lock", path.Join(ownerKey(owner), id)))
}

func digest(kind, text string) string {
	sum := sha256.Sum256([]byte(kind + "\x00" + text))
	return hex.EncodeToString(sum[:])
}

func recordName(id string, event uint64) string { return id + "." + strconv.FormatUint(event, 10) }

func splitRecordName(name string) (id string, event uint64, ok bool) {
	id, number, found := strings.Cut(name, ".")
	event, err := strconv.ParseUint(number, 10, 64)
	return id, event, found && err == nil && recordName(id, event) == name
}

// dayOf returns the day (UTC) on which an id was made. The id contains the time.
func dayOf(id string) (string, error) {
	u, err := uuid.Parse(id)
	if err != nil || u.Version() != 7 || u.String() != id {
		return "", fmt.Errorf("%q is not the id of a record: a UUID of version 7 in lower case", id)
	}
	seconds, nanoseconds := u.Time().UnixTime()
	return time.Unix(seconds, nanoseconds).UTC().Format(dayLayout), nil
}
