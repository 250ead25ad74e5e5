package ledgertest

import (
	"maps"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// Pause lets each statement of the instance wait until Go is called, as if its process had been stopped.
func (s *Store) Pause() {
	s.control.Lock()
	defer s.control.Unlock()
	s.paused = make(chan struct{})
}

// Go ends a pause.
func (s *Store) Go() {
	s.control.Lock()
	defer s.control.Unlock()
	close(s.paused)
	s.paused = nil
}

// Hang lets statements wait for the ends of their contexts, as if the database did not respond; nil: none does.
func (s *Store) Hang(hangs func(statement string) bool) {
	s.control.Lock()
	defer s.control.Unlock()
	s.hangs = hangs
}

// Fail lets statements fail before or after they have had their effect; nil: they don't.
func (s *Store) Fail(before, after func(statement string) error) {
	s.control.Lock()
	defer s.control.Unlock()
	s.before, s.after = before, after
}

// Ahead makes the clock of the database differ from those of all its instances.
func (db *DB) Ahead(by time.Duration) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.ahead = by
}

// Mute lets instances hear nothing of others' changes, as those that share a file of SQLite don't.
func (db *DB) Mute() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.mute = true
}

// Now implements [ledger.Store].
func (s *Store) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.ahead)
}

// copied returns a copy of a stored entry, with NotBefore by the clock of the instance. The lock is held.
func (db *DB) copied(e *ledger.Entry) *ledger.Entry {
	own := *e
	if !own.Ref.NotBefore.IsZero() {
		own.Ref.NotBefore = own.Ref.NotBefore.Add(-db.ahead)
	}
	return &own
}

// Restore gives the database the entries that it had when a copy was made, as if that had been a backup, or a replica that takes over.
func (db *DB) Restore(from *DB) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.entries, db.keys, db.outcomes = maps.Clone(from.entries), maps.Clone(from.keys), maps.Clone(from.outcomes)
}

// Copy returns the database as it is now, for a process that finds it after all instances of this one have ended without a word.
func (db *DB) Copy() *DB {
	db.mu.Lock()
	defer db.mu.Unlock()
	next := New()
	next.entries, next.keys, next.outcomes, next.leases, next.made = maps.Clone(db.entries), maps.Clone(db.keys), maps.Clone(db.outcomes), maps.Clone(db.leases), db.made
	return next
}

// tell tells the other instances of changes: those that look, or those that are told which. The lock is held.
func (s *Store) tell(ids []string, looks bool) {
	for _, other := range s.instances {
		if other == s || other.looks != looks {
			continue
		}
		select {
		case other.changes <- ids:
		default:
		}
	}
}

// Announce implements [ledger.Store].
func (s *Store) Announce(ids []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mute {
		return false
	}
	s.tell(ids, false)
	return true
}

// Changes implements [ledger.Store].
func (s *Store) Changes() <-chan []string { return s.changes }
