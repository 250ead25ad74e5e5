package ledgertest

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
