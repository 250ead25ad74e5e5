package share

import "sync"

// Signal tells any number of goroutines that something may have changed. Its zero value is ready for use.
type Signal struct {
	mu   sync.Mutex
	next chan struct{} // nil: no one waits
}

// Next returns a channel that is closed by the next Send.
func (s *Signal) Next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

// Send wakes all who wait.
func (s *Signal) Send() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}
