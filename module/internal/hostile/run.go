package hostile

import (
	"slices"
	"strconv"
	"sync"
)

// runs are the executions that a provider accepted.
type runs struct {
	mu     sync.Mutex
	byID   map[string]*run
	made   int
	isLean bool
}

// run is an execution that was accepted.
type run struct {
	id, skill, call string
	running         int  // polls that still find it running
	failing         bool // how it ends
	viaResult       bool // its output is only at the result URL
}

func newRuns() *runs { return &runs{byID: map[string]*run{}} }

// add accepts a run like r for a request, and returns its id.
func (rs *runs) add(r run, request *Request) (id string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.made++
	r.id, r.skill, r.call = "run-"+strconv.Itoa(rs.made), request.Skill, request.Call
	rs.byID[r.id] = &r
	return r.id
}

// poll returns the state of a run after one more poll; empty: there is none.
func (rs *runs) poll(id string) (r run, state string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	found := rs.byID[id]
	if found == nil {
		return r, ""
	}
	if found.running > 0 {
		found.running--
		return *found, "running"
	}
	if rs.isLean && !found.viaResult {
		delete(rs.byID, id)
	}
	if found.failing {
		return *found, "failed"
	}
	return *found, "completed"
}

// ended returns a run that was accepted.
func (rs *runs) ended(id string) (r run, ok bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	found := rs.byID[id]
	if found == nil {
		return r, false
	}
	if rs.isLean {
		delete(rs.byID, id)
	}
	return *found, true
}

// Runs is how many were accepted.
func (rs *runs) Runs() int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.made
}

// Accepted returns the ids of the runs that were accepted for a call.
func (rs *runs) Accepted(call string) (ids []string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for id, r := range rs.byID {
		if r.call == call {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (rs *runs) lean() {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.isLean = true
}
