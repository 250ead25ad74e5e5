package observe

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/access"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/faults"
	"github.com/skill-bridge/caddy-skill-bridge/translate/quota"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Bridge is the state of a handler for metrics and the admin API.
type Bridge struct {
	*translate.Bridge
	Number   int // see [Numbered]
	Breakers *exchange.Breakers
	Secrets  []credential.Credentials
	Access   *access.Rules // nil: there are none
	Quotas   []quota.Rule
	Store    *store.DB                // nil: there is none
	MaxRuns  int                      // how many runs it may keep in Store, of all callers
	Line     func(path string) string // file and line of a value in the handler's JSON; empty: not known
	Grants   *credentials.Accounts    // nil: there are none
	// Principals returns the principals that requests can have. nil: something in front of the handler authenticates callers.
	Principals func() []string
	// Redirect returns the redirect URI of a source of which users have accounts. nil: there are no pages on which they connect them.
	Redirect func(namespace string) string
	// TryIssuers reads the keys of the issuers of callers' access tokens. nil: there are none.
	TryIssuers func(ctx context.Context, report func(issuer string, keys int, err error))
	// Warn logs warnings about the configuration. All handlers must be provisioned.
	Warn func(*zap.Logger)

	health health
}

// Health returns when a source last answered (the zero time: never), its newest
// trouble, and whether that trouble still lasts.
func (b *Bridge) Health(namespace string) (answered time.Time, newest *Trouble, lasting bool) {
	nanoseconds, newest, lasting := b.health[namespace].state()
	if nanoseconds != 0 {
		answered = time.Unix(0, nanoseconds).UTC()
	}
	return answered, newest, lasting
}

// IsDown reports whether a source is down, as the event [SourceDown] says.
func (b *Bridge) IsDown(namespace string) bool {
	e := &b.health[namespace].events
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.current(conditionDown) != nil
}

// live are the bridges of this process, including those of earlier configurations
// whose requests are still being served.
var live struct {
	mu         sync.Mutex
	last       int         // the last number that was assigned
	bridges    []*Bridge   // in the order in which they were loaded
	publishers []Publisher // in the order in which they were loaded
}

// Publisher is a handler skill_publish.
type Publisher interface {
	DB() *store.DB           // nil: there is none
	Runs() (all, caller int) // how many runs may be kept there, and of one caller
	// Published returns how many skills are published, and whether the documents were read.
	Published() (skills int, read bool)
}

// Publishers returns the publishers of this process, in the order in which they were loaded.
func Publishers() []Publisher {
	live.mu.Lock()
	defer live.mu.Unlock()
	return slices.Clone(live.publishers)
}

// ShowPublisher shows a publisher in metrics and the admin API until the function that it returns is called.
func ShowPublisher(p Publisher) (end func()) { return show(&live.publishers, p) }

// show adds to a list of live until the function that it returns is called.
func show[T comparable](list *[]T, one T) (end func()) {
	live.mu.Lock()
	defer live.mu.Unlock()
	*list = append(*list, one)
	return func() {
		live.mu.Lock()
		defer live.mu.Unlock()
		*list = slices.DeleteFunc(*list, func(other T) bool { return other == one })
	}
}

// Live returns the bridges of this process, in the order in which they were loaded.
func Live() []*Bridge {
	live.mu.Lock()
	defer live.mu.Unlock()
	return slices.Clone(live.bridges)
}

// Databases returns the databases of the bridges and publishers of this process.
func Databases() (all []*store.DB) {
	all, _ = databases()
	return all
}

// databases also returns the lowest number of runs that one of the bridges and publishers may keep; 0: none has a database.
func databases() (all []*store.DB, mayKeep int) {
	add := func(db *store.DB, runs int) {
		if db == nil {
			return
		}
		if mayKeep = min(cmp.Or(mayKeep, runs), runs); !slices.Contains(all, db) {
			all = append(all, db)
		}
	}
	for _, b := range Live() {
		add(b.Store, b.MaxRuns)
	}
	for _, p := range Publishers() {
		most, _ := p.Runs()
		add(p.DB(), most)
	}
	return all, mayKeep
}

// Numbered is like Live, and gives each bridge without a number the next one, from 1. A
// bridge keeps its number; bridges that are loaded later have larger ones.
func Numbered() []*Bridge {
	live.mu.Lock()
	defer live.mu.Unlock()
	for _, b := range live.bridges {
		if b.Number == 0 {
			live.last++
			b.Number = live.last
		}
	}
	return slices.Clone(live.bridges)
}

// Show shows the observer's bridge in metrics and the admin API until the function that it
// returns is called. The observer adds what it knows of it.
func (o *Observer) Show(b *Bridge) (end func()) {
	b.Secrets, b.health = o.secrets, o.health
	return show(&live.bridges, b)
}

// health is the health of each source, by namespace. The map does not change after Provision.
type health map[string]*sourceHealth

type sourceHealth struct {
	faults   faults.Faults
	answered [healthKinds]atomic.Int64 // time of the last success, in Unix nanoseconds; 0: never
	trouble  atomic.Pointer[Trouble]
	events   sourceEvents
}

// Kinds of requests to a source. A success ends only a failure of the same kind.
const (
	indexHealth = iota
	descriptorHealth
	runHealth
	healthKinds
)

func healthKindOf(p run.Phase) int {
	switch p {
	case run.PhaseDiscovery:
		return indexHealth
	case run.PhaseDescriptor:
		return descriptorHealth
	}
	return runHealth
}

// state returns when the source last answered (in Unix nanoseconds; 0: never), its newest failure,
// and whether no success has followed that.
func (s *sourceHealth) state() (answered int64, newest *Trouble, lasting bool) {
	for i := range s.answered {
		answered = max(answered, s.answered[i].Load())
	}
	newest = s.trouble.Load()
	return answered, newest, newest != nil && newest.At.UnixNano() > s.answered[healthKindOf(newest.Phase)].Load()
}

// Trouble is a failed exchange with a source, as the admin API shows it.
type Trouble struct {
	At         time.Time `json:"at"`
	Phase      run.Phase `json:"phase"`
	URL        string    `json:"url"`
	HTTPStatus int       `json:"http_status,omitempty"` // 0: there was no answer
	Error      string    `json:"error,omitempty"`
}

// healthPool keeps the health of configured sources across reloads. Its keys are digests of the
// handler's shared settings, the namespace and the URL.
var healthPool = lifetime.NewPool[*sourceHealth]()

// isTrouble reports whether the status of an answer is a fault of the source. Most HTTP 4xx of an
// invocation are faults of its arguments; requests for documents and tokens should always succeed.
func isTrouble(e *exchange.Exchange) bool {
	switch e.Phase {
	case run.PhaseDiscovery, run.PhaseDescriptor, run.PhaseAuth:
		return e.Status >= http.StatusBadRequest
	}
	return e.Status >= http.StatusInternalServerError || e.Status == http.StatusUnauthorized || e.Status == http.StatusTooManyRequests
}

// unusable records why a source can't be used although it answers.
func (h health) unusable(source string, e *run.Failure) {
	if s := h[source]; s != nil {
		s.trouble.Store(&Trouble{time.Now().UTC(), e.Phase, safetext.Field(e.URL, MaxLoggedError), e.HTTPStatus, safetext.Field(e.OperatorMessage(), MaxLoggedError)})
	}
}

// note records the result of an exchange with a source.
func (h health) note(ctx context.Context, e *exchange.Exchange) {
	s := h[e.Source]
	switch {
	case s == nil, e.SaysNothing(ctx):
	case e.Err == nil && !isTrouble(e):
		if t := s.trouble.Load(); e.Phase == run.PhaseAuth && t != nil && t.Phase != run.PhaseAuth {
			return // its endpoint has issued a token, which the provider may refuse as the one before
		}
		s.answered[healthKindOf(e.Phase)].Store(time.Now().UnixNano())
	default:
		t := &Trouble{At: time.Now().UTC(), Phase: e.Phase, URL: safetext.Field(e.Address(), MaxLoggedError), HTTPStatus: e.Status}
		if e.Err != nil {
			t.Error = safetext.Field(exchange.ExactReason(e.Err), MaxLoggedError) // the log has the cause
		}
		s.trouble.Store(t)
	}
}
