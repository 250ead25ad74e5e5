package observe

import (
	"slices"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/access"
	"github.com/skill-bridge/caddy-skill-bridge/translate/quota"
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
	Line     func(path string) string // file and line of a value in the handler's JSON; empty: not known
	// Principals returns the principals that requests can have. nil: something in front of the handler authenticates callers.
	Principals func() []string

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

// live are the bridges of this process, including those of earlier configurations
// whose requests are still being served.
var live struct {
	mu      sync.Mutex
	last    int       // the last number that was assigned
	bridges []*Bridge // in the order in which they were loaded
}

// Live returns the bridges of this process, in the order in which they were loaded.
func Live() []*Bridge {
	live.mu.Lock()
	defer live.mu.Unlock()
	return slices.Clone(live.bridges)
}

// Databases returns the databases of the bridges of this process.
func Databases() (all []*store.DB) {
	for _, b := range Live() {
		if b.Store != nil && !slices.Contains(all, b.Store) {
			all = append(all, b.Store)
		}
	}
	return all
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
	live.mu.Lock()
	defer live.mu.Unlock()
	live.bridges = append(live.bridges, b)
	return func() {
		live.mu.Lock()
		defer live.mu.Unlock()
		live.bridges = slices.DeleteFunc(live.bridges, func(other *Bridge) bool { return other == b })
	}
}
