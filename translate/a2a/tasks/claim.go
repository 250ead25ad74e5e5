package tasks

import (
	"context"
	"sync"
	"time"
)

// claim identifies a task of an owner.
type claim struct{ owner, id string }

// follower follows a claimed task.
type follower struct {
	end func() // ends the following; nil: nothing does
}

// Claim makes the caller the only follower of a task's run in this process, until release. ok is false if there is another one. A
// claimed task does not expire. end is called by [Tasks.Unfollow], and when another instance has ended the task, to end the
// following; nil: nothing ends it.
func (s *Tasks) Claim(owner, id string, end func()) (release func(), ok bool) {
	return s.memory.claim(claim{owner, id}, end)
}

// Unfollow ends the following of a task in this process, if there is a follower.
func (s *Tasks) Unfollow(owner, id string) { s.memory.unfollow(claim{owner, id}) }

func (m *memory) unfollow(c claim) {
	m.mu.Lock()
	f := m.claims[c]
	m.mu.Unlock()
	if f != nil && f.end != nil {
		f.end()
	}
}

// watchEvery is the interval in which watch runs: other instances may have ended tasks whose runs this process follows.
const watchEvery = 15 * time.Second

// watch reads the followed tasks again. It ends the following of those that have ended.
func (s *Tasks) watch() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.closing:
			return
		case <-tick.C:
		}
		for _, e := range s.memory.all() {
			if _, claimed := s.memory.find(e.owner, e.id); claimed && !isClosed(s.closing) {
				_ = s.writer.refresh(context.Background(), e) // a failure is reported
			}
		}
	}
}

// keyLock is a mutex for one task, or for the list of an owner. It exists only while callers hold it or wait for it.
type keyLock struct {
	held  chan struct{} // of capacity 1: full while it is held
	users int
}

// keyLocks are the locks that exist.
type keyLocks struct {
	mu sync.Mutex
	of map[claim]*keyLock
}

// lock waits until no other caller holds the lock.
func (k *keyLocks) lock(ctx context.Context, c claim) (unlock func(), err error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	k.mu.Lock()
	l := k.of[c]
	if l == nil {
		l = &keyLock{held: make(chan struct{}, 1)}
		if k.of == nil {
			k.of = map[claim]*keyLock{}
		}
		k.of[c] = l
	}
	l.users++
	k.mu.Unlock()
	leave := func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(k.of, c)
		}
	}
	select {
	case l.held <- struct{}{}:
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
	return func() {
		<-l.held
		leave()
	}, nil
}

// Lock waits until no other request handles a message for the task, in this process or in another one with the same Store.
// Before unlock releases the task, it stores the task if other instances may know an earlier version.
func (s *Tasks) Lock(ctx context.Context, owner, id string) (unlock func(), err error) {
	unlockHere, err := s.locks.lock(ctx, claim{owner, id})
	if err != nil {
		return nil, err
	}
	unlockStore := func() {}
	if s.config.Store != nil {
		unlockStore, err = s.config.Store.Lock(ctx, owner, id)
		if err != nil {
			unlockHere()
			return nil, s.writer.failed(ctx, err)
		}
	}
	return sync.OnceFunc(func() {
		if e, _ := s.memory.find(owner, id); e != nil && s.config.Store != nil {
			_ = s.writer.store(context.WithoutCancel(ctx), e) // a failure is reported
		}
		unlockStore()
		unlockHere()
	}), nil
}
