package demo

import (
	"crypto/rand"
	"sync"
	"time"
)

const (
	tokenLifetime = 10 * time.Minute
	maxTokens     = 1000
)

// A grant is what an access token stands for.
type grant struct {
	client  string
	scopes  []string
	expires time.Time
}

// tokens holds the access tokens that are valid. They are kept as digests,
// so that looking one up tells nothing about the others by its timing.
type tokens struct {
	mu     sync.Mutex
	grants map[digest]grant
	issued []digest // oldest first, which is also the order of expiry
}

func newTokens() *tokens {
	return &tokens{grants: make(map[digest]grant)}
}

// issue makes a token. Beyond maxTokens the oldest loses its validity.
func (ts *tokens) issue(client string, scopes []string) string {
	token := rand.Text()
	key := digestOf(token)

	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.expire()
	if len(ts.issued) >= maxTokens {
		ts.dropOldest()
	}
	ts.grants[key] = grant{client, scopes, time.Now().Add(tokenLifetime)}
	ts.issued = append(ts.issued, key)
	return token
}

func (ts *tokens) lookUp(token string) (grant, bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.expire()
	g, ok := ts.grants[digestOf(token)]
	return g, ok
}

func (ts *tokens) count() int {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.expire()
	return len(ts.grants)
}

func (ts *tokens) expire() {
	now := time.Now()
	for len(ts.issued) > 0 && !now.Before(ts.grants[ts.issued[0]].expires) {
		ts.dropOldest()
	}
}

func (ts *tokens) dropOldest() {
	delete(ts.grants, ts.issued[0])
	ts.issued = ts.issued[1:]
}
