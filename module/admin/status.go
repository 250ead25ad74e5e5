package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/fronts"
	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/module/usage"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// Status is all that the command status shows.
type Status struct {
	Inventory
	Providers     []Provider    `json:"providers"`
	Calls         Calls         `json:"calls"`
	Runs          Runs          `json:"runs"` // without the runs themselves
	Notifications Notifications `json:"notifications"`
	Stores        []Store       `json:"stores"`
	Grants        Grants        `json:"grants"` // without the grants themselves
	Changes
}

func (a adminAPI) status(r *http.Request) Status {
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	return Status{a.skills(r), a.providers(r), a.calls(r), runsOf(ctx, new(ledger.Query), nil), a.notifications(r), a.stores(r), grantsOf(ctx, "", 0), a.changes(r)}
}

// Store is a database.
type Store struct {
	Bridges []int      `json:"bridges"` // none: only skill_publish uses it
	Kind    store.Kind `json:"kind"`
	// Place says which one it is: a file, or a host and the name of a database.
	Place string `json:"place"`
	// State is opening, open, read_only (it can be read, not written) or unusable.
	State string `json:"state"`
	// Error says why it can't be used, and Advice what to do.
	Error  string `json:"error,omitzero"`
	Advice string `json:"advice,omitzero"`
}

// stores returns the databases, in the order of the bridges and publishers.
func (adminAPI) stores(*http.Request) []Store {
	bridges, dbs := observe.Numbered(), observe.Databases()
	all := make([]Store, 0, len(dbs))
	for _, db := range dbs {
		s := storeOf(db.Status())
		for _, b := range bridges {
			if b.Store == db {
				s.Bridges = append(s.Bridges, b.Number)
			}
		}
		all = append(all, s)
	}
	return all
}

func storeOf(s store.Status) Store {
	shown := Store{Bridges: []int{}, Kind: s.Kind, Place: shownError(s.Place), State: "opening"}
	switch {
	case s.Trouble != nil:
		shown.Error, shown.Advice, shown.State = shownError(s.Trouble.Error()), s.Trouble.Advice, "unusable"
		if s.Trouble.Full {
			shown.State = "read_only"
		}
	case s.Open:
		shown.State = "open"
	}
	return shown
}

// Notifications are what webhooks of callers were not told yet, as far as the databases can be read.
type Notifications struct {
	delivery.Waiting
	// Unread are the databases that could not be read.
	Unread []Unread `json:"unread,omitempty"`
}

func (adminAPI) notifications(r *http.Request) (answer Notifications) {
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	waiting, unread := fronts.WaitingNotifications(ctx)
	answer.Waiting = *waiting
	for _, u := range unread {
		answer.Unread = addUnread(answer.Unread, u.DB, u.Err)
	}
	for i := range answer.Receivers {
		r := &answer.Receivers[i]
		r.Host, r.Principal = shown(r.Host), shown(r.Principal)
	}
	return answer
}

// shownUsage is how many rows an answer has if the request has no limit.
const shownUsage = 1000

// usage answers a request about what callers have used.
func (adminAPI) usage(r *http.Request) (answer usage.Usage, err error) {
	query := r.URL.Query()
	limit, err := number(query, "limit", shownUsage, usage.MaxRows)
	if err != nil {
		return answer, err
	}
	is := func(name, value string) bool { return !query.Has(name) || query.Get(name) == value }
	answer = observe.Usage().Usage(limit, func(row *usage.Row) bool {
		return is("principal", row.Principal) && is("namespace", row.Namespace) && is("skill_id", row.SkillID)
	})
	for i := range answer.Rows {
		row := &answer.Rows[i]
		row.Principal, row.SkillID = shown(row.Principal), shown(row.SkillID)
	}
	return answer, nil
}

// Calls is the answer of the admin API about calls in progress.
type Calls struct {
	Total int    `json:"total"`
	Calls []Call `json:"calls"` // at most the 1000 oldest
}

// Call is a call in progress.
type Call struct {
	Bridge      int        `json:"bridge"`
	Method      string     `json:"method"`
	Name        string     `json:"name"`
	Principal   string     `json:"principal,omitempty"`
	TraceID     string     `json:"trace_id"`
	Arrived     time.Time  `json:"arrived"`
	Namespace   string     `json:"namespace,omitempty"`
	SkillID     string     `json:"skill_id,omitempty"`
	ExecutionID string     `json:"execution_id,omitempty"` // once a run was accepted
	Accepted    *time.Time `json:"accepted,omitempty"`
}

// maxShownCalls is the maximum number of calls in an answer.
const maxShownCalls = 1000

func (adminAPI) calls(*http.Request) Calls {
	list, total := lifetime.Calls().InProgress(maxShownCalls)
	numbers := map[*translate.Bridge]int{}
	for _, b := range observe.Numbered() {
		numbers[b.Bridge] = b.Number
	}
	status := Calls{Total: total, Calls: make([]Call, len(list))}
	for i, c := range list {
		status.Calls[i] = Call{
			Bridge: numbers[c.Bridge], // 0: the call has ended in the meantime
			Method: c.Method, Name: shown(c.Name), Principal: shown(c.Principal), TraceID: c.TraceID, Arrived: c.Arrived.UTC(),
			Namespace: c.Run.Source, SkillID: shown(c.Run.SkillID), ExecutionID: shown(c.Run.ExecutionID),
		}
		if !c.Run.Accepted.IsZero() {
			status.Calls[i].Accepted = new(c.Run.Accepted.UTC())
		}
	}
	return status
}
