package task

import (
	"crypto/rand"
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// ids makes UUIDs of version 7 (RFC 9562) that increase. It is not that of package uuid, which never goes back behind the
// latest time in the process.
type ids struct {
	last atomic.Int64 // the time in the last id, in 1/4096 ms
}

// NewID returns an id for a new task.
func (s *Tasks) NewID() string { return s.ids.next(time.Now()) }

func (i *ids) next(now time.Time) string {
	at := now.UnixMilli()<<12 | int64(now.Nanosecond()%1e6)*4096/1e6
	for {
		last := i.last.Load()
		at = max(at, last+1)
		if i.last.CompareAndSwap(last, at) {
			break
		}
	}
	var u uuid.UUID
	binary.BigEndian.PutUint64(u[:8], uint64(at>>12<<16|7<<12|at&0xfff)) //nolint:gosec // times are positive
	rand.Read(u[8:])                                                     // does not fail
	u[8] = u[8]&0x3f | 0x80
	return u.String()
}

// isID reports whether an id is one that NewID makes.
func isID(id string) bool {
	u, err := uuid.Parse(id)
	return err == nil && u.Version() == 7 && u.String() == id
}

// mayBeStored reports whether the Store may have a task of this id. Tasks are read from it until two times TTL and a day after
// they were made, so that a guessed id costs at most the listing of one recent day.
func mayBeStored(id string, ttl time.Duration) bool {
	if !isID(id) {
		return false
	}
	u := uuid.MustParse(id)
	seconds, nanoseconds := u.Time().UnixTime()
	age := time.Since(time.Unix(seconds, nanoseconds))
	return age > -24*time.Hour && age < 2*ttl+24*time.Hour
}
