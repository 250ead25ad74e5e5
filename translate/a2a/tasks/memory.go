package tasks

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
)

// memory holds the tasks in memory, the claims of this process, and the queue of entries that have to be stored.
type memory struct {
	ttl     time.Duration
	storing bool // there is a Store

	mu     sync.Mutex
	room   room
	claims map[claim]*follower
	queue  queue
}

// queue are the entries that have to be stored.
type queue struct {
	dirty []*entry
	most  int           // the length at which dropped entries are removed
	ended int           // an upper bound of the ended entries in dirty
	kick  chan struct{} // of capacity 1: wakes the writer when the queue is no longer empty, and when it is long
}

// errExists means that the task is in memory already.
var errExists = errors.New("the task exists")

// insert adds a new entry. The caller holds its lock, or the entry is not shared yet.
func (m *memory) insert(e *entry, t *task.Task, at time.Time, foreign bool) error {
	m.mu.Lock()
	defer m.unlock()
	if m.room.entry(e.owner, e.id) != nil {
		return errExists
	}
	p := place{changed: at, foreign: foreign, stored: !m.storing || e.stored.Compare(t.Version()) >= 0}
	if err := m.room.insert(e, t, p); err != nil {
		return err
	}
	m.soil(e, t)
	return nil
}

// unlock releases the lock of the memory, and ends the subscriptions of the entries that the room has dropped.
func (m *memory) unlock() {
	dropped := m.room.dropped
	m.room.dropped = nil
	m.mu.Unlock()
	if len(dropped) > 0 {
		go endSubscriptions(dropped) // the caller may hold the lock of another entry
	}
}

func endSubscriptions(entries []*entry) {
	for _, e := range entries {
		e.mu.Lock()
		e.endSubscriptions()
		e.mu.Unlock()
	}
}

// isClaimed reports whether this process follows a task. The caller holds the lock of the memory.
func (m *memory) isClaimed(e *entry) bool {
	_, claimed := m.claims[claim{e.owner, e.id}]
	return claimed
}

// remove drops an entry, if it is in memory.
func (m *memory) remove(e *entry) {
	m.mu.Lock()
	defer m.unlock()
	if !e.place.gone && e.place.state != 0 {
		m.room.drop(e)
	}
}

// hold keeps an entry from being dropped until release. It reports whether the entry is still in memory.
func (m *memory) hold(e *entry) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.place.gone {
		return false
	}
	e.place.held = true
	m.room.put(e, m.room.owners[e.owner], e.place.state, e.place.size)
	return true
}

func (m *memory) release(e *entry) {
	m.mu.Lock()
	defer m.unlock()
	o := m.room.owners[e.owner]
	e.place.held = false
	m.room.put(e, o, e.place.state, e.place.size)
	m.room.trim(o)
}

// settle counts a new version, if there is room for it. The caller holds the lock of the entry.
func (m *memory) settle(e *entry, t *task.Task) error {
	size := task.Size(t)
	m.mu.Lock()
	defer m.unlock()
	if e.place.gone { // it has expired meanwhile
		return nil
	}
	if err := m.room.grows(e, t, size); err != nil {
		return err
	}
	p, o := &e.place, m.room.owners[e.owner]
	p.changed, p.foreign, p.stored = time.Now(), false, !m.storing
	m.room.settle(e, o, t.Status.State, size)
	m.soil(e, t)
	return nil
}

// find returns the entry of a task, or nil, and whether this process follows the task.
func (m *memory) find(owner, id string) (e *entry, claimed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e = m.room.entry(owner, id)
	_, claimed = m.claims[claim{owner, id}]
	return e, claimed
}

// all returns the entries in memory.
func (m *memory) all() []*entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	entries := make([]*entry, 0, m.room.count)
	for _, o := range m.room.owners {
		entries = slices.AppendSeq(entries, maps.Values(o.entries))
	}
	return entries
}

// expired reports whether a task is older than TTL and has no follower. The caller holds the lock of the memory.
func (m *memory) expired(e *entry, now time.Time) bool {
	if m.isClaimed(e) {
		return false
	}
	ttl := m.ttl
	if e.place.foreign {
		ttl += task.ClockSkew
	}
	return now.Sub(e.place.changed) > ttl
}

// soil queues an entry for the writer. The caller holds the lock of the memory.
func (m *memory) soil(e *entry, t *task.Task) {
	q := &m.queue
	if !m.storing || e.place.stored {
		return
	}
	if !e.place.dirty {
		e.place.dirty, e.place.since = true, time.Now()
		if len(q.dirty) >= q.most { // while the Store fails, entries are dropped from memory
			q.dirty = slices.DeleteFunc(q.dirty, func(e *entry) bool { return e.place.gone })
			q.most = max(4096, 2*len(q.dirty))
		}
		q.dirty = append(q.dirty, e)
	}
	if t.Status.State.Terminal() {
		q.ended++
	}
	if len(q.dirty) == 1 || q.ended == maxBatch {
		select {
		case q.kick <- struct{}{}:
		default:
		}
	}
}

func (m *memory) isExpired(e *entry) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.expired(e, time.Now())
}

// expire drops the tasks that have expired.
func (m *memory) expire() {
	now := time.Now()
	var expired []*entry
	m.mu.Lock()
	for _, o := range m.room.owners {
		for _, e := range o.entries {
			if !e.place.held && m.expired(e, now.Add(-task.ClockSkew)) { // another instance may have changed it
				expired = append(expired, e)
			}
		}
	}
	for _, e := range expired {
		m.room.drop(e)
	}
	m.room.dropped = nil
	m.mu.Unlock()
	endSubscriptions(expired)
}

// adopted counts a version that another instance has stored, with the changes that this one has made to it. The lock of the entry is held.
func (m *memory) adopted(e *entry, t *task.Task, at time.Time) {
	size := task.Size(t)
	m.mu.Lock()
	defer m.unlock()
	if p := &e.place; !p.gone {
		if p.stored = e.stored.Compare(t.Version()) >= 0; p.stored { // else this instance has changed it since
			p.changed, p.foreign = at, true
		}
		m.room.settle(e, m.room.owners[e.owner], t.Status.State, size)
		m.soil(e, t)
	}
}

// written records that the current version of an entry is stored.
func (m *memory) written(e *entry) {
	m.mu.Lock()
	defer m.unlock()
	if p := &e.place; p.state != 0 && !p.gone && !p.stored {
		p.stored = true
		o := m.room.owners[e.owner]
		m.room.put(e, o, p.state, p.size)
		m.room.trim(o)
	}
}

// due removes from the queue the entries that have ended or have waited for a time, and returns them.
func (m *memory) due(age time.Duration) (due []*entry) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	queued := m.queue.dirty
	m.queue.dirty, m.queue.ended = nil, 0
	for _, e := range queued {
		p := &e.place
		if p.gone {
			continue
		}
		if p.state.Terminal() || now.Sub(p.since) >= age {
			p.dirty = false
			due = append(due, e)
		} else {
			m.queue.dirty = append(m.queue.dirty, e)
		}
	}
	return due
}

// requeue queues entries again, and returns the length of the queue.
func (m *memory) requeue(entries []*entry) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range entries {
		if !e.place.dirty {
			e.place.dirty = true
			m.queue.dirty = append(m.queue.dirty, e)
		}
	}
	return len(m.queue.dirty)
}

// manyEnded reports whether enough ended tasks are queued to be stored at once.
func (m *memory) manyEnded() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.queue.ended >= maxBatch
}

func (m *memory) changedAt(e *entry) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return e.place.changed
}

// open returns the ids of the tasks that have not ended.
func (m *memory) open() map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	open := make(map[string]bool, m.room.open)
	for _, o := range m.room.owners {
		for id, e := range o.entries {
			if !e.place.state.Terminal() {
				open[id] = true
			}
		}
	}
	return open
}

// named returns the id of the newest task in memory to which an owner has given a name; empty: there is none.
func (m *memory) named(owner, name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o := m.room.owners[owner]; o != nil {
		return o.names[name]
	}
	return ""
}

// of returns the tasks of an owner in memory, and those of them that have expired.
func (m *memory) of(owner string) (entries []*entry, expired map[*entry]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o := m.room.owners[owner]; o != nil {
		entries = slices.Collect(maps.Values(o.entries))
	}
	now := time.Now()
	expired = map[*entry]bool{}
	for _, e := range entries {
		if m.expired(e, now) {
			expired[e] = true
		}
	}
	return entries, expired
}

// claim makes the caller the only follower of a task until release. ok is false if there is another one.
func (m *memory) claim(c claim, end func()) (release func(), ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, taken := m.claims[c]; taken {
		return nil, false
	}
	f := &follower{end}
	m.claims[c] = f
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.claims[c] == f {
			delete(m.claims, c)
		}
	}, true
}

func (m *memory) stats() (byState map[task.State]int, size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	byState = map[task.State]int{}
	for state, n := range m.room.states {
		if n > 0 {
			byState[task.State(state)] = n
		}
	}
	return byState, m.room.size
}
