package jsonrpc

import (
	"context"
	"sync"
)

// AnswerMemory counts the bytes of answers in memory, for [Server.MaxAnswers]. Its zero value is ready for use.
//
// An owner who has bytes in it already gets more only if all its bytes are at most as many as remain free. So one owner can take half
// of the memory, two can take a third each, and others always find room.
type AnswerMemory struct {
	mu     sync.Mutex
	used   int64
	waits  int64            // bytes of texts that wait for memory in [Results.Send]
	shares map[string]int64 // by owner
	freed  chan struct{}    // closed when bytes become free; nil: there is no waiter
}

// fits reports whether an owner may replace bytes with others, when the memory has most bytes. The caller holds the lock.
func (m *AnswerMemory) fits(owner string, old, size, most int64) bool {
	if size <= old {
		return true
	}
	own, left := m.shares[owner]-old, most-(m.used-old)-size
	return left >= 0 && (own == 0 || own+size <= left)
}

// replace replaces bytes of an owner with others. The caller holds the lock.
func (m *AnswerMemory) replace(owner string, old, size int64) {
	if size == old {
		return
	}
	m.used += size - old
	if m.shares == nil {
		m.shares = map[string]int64{}
	}
	if share := m.shares[owner] + size - old; share != 0 {
		m.shares[owner] = share
	} else {
		delete(m.shares, owner)
	}
	if size < old && m.freed != nil {
		close(m.freed)
		m.freed = nil
	}
}

// wait counts bytes of a text that waits for memory while its source is in memory. It reports whether these are few enough: as many
// as a quarter of most.
func (m *AnswerMemory) wait(size, most int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if size > 0 && m.waits+size > most/4 {
		return false
	}
	m.waits += size
	return true
}

func (s *Server) memory() *AnswerMemory {
	if s.Memory != nil {
		return s.Memory
	}
	return &s.own
}

func (s *Server) owner(ctx context.Context) string {
	if s.Owner == nil {
		return ""
	}
	return s.Owner(ctx)
}

// Room is memory for texts that are read when no request waits for them, such as the output of a run in the background. It counts
// towards [Server.MaxAnswers], except the first 64 KiB. Unlike a [Request], it can wait until there is memory. The zero value has no
// bound. It is not for concurrent use, but for one text after another.
type Room struct {
	// OnWait is called when Await has to wait, perhaps several times. May be nil.
	OnWait func()

	memory *AnswerMemory
	owner  string
	limit  Limit
	held   int64 // bytes that are counted
}

// Room returns an empty room of an owner. Its user has to call Release at the end. s may be nil: there is no bound.
func (s *Server) Room(owner string) *Room {
	if s == nil || s.MaxAnswers <= 0 {
		return new(Room)
	}
	return &Room{memory: s.memory(), owner: owner, limit: Limit{s.Profile.LimitNames.Answers, s.MaxAnswers}}
}

// Room returns an empty room of the sender of the request, for texts that are read while the request is answered.
func (r *Request) Room() *Room { return r.server.Room(r.owner) }

// Await waits until there is memory for a text of which size bytes are needed now, and most bytes at the end at the most. It takes the
// memory for the whole text at once, so that a reader that has a part of its text never waits for more. It returns false if the
// context ends before, or if so much memory will never be free.
func (r *Room) Await(ctx context.Context, size, most int64) bool {
	if r.memory == nil || size <= pieceSize || size-pieceSize <= r.held {
		return true
	}
	if size-pieceSize > r.limit.Max {
		return false
	}
	if r.held > 0 { // others may wait for what it has
		return r.take(size-pieceSize) == nil
	}
	whole := min(max(size, most)-pieceSize, r.limit.Max)
	for {
		freed := r.take(whole)
		if freed == nil {
			return true
		}
		if r.OnWait != nil {
			r.OnWait()
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return false
		}
	}
}

// take takes bytes of the memory. If they do not fit, it returns a channel that is closed when bytes become free.
func (r *Room) take(size int64) (freed <-chan struct{}) {
	m := r.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fits(r.owner, r.held, size, r.limit.Max) {
		m.replace(r.owner, r.held, size)
		r.held = size
		return nil
	}
	if m.freed == nil {
		m.freed = make(chan struct{})
	}
	return m.freed
}

// Reserve replaces the number of bytes that are reserved, without waiting. It reports whether there is memory for them; if not,
// nothing is reserved any more.
func (r *Room) Reserve(size int64) bool {
	if r.memory == nil {
		return true
	}
	if r.take(max(size-pieceSize, 0)) == nil {
		return true
	}
	r.Release()
	return false
}

// Release frees the memory.
func (r *Room) Release() {
	if r.memory != nil {
		r.take(0)
	}
}

// AnswerLimit returns the limit that a failed Reserve or Await has exceeded.
func (r *Room) AnswerLimit() (name string, most int64) { return r.limit.Name, r.limit.Max }
