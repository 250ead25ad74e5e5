package catalog

import (
	"slices"
	"sync"

	"github.com/skill-bridge/caddy-skill-bridge/translate/access"
)

// audience are the principals who may use the same sources.
type audience struct {
	anonymous bool
	role      *access.Role // nil: there are no access rules
}

// listeners are those who wait for a change of a list, by what they may see. The zero value is ready for use.
type listeners struct {
	mu      sync.Mutex
	changes map[audience]chan struct{} // closed and removed at a change
}

// next returns a channel that is closed at the next change that concerns an audience.
func (l *listeners) next(a audience) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changes == nil {
		l.changes = map[audience]chan struct{}{}
	}
	if l.changes[a] == nil {
		l.changes[a] = make(chan struct{})
	}
	return l.changes[a]
}

// wake wakes the audiences that a change concerns.
func (l *listeners) wake(concerns func(audience) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for a, change := range l.changes {
		if concerns(a) {
			close(change)
			delete(l.changes, a)
		}
	}
}

// compare wakes those who wait and may use a source if its list has changed.
func compare(c *Catalog, before, now *nameTable) {
	if before != nil && !slices.EqualFunc(before.entries, now.entries, func(a, b *Listed) bool {
		return a.Name == b.Name && a.Version == b.Version && a.IndexEntry.Name == b.IndexEntry.Name && a.Description == b.Description &&
			a.CapabilityType == b.CapabilityType && a.Access == b.Access
	}) {
		c.listeners.wake(func(a audience) bool {
			return now.section.Knows(a.role) && (!a.anonymous || !now.section.RequirePrincipal)
		})
	}
}

// Changed returns a channel that is closed when the list of a source that a principal may use changes the next time, as far as it is read by then.
func (c *Catalog) Changed(principal string) <-chan struct{} {
	return c.listeners.next(audience{principal == "", c.policy.Role(principal)})
}
