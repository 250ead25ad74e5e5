package hostile

import (
	"net/http"
	"slices"
	"sync"
	"testing"
)

// journal records the requests of a provider, or only their numbers after Lean.
type journal struct {
	tb testing.TB

	mu        sync.Mutex
	requests  []*Request
	counts    map[target]int
	calls     map[string]tally
	forbidden []string
	isLean    bool
}

// tally counts the invocations and the executions of a call.
type tally struct{ posts, executions int }

func newJournal(tb testing.TB) *journal {
	tb.Helper()
	return &journal{tb: tb, counts: map[target]int{}, calls: map[string]tally{}}
}

// record adds a request. It returns the number of requests for its part of its skill.
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

// executes reports whether the skill may have been executed if the answer has this status.
func executes(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusGone, http.StatusUnprocessableEntity, http.StatusTooManyRequests:
		return false
	}
	return true
}

// answered records the status of an answer.
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

// Requests returns the requests for a part of a skill, in order.
func (j *journal) Requests(id string, part Part) []*Request {
	return slices.DeleteFunc(j.All(), func(r *Request) bool { return r.Skill != id || r.Part != part })
}

// All returns all requests, in order.
func (j *journal) All() []*Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.requests)
}

// Count returns the number of requests for a part of a skill.
func (j *journal) Count(id string, part Part) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.counts[target{id, part}]
}

// Posts returns the number of invocations of a call.
func (j *journal) Posts(call string) int { return j.tally(call).posts }

// Executions returns how often a call may have been executed: its invocations, except those that
// were answered with 401, 403, 404, 405, 410, 422 or 429.
func (j *journal) Executions(call string) int { return j.tally(call).executions }

func (j *journal) tally(call string) tally {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.calls[call]
}

// Duplicates returns the calls that were executed more than once, with their numbers of executions.
// Invocations without a call id are not among them.
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

// Forget removes the counts of a call and returns how often it was executed.
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

// MustNotReceive fails the test if an earlier or a later request has one of the texts in its URL, a
// header (with decoded basic authentication) or its body.
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

// Received returns the requests that contain a text.
func (j *journal) Received(text string) []*Request {
	return slices.DeleteFunc(j.All(), func(r *Request) bool { return r.find(text) == "" })
}
