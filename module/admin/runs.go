package admin

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/fronts"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// Runs is the answer of the admin API about the runs in the databases of the process, of all instances that use them.
type Runs struct {
	// Kept counts all of them, and Open those that have not ended, by front and state, whatever the query selects.
	Kept int                       `json:"kept"`
	Open map[string]map[string]int `json:"open"`
	Runs []Run                     `json:"runs"` // the newest first
	// Next is the before of the following page; also if this one has fewer runs than its limit, or none, since few fit among many.
	Next string `json:"next,omitempty"`
	// Unread are the databases that could not be read.
	Unread []Unread `json:"unread,omitempty"`
}

// Unread is a database that could not be read.
type Unread struct {
	Place string `json:"place"`
	Error string `json:"error"`
}

// Run is a run that is kept, without its inputs and outputs.
type Run struct {
	ID string `json:"id"`
	// BridgeName is the name of the bridge that the run belongs to, or skill_publish; empty: this process has none with its name and its option principal.
	BridgeName  string    `json:"bridge_name,omitempty"`
	Front       string    `json:"front"`
	State       string    `json:"state"`
	Principal   string    `json:"principal,omitempty"`
	Skill       string    `json:"skill"`
	Namespace   string    `json:"namespace,omitempty"`
	SkillID     string    `json:"skill_id,omitempty"`
	ExecutionID string    `json:"execution_id,omitempty"` // once the provider has accepted it
	Created     time.Time `json:"created"`
	Changed     time.Time `json:"changed"`
	Expires     time.Time `json:"expires"`
	// Accepted is when the provider has accepted the run.
	Accepted time.Time `json:"accepted,omitzero"`
	// Task is the state of a task of A2A, such as auth-required, and Context that of the task.
	Task    string `json:"task,omitempty"`
	Context string `json:"context,omitempty"`
	// Named says that the caller has named the run, such as by an idempotency key.
	Named bool `json:"named,omitempty"`
	// Bytes are the size of what is kept about the end.
	Bytes int64 `json:"bytes,omitempty"`
	// Receivers are the URLs of callers that are not told everything yet. Only the answer about one run has them.
	Receivers []Receiver `json:"receivers,omitempty"`
}

// Receiver is a URL that the events of a run are sent to.
type Receiver struct {
	Name string `json:"name"`
	Host string `json:"host"`
	// Since is since when an event waits; zero: the receiver was told all that has happened so far.
	Since time.Time `json:"since,omitzero"`
	// Next is when the next request is made; zero: as soon as there is an event, or a request is in progress.
	Next time.Time `json:"next,omitzero"`
	// Failed counts the requests that failed for events that wait, or, of a task, that were given up.
	Failed int `json:"failed,omitempty"`
}

const (
	// defaultShownRuns and maxShownRuns are the numbers of runs in an answer.
	defaultShownRuns, maxShownRuns = 100, 1000
	// readTimeout bounds the reading of databases, and readPages the time after which an answer has the pages that were read: few runs may fit.
	readTimeout, readPages = 5 * time.Second, 2 * time.Second
	// stateOpen is the name of all states that have not ended.
	stateOpen = "open"
)

// RunStates returns the names that the query of runs can have as a state.
func RunStates() []string {
	states := ledger.States()
	names := make([]string, len(states), len(states)+1)
	for i, s := range states {
		names[i] = s.String()
	}
	return append(names, stateOpen)
}

// runs answers a request about kept runs. The query may have an id, a principal (empty: anonymous callers), a front, a skill, a state, a limit, and
// the before of a page.
func (adminAPI) runs(r *http.Request) (answer Runs, err error) {
	query := r.URL.Query()
	states, err := statesNamed(query.Get("state"))
	if err != nil {
		return answer, err
	}
	limit, err := number(query, "limit", defaultShownRuns, maxShownRuns)
	if err != nil {
		return answer, err
	}
	q := &ledger.Query{
		Limit: limit, Before: query.Get("before"), States: states,
		Operator: ledger.Selection{ID: query.Get("id"), Skill: query.Get("skill")},
	}
	var principal *string
	if query.Has("principal") {
		principal = new(query.Get("principal"))
	}
	if front := query.Get("front"); front != "" {
		q.Fronts = []string{front}
	}
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	return runsOf(ctx, q, principal), nil
}

// runsOf returns the runs that a query selects, of a principal; nil: of all.
func runsOf(ctx context.Context, q *ledger.Query, principal *string) Runs {
	answer := Runs{Open: map[string]map[string]int{}, Runs: []Run{}}
	counts, failed := observe.FiguresOf(ctx, observe.Databases())
	answer.Kept = counts.Kept
	for of, n := range counts.Open {
		if answer.Open[of.Front] == nil {
			answer.Open[of.Front] = map[string]int{}
		}
		answer.Open[of.Front][of.State.String()] += n
	}
	for db, err := range failed {
		answer.Unread = addUnread(answer.Unread, db, err)
	}
	names := fronts.BridgeNames()
	for begun, more := time.Now(), q.Limit > 0; more; more = answer.Next != "" && q.Limit > 0 && len(answer.Unread) == 0 && time.Since(begun) < readPages {
		page, next, unread := fronts.Runs(ctx, q, principal)
		answer.Next, q.Before, q.Limit = next, next, q.Limit-len(page)
		for _, e := range page {
			r := newRun(e)
			r.BridgeName = cmp.Or(names[e.Owner.Realm], r.BridgeName)
			if q.Operator.ID != "" {
				r.Receivers = receiversOf(fronts.Receivers(ctx, e.Identity()))
			}
			answer.Runs = append(answer.Runs, r)
		}
		for _, u := range unread {
			answer.Unread = addUnread(answer.Unread, u.DB, u.Err)
		}
	}
	return answer
}

// statesNamed returns the states of a name; empty: all.
func statesNamed(name string) (states []ledger.State, err error) {
	for _, s := range ledger.States() {
		if s.String() == name || name == stateOpen && !s.Ended() {
			states = append(states, s)
		}
	}
	if name != "" && len(states) == 0 {
		return nil, refusal(http.StatusBadRequest, "state %q is none of %q", name, RunStates())
	}
	return states, nil
}

// addUnread adds a database, once. Its place is not in the error, too.
func addUnread(all []Unread, db *store.DB, err error) []Unread {
	place := db.Status().Place
	if slices.ContainsFunc(all, func(u Unread) bool { return u.Place == shownError(place) }) {
		return all
	}
	return append(all, Unread{shownError(place), shownError(strings.TrimPrefix(err.Error(), place+": "))})
}

// receiversOf returns the receivers that are not told everything yet.
func receiversOf(all []*delivery.Delivery) (receivers []Receiver) {
	for _, d := range all {
		if d.Cursor == delivery.Over {
			continue
		}
		r := Receiver{Name: shown(d.Receiver), Host: shown(d.Host), Failed: d.Tries}
		if !d.Next.IsZero() {
			r.Since = d.Since
			if !d.Claimed {
				r.Next = d.Next
			}
		}
		receivers = append(receivers, r)
	}
	return receivers
}

func newRun(e *ledger.Entry) Run {
	r := Run{
		ID: e.ID, Front: e.Front, State: e.State.String(), Principal: shown(e.Owner.Principal), Skill: shown(e.Skill),
		Namespace: shown(e.Ref.Source), SkillID: shown(e.Ref.SkillID), ExecutionID: shown(e.Ref.ExecutionID),
		Created: e.Created, Changed: e.Changed, Expires: e.Expires, Accepted: e.Ref.Accepted, Named: e.Key != nil,
		Bytes: int64(len(e.Outcome)) + e.Apart,
	}
	if e.Front == "publish" {
		r.BridgeName = e.Owner.Realm // skill_publish
	}
	if strings.HasPrefix(e.Owner.Principal, ledger.Group) {
		r.Principal = ""
	}
	if e.Front == task.Front {
		r.Task, r.Context = task.State(e.Label.State).String(), shown(e.Label.Group)
	}
	return r
}

// number returns a number of a query, from 0 to most.
func number(query url.Values, name string, otherwise, most int) (int, error) {
	text := query.Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, refusal(http.StatusBadRequest, "%s is not a number from 0 to %d", name, most)
	}
	return n, nil
}
