package share

import (
	"context"
	"sync"
	"sync/atomic"
)

// Fits reports whether an owner that has own may have size more, when left remains free after that. An owner that has something gets more only if all it has
// then is at most what remains free: alone it has half, and the more owners have something, the less each gets.
func Fits(own, size, left int64) bool { return left >= 0 && (own == 0 || own+size <= left) }

// Pool counts what owners have of something, as a number or in bytes. The zero value is ready for use, by several goroutines.
type Pool struct {
	mu    sync.Mutex
	used  int64
	of    map[string]int64 // by owner; none is 0
	freed chan struct{}    // closed when something becomes free; nil: nothing waits
}

// Part is what one user has of a [Pool], at first nothing. Its fields must not change once it has something.
type Part struct {
	Pool  *Pool // nil: there is no bound
	Owner string
	Most  int64 // that all owners have together
	OfOne int64 // that the owner has; 0: only the rule of Fits bounds it. If it takes many owners to have all, the rule does not hold

	has atomic.Int64 // changes with the lock of the pool only
}

// Has returns how much the part has.
func (p *Part) Has() int64 { return p.has.Load() }

// Set changes how much the part has. If there is no room, it returns false, and nothing changes. There is always room for less.
func (p *Part) Set(size int64) bool {
	if p.Pool == nil || size == 0 && p.Has() == 0 {
		return true
	}
	p.Pool.mu.Lock()
	defer p.Pool.mu.Unlock()
	return p.set(size)
}

// Await is like Set, but waits until there is room. It returns false if the context ends before, or if there will never be room. Parts that have something and
// wait for more could wait for each other.
func (p *Part) Await(ctx context.Context, size int64) bool {
	for {
		freed, ok := p.try(size)
		if freed == nil {
			return ok
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return false
		}
	}
}

// try is like Set. If there is no room now, it returns a channel that is closed when something becomes free.
func (p *Part) try(size int64) (freed <-chan struct{}, ok bool) {
	m := p.Pool
	if m == nil {
		return nil, true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case p.set(size):
		return nil, true
	case size > p.Most, p.OfOne > 0 && size > p.OfOne:
		return nil, false
	case m.freed == nil:
		m.freed = make(chan struct{})
	}
	return m.freed, false
}

// Count changes how much the part has even if there is no room, for what is in use already.
func (p *Part) Count(size int64) {
	if p.Pool != nil {
		p.Pool.mu.Lock()
		defer p.Pool.mu.Unlock()
		p.count(size)
	}
}

// many owners leave room for others without the rule of [Fits].
const many = 16

// set is Set with the lock.
func (p *Part) set(size int64) bool {
	m, has := p.Pool, p.Has()
	own, left := m.of[p.Owner]-has, p.Most-(m.used-has)-size
	fits := Fits(own, size, left)
	if p.OfOne > 0 {
		fits = own+size <= p.OfOne && (fits || left >= 0 && p.OfOne <= p.Most/many)
	}
	if size > has && !fits {
		return false
	}
	p.count(size)
	return true
}

// count is Count with the lock.
func (p *Part) count(size int64) {
	m, more := p.Pool, size-p.Has()
	p.has.Store(size)
	m.used += more
	if m.of == nil {
		m.of = map[string]int64{}
	}
	if m.of[p.Owner] += more; m.of[p.Owner] == 0 {
		delete(m.of, p.Owner)
	}
	if more < 0 && m.freed != nil {
		close(m.freed)
		m.freed = nil
	}
}

// MakeRoom removes entries of a map, by chance, until it has fewer than most.
func MakeRoom[K comparable, V any](m map[K]V, most int) {
	for key := range m {
		if len(m) < most {
			return
		}
		delete(m, key)
	}
}
