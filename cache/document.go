package cache

import (
	"fmt"
	"time"
)

// Document is a document and where it came from. It is shared: neither it nor
// its value may be changed.
type Document struct {
	Value     any      // what Parse returned
	URL       string   // after redirects
	Via       []string // the URLs that redirected there, but for the one asked for
	State     State
	FetchedAt time.Time // when its content was received
	ExpiresAt time.Time // until when it is fresh; not after FetchedAt or the last revalidation if it never is
	Err       error     // why it is stale, if State is Stale
}

// State is where a document came from.
type State uint8

// The states of a document.
const (
	Hit         State = iota + 1 // it was fresh, and the origin was not asked
	Fetched                      // the origin sent it
	Revalidated                  // the origin confirmed it with a 304
	Stale                        // it is no longer fresh, but the origin is in trouble
	states
)

var stateNames = [states]string{Hit: "hit", Fetched: "fetched", Revalidated: "revalidated", Stale: "stale"}

// String returns the state's name in lower case, as in the labels of metrics.
func (s State) String() string {
	if s == 0 || s >= states {
		return fmt.Sprintf("state(%d)", uint8(s))
	}
	return stateNames[s]
}
