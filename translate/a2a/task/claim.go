package task

import (
	"context"
	"sync"
)

// claim names a task of an owner.
type claim struct{ owner, id string }

// Claim makes the caller the only follower of a task in this process, until release. While a task is claimed it does not
// expire, and other instances are expected not to change it. It reports whether there was no other follower.
func (s *Tasks) Claim(owner, id string) (release func(), ok bool) {
	c := claim{owner, id}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.claims[c]; taken {
		return nil, false
	}
	s.claims[c] = struct{}{}
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.claims, c)
	}), true
}

// keyLock is a mutex for one task. It exists while somebody holds it or waits for it.
type keyLock struct {
	held  chan struct{} // of capacity 1: full while it is held
	users int
}

// Lock waits until no other request handles a message for the task, in this process or in another one with the same Store.
func (s *Tasks) Lock(ctx context.Context, owner, id string) (unlock func(), err error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	c := claim{owner, id}
	s.mu.Lock()
	l := s.locks[c]
	if l == nil {
		l = &keyLock{held: make(chan struct{}, 1)}
		s.locks[c] = l
	}
	l.users++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(s.locks, c)
		}
	}
	select {
	case l.held <- struct{}{}:
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
	unlockStore := func() {}
	if s.store != nil {
		unlockStore, err = s.store.Lock(ctx, owner, id)
		if err != nil {
			<-l.held
			leave()
			return nil, s.failed(ctx, err)
		}
	}
	return sync.OnceFunc(func() {
		unlockStore()
		<-l.held
		leave()
	}), nil
}
