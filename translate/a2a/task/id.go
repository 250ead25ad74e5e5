package task

import (
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// NewID returns an id for a new task.
func (s *Tasks) NewID() string { return s.ids.Next(time.Now()) }

// mayBeStored reports whether the Store may have a task of this id. Tasks are read from it until two times TTL and a day after
// they were made, so that only a guessed id of a recent day costs a look into the Store.
func mayBeStored(id string, ttl time.Duration) bool {
	made, ok := run.TimeOfID(id)
	age := time.Since(made)
	return ok && age > -24*time.Hour && age < 2*ttl+24*time.Hour
}
