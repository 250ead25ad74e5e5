package task

// Drop removes a task from memory, for a client that got its output in another form than a task. If the task was stored
// meanwhile, it stays in the Store until it expires.
func (s *Tasks) Drop(owner, id string) {
	if e, _ := s.memory.find(owner, id); e != nil {
		s.memory.remove(e)
	}
}
