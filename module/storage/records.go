package storage

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// recordsKey is the storage key of the records of tasks. Below it, each owner has a folder named by a hash, with a folder for
	// each day (UTC) on which records were begun, and one for names:
	//
	//	<owner>/<yyyymmdd>/<id>/<event>.<standing>
	//	<owner>/<yyyymmdd>/<first id>_<last id>.<number of records>.batch
	//	<owner>/ids/<hash of the name>
	//
	// An id has a folder if one of its records was stored alone. The newest one is in the folder then, so that it costs one
	// listing of a few names.
	recordsKey = "skill_bridge/records"
	namesKey   = "ids"
	dayLayout  = "20060102"
	locksKey   = "skill_bridge/record_locks"

	// maxRecord is the size of the largest file of a record, in bytes.
	maxRecord = run.MaxRecord + 1<<10
)

// Records keeps the records of runs in Caddy's storage. It implements [run.Store].
type Records struct {
	storage certmagic.Storage
	root    string // storage key of all records
	lists   batchLists
	now     func() time.Time
}

// NewRecords returns the records of tasks in a storage.
func NewRecords(storage certmagic.Storage) *Records {
	return &Records{storage: storage, root: recordsKey, now: time.Now}
}

// recordOptions keep the bytes of the data of records.
var recordOptions = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true))

// storedRecord is the JSON of a [run.Record]. It has no owner: the storage key has a hash of the owner.
type storedRecord struct {
	ID    string         `json:"id"`
	Event uint64         `json:"event"`
	At    time.Time      `json:"at"`
	Data  jsontext.Value `json:"data"`
}

// Put implements [run.Store]. Final records of one day that are stored together share files, which are called batches.
func (s *Records) Put(ctx context.Context, records ...*run.Record) error {
	batches := map[string]*batch{} // by folder
	size := 0                      // the approximate size of the records that are left
	for _, r := range records {
		size += len(r.Data) + recordOverhead
	}
	owner, key := "", s.ownerKey("")
	var buffer []byte
	for _, r := range records {
		day, err := dayOf(r.ID)
		if err != nil {
			return err
		}
		if r.Owner != owner {
			owner, key = r.Owner, s.ownerKey(r.Owner)
		}
		text, err := appendRecord(buffer[:0], r, len(records) == 1)
		if err != nil {
			return fmt.Errorf("record %s: %w", r.ID, err)
		}
		buffer = text
		if len(text) > maxRecord {
			return fmt.Errorf("record %s has %d bytes, and %d are stored at most", r.ID, len(text), maxRecord)
		}
		folder := key + "/" + day
		if r.Standing != run.Final || len(records) == 1 {
			if err := s.store(ctx, path.Join(folder, r.ID, fileName(r.Version())), text); err != nil {
				return err
			}
			buffer = nil // a storage may keep the text
			continue
		}
		b := batches[folder]
		if b != nil && len(b.text)+len(text) > maxBatch {
			if err := s.storeBatch(ctx, folder, b); err != nil {
				return err
			}
			b = nil
		}
		if b == nil {
			b = &batch{text: make([]byte, 0, min(size, max(maxBatch, len(text)+1)))}
			batches[folder] = b
		}
		b.add(r.ID, text)
		size -= len(r.Data) + recordOverhead
	}
	for folder, b := range batches {
		if err := s.storeBatch(ctx, folder, b); err != nil {
			return err
		}
	}
	return nil
}

// appendRecord appends the JSON of a record, in one line. It does not check the data, which would take longer than the rest:
// invalid data would damage only one line of a batch, and the reader notices that.
func appendRecord(to []byte, r *run.Record, checked bool) ([]byte, error) {
	if checked || bytes.IndexByte(r.Data, '\n') >= 0 || bytes.IndexByte(r.Data, '\r') >= 0 { // ContainsAny takes much longer
		text, err := json.Marshal(storedRecord{r.ID, r.Event, r.At.UTC(), r.Data}, recordOptions)
		return append(to, text...), err
	}
	to = slices.Grow(to, len(r.Data)+recordOverhead)
	to = append(append(to, lineStart...), r.ID...) // a UUID
	to = strconv.AppendUint(append(to, `","event":`...), r.Event, 10)
	to = r.At.UTC().AppendFormat(append(to, `,"at":"`...), time.RFC3339Nano)
	return append(append(append(to, `","data":`...), r.Data...), '}'), nil
}

// recordOverhead is the approximate size of a record's line without its data, in bytes.
const recordOverhead = 160

func (s *Records) store(ctx context.Context, key string, text []byte) error {
	if err := s.storage.Store(ctx, key, text); err != nil {
		return fmt.Errorf("storing record %s: %w", path.Base(key), err)
	}
	return nil
}

// Get implements [run.Store]. If the newest record is damaged, it returns the newest undamaged one. It costs one
// listing of a few names and one reading. A record that was only stored together with others costs further: at most once in
// [batchListAge] a listing of the day of its owner, and the reading of each batch whose first and last ids it lies
// between. That is one of at most [maxBatch] for each instance, or two: a batch has the runs that ended within a second.
func (s *Records) Get(ctx context.Context, owner, id string) (*run.Record, error) {
	day, err := dayOf(id)
	if err != nil {
		return nil, run.ErrNoRecord // Put refuses such an id
	}
	r, err := s.get(ctx, path.Join(s.ownerKey(owner), day), id)
	if err != nil {
		return nil, err
	}
	r.Owner = owner
	return r, nil
}

// get is Get in the folder of a day of an owner. It does not set the owner.
func (s *Records) get(ctx context.Context, folder, id string) (*run.Record, error) {
	r, err := s.newest(ctx, folder, id, run.Version{})
	if r == nil && (err == nil || errors.Is(err, run.ErrDamaged)) {
		if batched, failed := s.batched(ctx, folder, id); batched != nil {
			r, err = batched, nil
		} else {
			err = cmp.Or(err, failed, run.ErrNoRecord)
		}
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Newer implements [run.Store]. If the newest record is damaged, it returns the newest undamaged one.
func (s *Records) Newer(ctx context.Context, owner, id string, than run.Version) (*run.Record, error) {
	day, err := dayOf(id)
	if err != nil {
		return nil, nil // Put refuses such an id
	}
	r, err := s.newest(ctx, path.Join(s.ownerKey(owner), day), id, than)
	if r != nil {
		r.Owner = owner
	}
	return r, err
}

// newest returns the newest undamaged record in the folder of an id that is newer than a version; nil: there is none. The
// error is that of the newest record, if no other one can be returned.
func (s *Records) newest(ctx context.Context, folder, id string, than run.Version) (*run.Record, error) {
	for range 3 { // a record may be deleted after the folder is listed if there are newer ones
		names, err := s.list(ctx, path.Join(folder, id), false)
		if err != nil {
			return nil, err
		}
		var failed error
		for _, v := range slices.Backward(versions(names)) {
			if v.Compare(than) <= 0 || errors.Is(failed, fs.ErrNotExist) {
				break
			}
			r, err := s.read(ctx, folder, id, v)
			if err == nil || errors.Is(err, run.ErrNoRoom) {
				return r, err
			}
			failed = cmp.Or(failed, err)
		}
		if !errors.Is(failed, fs.ErrNotExist) || ctx.Err() != nil {
			return nil, failed
		}
	}
	return nil, nil
}

func (s *Records) read(ctx context.Context, folder, id string, v run.Version) (*run.Record, error) {
	text, err := s.load(ctx, path.Join(folder, id, fileName(v)), maxRecord)
	if err != nil {
		return nil, fmt.Errorf("reading event %d of record %s: %w", v.Event, id, err)
	}
	r, err := decodeRecord(text, id, v.Event)
	if r != nil {
		r.Standing = v.Standing
	}
	return r, err
}

// decodeRecord returns the record in a text. It fails if the id or the event differs from that in its storage key.
func decodeRecord(text []byte, id string, event uint64) (*run.Record, error) {
	var stored storedRecord
	if err := json.Unmarshal(text, &stored, recordOptions); err != nil {
		return nil, fmt.Errorf("event %d of record %s is not JSON of this bridge: %w", event, id, run.ErrDamaged) // err may quote it
	}
	if stored.ID != id || stored.Event != event {
		return nil, fmt.Errorf("event %d of record %s says that it is another one: %w", event, id, run.ErrDamaged)
	}
	return &run.Record{ID: id, Event: event, At: stored.At, Data: stored.Data}, nil
}

// load reads a file that is not larger than a bound, in bytes.
func (s *Records) load(ctx context.Context, key string, most int64) ([]byte, error) {
	return Load(ctx, s.storage, key, most)
}

// Lock implements [run.Store]. A lock costs several operations of the storage. A caller that waits for a lock may get it up to a
// second after its release.
func (s *Records) Lock(ctx context.Context, owner, id string) (unlock func(), err error) {
	key := lockKey(s.ownerKey(owner), id)
	if err := s.storage.Lock(ctx, key); err != nil {
		return nil, fmt.Errorf("locking a record: %w", err)
	}
	return sync.OnceFunc(func() { _ = release(ctx, s.storage, key) }), nil
}

// ownerKey is the storage key of an owner's records. A principal can be any text: its hash fits into a key.
func (s *Records) ownerKey(owner string) string { return path.Join(s.root, digest("owner", owner)) }

// lockKey is the storage key of a lock. It is not below the root, since some storages keep their locks among the other keys.
func lockKey(ownerKey, id string) string {
	return path.Join(locksKey, digest("lock", path.Join(ownerKey, id)))
}

func digest(kind, text string) string {
	sum := sha256.Sum256([]byte(kind + "\x00" + text))
	return hex.EncodeToString(sum[:])
}

// isDigest reports whether a name has the form of a result of digest.
func isDigest(name string) bool {
	_, err := hex.DecodeString(name)
	return len(name) == 2*sha256.Size && err == nil
}

// dayOf returns the day (UTC) on which an id was made. The id contains the time.
func dayOf(id string) (string, error) {
	made, ok := run.TimeOfID(id)
	if !ok {
		return "", fmt.Errorf("%q is not the id of a record: a UUID of version 7 in lower case", id)
	}
	return made.UTC().Format(dayLayout), nil
}
