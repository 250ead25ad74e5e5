package hostile

import (
	"slices"
	"strconv"
	"sync"
)

// runs are the accepted runs of a provider.
type runs struct {
	mu     sync.Mutex
	byID   map[string]*run
	made   int
	isLean bool
}

// run is an accepted run.
type run struct {
	id, skill, call string
	running         int  // number of polls until it ends
	failing         bool // it ends as failed
	viaResult       bool // the output is only at the result URL
}

func newRuns() *runs { return &runs{byID: map[string]*run{}} }

// add adds a copy of r as the run of a request, and returns its id.
func (rs *runs) add(r run, request *Request) (id string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.made++
	r.id, r.skill, r.call = "run-"+strconv.Itoa(rs.made), request.Skill, request.Call
	rs.byID[r.id] = &r
	return r.id
}

// poll counts a poll and returns the run and its state; empty: there is no such run.
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

// result returns a run whose result is read.
func (rs *runs) result(id string) (r run, ok bool) {
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

// Runs returns the number of accepted runs.
func (rs *runs) Runs() int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.made
}

// Accepted returns the ids of the accepted runs of a call.
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
