package lifetime

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Usage counts the users of the resources that a handler holds: the handler itself until its
// Cleanup, and each request while it is served. Caddy calls Cleanup while the handler still
// serves requests, and may pass it further requests after that.
type Usage struct {
	users    atomic.Int64
	leave    func()
	release  func()
	releases []func()
	idle     []func()
}

// NewUsage returns a usage with one user, the handler, until it calls Leave. Whenever
// the last user ends, the usage calls the functions that close idle connections.
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

// OnRelease adds a function that is called once, when the last user ends, in reverse order
// of the calls of OnRelease. Call it before several goroutines use the usage.
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

// Leave ends the handler's own use. Further calls have no effect.
func (u *Usage) Leave() { u.leave() }
