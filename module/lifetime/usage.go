package lifetime

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Usage counts the users of what a handler holds: the handler itself until its Cleanup, and
// each request while it is served. Caddy calls Cleanup while requests are still served,
// and may serve further requests after it.
type Usage struct {
	users    atomic.Int64
	leave    func()
	release  func()
	releases []func()
	idle     []func()
}

// NewUsage returns a usage that the handler holds until it calls Leave. Whenever its
// last user ends, the functions that close idle connections are called.
func NewUsage(closeIdle ...func()) *Usage {
	u := &Usage{idle: closeIdle}
	u.release = sync.OnceFunc(func() {
		for _, release := range slices.Backward(u.releases) {
			release()
		}
	})
	u.leave = sync.OnceFunc(u.Done)
	u.Acquire()
	return u
}

// OnRelease adds a function to those that are called once, the last one first, when the
// last user ends. It is called before the usage is used by several goroutines.
func (u *Usage) OnRelease(release func()) { u.releases = append(u.releases, release) }

// Acquire begins a use.
func (u *Usage) Acquire() { u.users.Add(1) }

// Done ends a use.
func (u *Usage) Done() {
	if u.users.Add(-1) > 0 {
		return
	}
	u.release()
	for _, closeIdle := range u.idle {
		closeIdle()
	}
}

// Leave ends the handler's own use. Only the first call counts.
func (u *Usage) Leave() { u.leave() }
