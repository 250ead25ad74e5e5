// Package ledgertest has a store of entries in memory, whose instances pause and fail as a test says. It is for tests.
package ledgertest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// DB is a database in memory. Its clock is [time.Now] until Ahead moves it.
type DB struct {
	// Received is called for a claim with a receiver, as a part of its statement; nil: nobody hears of them.
	Received func(e *ledger.Entry)

	mu        sync.Mutex
	ahead     time.Duration
	mute      bool
	entries   map[ledger.Identity]*ledger.Entry
	keys      map[string]ledger.Identity
	outcomes  map[ledger.Identity][]byte
	leases    map[string]time.Time
	instances []*Store
	made      int
	history   []string
}

// New returns an empty database.
func New() *DB {
	return &DB{
		entries: map[ledger.Identity]*ledger.Entry{}, keys: map[string]ledger.Identity{}, outcomes: map[ledger.Identity][]byte{}, leases: map[string]time.Time{},
	}
}

// Store is the database as an instance sees it. It implements [ledger.Store].
type Store struct {
	*DB
	labels
	changes chan []string
	looks   bool // it is told only that others have changed something, as those that share a file of SQLite are

	control sync.Mutex
	id      string
	paused  chan struct{}
	hangs   func(statement string) bool
	before  func(statement string) error
	after   func(statement string) error
	count   map[string]int
}

var _ ledger.Store = (*Store)(nil)

// Instance returns the store of a new instance. Announcements says whether it learns which entries others have changed, or only that they have.
func (db *DB) Instance(announcements bool) *Store {
	db.mu.Lock()
	defer db.mu.Unlock()
	s := &Store{DB: db, count: map[string]int{}}
	s.labels.s = s
	s.looks = !announcements
	s.changes = make(chan []string, 16)
	s.renamed()
	db.instances = append(db.instances, s)
	return s
}

// Entries returns what is stored, by id.
func (db *DB) Entries() []*ledger.Entry {
	db.mu.Lock()
	defer db.mu.Unlock()
	return slices.SortedFunc(maps.Values(db.entries), func(a, b *ledger.Entry) int { return cmp.Compare(a.ID, b.ID) })
}

// Ends returns how often an entry was written with a state that has ended.
func (db *DB) Ends(id string) (n int) {
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, of := range db.history {
		if of == id {
			n++
		}
	}
	return n
}

// Sent returns how often a statement was sent; empty: all but those of the loops.
func (s *Store) Sent(statement string) (n int) {
	s.control.Lock()
	defer s.control.Unlock()
	for name, count := range s.count {
		if name == statement || statement == "" && !slices.Contains([]string{"renew", "adopt", "overdue", "expire", "newer", "count"}, name) {
			n += count
		}
	}
	return n
}

// clock returns the time as databases store it. The lock is held.
func (db *DB) clock() time.Time {
	return time.Now().Add(db.ahead).UTC().Truncate(time.Millisecond)
}

// renamed gives the instance a new id and lease. The lock of the database is held.
func (s *Store) renamed() {
	s.made++
	s.id = fmt.Sprintf("instance %d", s.made)
	s.leases[s.id] = s.clock().Add(ledger.Lease)
}

// statement does something as one statement.
func statement[T any](ctx context.Context, s *Store, name string, do func() (T, error)) (value T, err error) {
	s.control.Lock()
	paused, hangs, before, after := s.paused, s.hangs, s.before, s.after
	s.count[name]++
	s.control.Unlock()
	if paused != nil {
		<-paused // also after the context has ended: nothing of a stopped process goes on
	}
	if hangs != nil && hangs(name) {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return value, ctx.Err()
	}
	if before != nil {
		if err := before(name); err != nil {
			return value, err
		}
	}
	s.mu.Lock()
	value, err = do()
	if !slices.Contains([]string{"get", "named", "outcome", "list", "labelled", "newer", "count", "overdue", "renew"}, name) {
		s.tell(nil, true)
	}
	s.mu.Unlock()
	if after != nil && err == nil {
		err = after(name)
	}
	return value, err
}

// Instance implements [ledger.Store].
func (s *Store) Instance() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// put stores a copy of an entry. The lock is held.
func (s *Store) put(e *ledger.Entry) {
	if e.State != ledger.Submitting && !e.State.Followed() {
		e.Follower = ""
	}
	own := *e
	own.Receiver = nil
	if own.Ref.Kept = e.ID; !own.Ref.NotBefore.IsZero() {
		own.Ref.NotBefore = own.Ref.NotBefore.Add(s.ahead)
	}
	own.Key, own.Args, own.Notes, own.Outcome = bytes.Clone(e.Key), bytes.Clone(e.Args), bytes.Clone(e.Notes), bytes.Clone(e.Outcome)
	s.entries[e.Identity()] = &own
	if e.State.Ended() {
		s.history = append(s.history, e.ID)
	}
}

// used returns an entry, unless it has ended and expired. The lock is held.
func (s *Store) used(id ledger.Identity) *ledger.Entry {
	e := s.entries[id]
	if e == nil || e.State.Ended() && e.Expires.Before(s.clock()) {
		return nil
	}
	return s.copied(e)
}

func (s *Store) named(owner ledger.Owner, key []byte) *ledger.Entry {
	if id, ok := s.keys[keyOf(owner, key)]; ok && key != nil {
		return s.used(id)
	}
	return nil
}

// keyOf identifies a key of an owner.
func keyOf(owner ledger.Owner, key []byte) string {
	return owner.Realm + "\n" + owner.Principal + "\n" + string(key)
}

// Claim implements [ledger.Store].
func (s *Store) Claim(ctx context.Context, e *ledger.Entry, keep time.Duration) (*ledger.Entry, error) {
	present, err := s.claim(ctx, e, keep)
	if full, ok := errors.AsType[*ledger.Unavailable](err); ok && full.Full {
		if present, _ = s.Named(ctx, e.Owner, e.Key); present != nil {
			err = nil
		}
	}
	return present, err
}

func (s *Store) claim(ctx context.Context, e *ledger.Entry, keep time.Duration) (*ledger.Entry, error) {
	return statement(ctx, s, "claim", func() (*ledger.Entry, error) {
		if own := s.entries[e.Identity()]; own != nil {
			e.Version, e.Created, e.Changed, e.Expires = own.Version, own.Created, own.Changed, own.Expires
			return nil, nil
		}
		if present := s.named(e.Owner, e.Key); present != nil {
			return present, nil
		}
		if e.Key != nil {
			delete(s.entries, s.keys[keyOf(e.Owner, e.Key)])
			delete(s.outcomes, s.keys[keyOf(e.Owner, e.Key)])
			s.keys[keyOf(e.Owner, e.Key)] = e.Identity()
		}
		now := s.clock()
		e.Version, e.Created, e.Changed, e.Expires, e.Follower = 1, now, now, now.Add(keep), s.id
		s.put(e)
		if e.Receiver != nil && s.Received != nil {
			s.Received(e)
		}
		return nil, nil
	})
}

// Change implements [ledger.Store].
func (s *Store) Change(ctx context.Context, e *ledger.Entry, outcome []byte, keep time.Duration) (bool, error) {
	return statement(ctx, s, "change", func() (bool, error) {
		now := s.entries[e.Identity()]
		if now == nil || now.Version != e.Version || now.State.Ended() {
			return false, nil
		}
		e.Version++
		if outcome != nil {
			e.Apart = int64(len(outcome))
		}
		if e.Changed = s.clock(); e.State.Ended() || e.State == ledger.Waiting || now.State == ledger.Waiting {
			e.Expires = e.Changed.Add(keep)
		}
		s.put(e)
		if outcome != nil {
			s.outcomes[e.Identity()] = bytes.Clone(outcome)
		}
		return true, nil
	})
}

// Delete implements [ledger.Store].
func (s *Store) Delete(ctx context.Context, id ledger.Identity) error {
	_, err := statement(ctx, s, "delete", func() (bool, error) {
		if e := s.entries[id]; e != nil && (e.State <= ledger.Unknown || e.State == ledger.Waiting && e.Version == 1) {
			delete(s.entries, id)
		}
		return true, nil
	})
	return err
}

// found returns an entry, or that there is none.
func found(e *ledger.Entry) (*ledger.Entry, error) {
	if e == nil {
		return nil, ledger.ErrNoEntry
	}
	return e, nil
}

// Get implements [ledger.Store].
func (s *Store) Get(ctx context.Context, id ledger.Identity) (*ledger.Entry, error) {
	return statement(ctx, s, "get", func() (*ledger.Entry, error) { return found(s.used(id)) })
}

// Named implements [ledger.Store].
func (s *Store) Named(ctx context.Context, owner ledger.Owner, key []byte) (*ledger.Entry, error) {
	return statement(ctx, s, "named", func() (*ledger.Entry, error) { return found(s.named(owner, key)) })
}

// Outcome implements [ledger.Store].
func (s *Store) Outcome(ctx context.Context, id ledger.Identity) ([]byte, error) {
	return statement(ctx, s, "outcome", func() ([]byte, error) {
		if s.outcomes[id] == nil || s.used(id) == nil {
			return nil, ledger.ErrNoEntry
		}
		return s.outcomes[id], nil
	})
}

// mostLooked is at how many entries List looks.
const mostLooked = 1000

// List implements [ledger.Store].
func (s *Store) List(ctx context.Context, q *ledger.Query) (page []*ledger.Entry, next string, err error) {
	return statement2(ctx, s, "list", func() ([]*ledger.Entry, string) {
		var page []*ledger.Entry
		all := slices.SortedFunc(maps.Values(s.entries), func(a, b *ledger.Entry) int { return strings.Compare(b.ID, a.ID) })
		looked, last := 0, ""
		for _, e := range all {
			if looked == mostLooked {
				return page, last
			}
			if looked, last = looked+1, e.ID; q.Before != "" && e.ID >= q.Before {
				looked--
				continue
			}
			switch {
			case q.Owner != nil && e.Owner != *q.Owner, q.Owner == nil && !Selects(&q.Operator, e), s.used(e.Identity()) == nil:
			case len(q.States) > 0 && !slices.Contains(q.States, e.State), len(q.Fronts) > 0 && !slices.Contains(q.Fronts, e.Front):
			case len(page) == q.Limit:
				return page, page[len(page)-1].ID
			default:
				page = append(page, s.copied(e))
			}
		}
		return page, ""
	})
}

// Selects reports whether an entry is selected.
func Selects(s *ledger.Selection, e *ledger.Entry) bool {
	return (s.ID == "" || e.ID == s.ID) && (s.Skill == "" || e.Skill == s.Skill)
}

func statement2[A, B any](ctx context.Context, s *Store, name string, do func() (A, B)) (a A, b B, err error) {
	_, err = statement(ctx, s, name, func() (bool, error) {
		a, b = do()
		return true, nil
	})
	return a, b, err
}

// Newer implements [ledger.Store].
func (s *Store) Newer(ctx context.Context, known map[ledger.Identity]int64) ([]*ledger.Entry, error) {
	return statement(ctx, s, "newer", func() (list []*ledger.Entry, _ error) {
		for id, version := range known {
			switch e := s.used(id); {
			case e == nil:
				list = append(list, &ledger.Entry{Owner: id.Owner, ID: id.ID})
			case e.Version != version:
				list = append(list, e)
			}
		}
		return list, nil
	})
}

// Count implements [ledger.Store].
func (s *Store) Count(ctx context.Context, owner *ledger.Owner) (ledger.Usage, error) {
	return statement(ctx, s, "count", func() (u ledger.Usage, _ error) {
		for id, e := range s.entries {
			if owner != nil && e.Owner != *owner || s.used(id) == nil {
				continue
			}
			u.Entries++
			u.Bytes += int64(len(e.Notes)+len(e.Outcome)) + e.Apart
		}
		return u, nil
	})
}

// Renew implements [ledger.Store].
func (s *Store) Renew(ctx context.Context) (lost bool, err error) {
	return statement(ctx, s, "renew", func() (bool, error) {
		now := s.clock()
		if before := s.id; s.leases[before].Before(now) {
			s.renamed()
			for _, e := range s.entries {
				if e.Follower == before && e.State == ledger.Submitting {
					e = s.copied(e)
					e.Version, e.Follower = e.Version+1, s.id
					s.put(e)
				}
			}
			return true, nil
		}
		s.leases[s.id] = now.Add(ledger.Lease)
		return false, nil
	})
}

// Adopt implements [ledger.Store].
func (s *Store) Adopt(ctx context.Context, instance string, realms []string, most int) ([]*ledger.Entry, error) {
	return statement(ctx, s, "adopt", func() (list []*ledger.Entry, _ error) {
		for _, e := range s.entries {
			if s.id != instance || s.leases[s.id].Before(s.clock().Add(ledger.Lease/2)) || e.State.Ended() || e.Follower == "" || e.Follower == s.id || !slices.Contains(realms, e.Owner.Realm) || !s.leases[e.Follower].Before(s.clock()) {
				continue
			}
			if len(list) == most {
				break
			}
			e = s.copied(e)
			e.Version++
			if e.Follower = s.id; e.State == ledger.Submitting {
				e.State, e.Follower = ledger.Unknown, ""
			}
			s.put(e)
			list = append(list, new(*e))
		}
		return list, nil
	})
}

// Overdue implements [ledger.Store].
func (s *Store) Overdue(ctx context.Context, most int) ([]*ledger.Entry, error) {
	return statement(ctx, s, "overdue", func() (list []*ledger.Entry, _ error) {
		for _, e := range s.entries {
			if !e.State.Ended() && e.Expires.Before(s.clock()) && len(list) < most {
				list = append(list, s.copied(e))
			}
		}
		return list, nil
	})
}

// Expire implements [ledger.Store].
func (s *Store) Expire(ctx context.Context, most int) (int, error) {
	return statement(ctx, s, "expire", func() (n int, _ error) {
		for id, e := range s.entries {
			if e.State.Ended() && e.Expires.Before(s.clock()) && n < most {
				delete(s.entries, id)
				delete(s.outcomes, id)
				n++
			}
		}
		return n, nil
	})
}
