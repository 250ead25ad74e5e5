package polling

import (
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// stored is what a snapshot, which is a JSON array, has of a skill.
type stored struct {
	Key
	Times []float32 // in seconds, oldest first
}

// Save returns a snapshot of all execution times.
func (s *Store) Save() []byte {
	s.mu.Lock()
	known := make([]*entry, 0, len(s.skills))
	for _, entries := range s.providers {
		for e := entries.Back(); e != nil; e = e.Prev() { // the most recently used last
			known = append(known, e.Value.(*entry))
		}
	}
	s.mu.Unlock()
	all := []stored{}
	for _, e := range known {
		if times := e.learner.history.snapshot(); len(times) > 0 {
			all = append(all, stored{e.key, times})
		}
	}
	data, _ := json.Marshal(all, jsontext.AllowInvalidUTF8(true)) // texts and finite numbers
	return data
}

// Load adds the execution times of a snapshot, except for skills that have execution times
// already. After an error, the store is unchanged.
func (s *Store) Load(data []byte) error {
	var all []stored
	if err := json.Unmarshal(data, &all, json.RejectUnknownMembers(true)); err != nil {
		return err
	}
	for i := range all {
		for _, t := range all[i].Times {
			if len(all[i].Times) > remembered || t < 0 || t > float32(longestExecution.Seconds()) {
				return errors.New("polling: stored execution times are damaged")
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, skill := range all {
		if l := s.learner(skill.Key); l.history.restore(skill.Times) {
			l.stored.Store(true)
		}
	}
	return nil
}
