package run

import (
	"crypto/rand"
	"encoding/binary"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// IDs makes ids of records: UUIDs of version 7 (RFC 9562) that increase. Package uuid has none that go back when the clock
// does. The zero value is ready for use.
type IDs struct {
	last atomic.Int64 // the time in the last id, in 1/4096 ms
}

// Next returns an id for something that is made now.
func (i *IDs) Next(now time.Time) string {
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

// textLength is the length of an id. Package uuid also reads longer forms.
const textLength = 36

// TimeOfID returns when an id was made; ok is false if IDs does not make such an id.
func TimeOfID(id string) (made time.Time, ok bool) {
	u, err := uuid.Parse(id)
	if err != nil || u.Version() != 7 || len(id) != textLength || strings.ContainsAny(id, "ABCDEF") {
		return time.Time{}, false
	}
	return time.Unix(u.Time().UnixTime()), true
}
