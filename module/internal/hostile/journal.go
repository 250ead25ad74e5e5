package hostile

import (
	"net/http"
	"slices"
	"sync"
	"testing"
)

// journal holds the requests that a provider received, or at least their numbers.
type journal struct {
	tb testing.TB

	mu        sync.Mutex
	requests  []*Request
	counts    map[target]int
	calls     map[string]tally
	forbidden []string
	isLean    bool
}

// tally is how often a call arrived, and was executed.
type tally struct{ posts, executions int }

func newJournal(tb testing.TB) *journal {
	tb.Helper()
	return &journal{tb: tb, counts: map[target]int{}, calls: map[string]tally{}}
}

// record adds a request. It returns how many there were for its part of its skill.
func (j *journal) record(q *Request) (*Request, int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	t := target{q.Skill, q.Part}
	j.counts[t]++
	if !j.isLean {
		j.requests = append(j.requests, q)
	}
	if q.Part == Invoke {
		t := j.calls[q.Call]
		j.calls[q.Call] = tally{t.posts + 1, t.executions + 1}
	}
	for _, text := range j.forbidden {
		if where := q.find(text); where != "" {
			j.tb.Errorf("%s %s has %q in its %s", q.Method, q.Target, text, where)
		}
	}
	return q, j.counts[t]
}

// executes tells, of the status of an answer, whether it leaves open that the
// skill was executed.
func executes(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusGone, http.StatusUnprocessableEntity, http.StatusTooManyRequests:
		return false
	}
	return true
}

// answered notes the status of an answer.
func (j *journal) answered(r *Request, status int) {
	r.status.Store(int64(status))
	if r.Part != Invoke || executes(status) {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if t, known := j.calls[r.Call]; known {
		j.calls[r.Call] = tally{t.posts, t.executions - 1}
	}
}

// Requests returns those for a part of a skill, in the order in which they came.
func (j *journal) Requests(id string, part Part) []*Request {
	return slices.DeleteFunc(j.All(), func(r *Request) bool { return r.Skill != id || r.Part != part })
}

// All returns all requests, in the order in which they came.
func (j *journal) All() []*Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.requests)
}

// Count is how many requests there were for a part of a skill.
func (j *journal) Count(id string, part Part) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.counts[target{id, part}]
}

// Posts is how many invocations of one call arrived.
func (j *journal) Posts(call string) int { return j.tally(call).posts }

// Executions is how many times one call was executed, as far as the provider's
// answers leave that open: all that arrived, but those answered with 401, 403,
// 404, 405, 410, 422 or 429.
func (j *journal) Executions(call string) int { return j.tally(call).executions }

func (j *journal) tally(call string) tally {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.calls[call]
}

// Duplicates returns the calls that were executed more than once, with how often.
// Invocations without an id of a call are not among them.
func (j *journal) Duplicates() map[string]int {
	j.mu.Lock()
	defer j.mu.Unlock()
	found := map[string]int{}
	for call, t := range j.calls {
		if call != "" && t.executions > 1 {
			found[call] = t.executions
		}
	}
	return found
}

// Forget drops what is known of a call and returns how many times it was executed.
func (j *journal) Forget(call string) (executions int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	defer delete(j.calls, call)
	return j.calls[call].executions
}

func (j *journal) lean() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.isLean, j.requests = true, nil
}

// MustNotReceive fails the test when a request has one of the texts in its URL,
// a header (credentials of basic authentication decoded) or its body, now or later.
func (j *journal) MustNotReceive(texts ...string) {
	j.tb.Helper()
	j.mu.Lock()
	j.forbidden = append(j.forbidden, texts...)
	j.mu.Unlock()
	for _, text := range texts {
		for _, r := range j.Received(text) {
			j.tb.Errorf("%s %s has %q in its %s", r.Method, r.Target, text, r.find(text))
		}
	}
}

// Received returns the requests that have a text anywhere.
func (j *journal) Received(text string) []*Request {
	return slices.DeleteFunc(j.All(), func(r *Request) bool { return r.find(text) == "" })
}
