package observe

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Names of events.
const (
	SourceDown        = "skill_bridge.source_down"
	SourceUp          = "skill_bridge.source_up"
	CredentialRefused = "skill_bridge.credential_refused" //nolint:gosec // not a credential
)

const (
	eventDelay = time.Second     // so long a change must last before there is an event
	eventPause = 5 * time.Second // between two events of a source
	downAfter  = 3               // so many requests in a row must fail; of those for an index, one
)

// Announce makes the observer emit events about its sources. documents are the namespaces of the sources whose documents are read with
// credentials. Call it before several goroutines use the observer.
func (o *Observer) Announce(emit Emit, documents map[string]bool) {
	o.events = &events{emit, lifetime.InBackground(emit), documents, o.health, o.secrets}
}

// events emits events about the sources of an observer. nil: there are none.
type events struct {
	emit      Emit
	soon      func(name string, data map[string]any) // does not wait for subscribers
	documents map[string]bool                        // the sources whose documents are read with credentials
	health    health
	secrets   []credential.Credentials
}

// condition is what events tell about a source.
type condition int

const (
	conditionDown condition = iota
	conditionRefused
	conditions
)

// Kinds of refused credentials. Only an accepted one of the same kind ends a refusal.
const (
	documentCredential = iota
	runCredential
	credentialKinds
)

// sourceEvents decides when there is an event about a source. It belongs to the health of the source, which outlives a reload. Its zero
// value is a source that is up.
type sourceEvents struct {
	mu       sync.Mutex
	failures [healthKinds]int                // in a row
	down     [healthKinds]map[string]any     // data of the event; nil: it is up
	refused  [credentialKinds]map[string]any // data of the event; nil: it is not refused
	told     [conditions]bool                // the subscribers know it
	waiting  bool                            // a timer calls tell
	last     time.Time                       // of the newest event
}

// current returns the data of the event about a condition; nil: it does not hold. With e.mu held.
func (e *sourceEvents) current(c condition) map[string]any {
	causes := e.down[:]
	if c == conditionRefused {
		causes = e.refused[:]
	}
	for _, data := range causes {
		if data != nil {
			return data
		}
	}
	return nil
}

// change changes the state, and lets events follow if the subscribers know another one.
func (e *sourceEvents) change(o *events, source string, edit func(*sourceEvents)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	edit(e)
	e.schedule(o, source)
}

// schedule starts the timer, if it is needed. With e.mu held.
func (e *sourceEvents) schedule(o *events, source string) {
	if e.waiting || e.current(conditionDown) != nil == e.told[conditionDown] && e.current(conditionRefused) != nil == e.told[conditionRefused] {
		return
	}
	e.waiting = true
	time.AfterFunc(max(eventDelay, time.Until(e.last.Add(eventPause))), func() { e.tell(o, source) })
}

// tell emits the events for what has changed and lasts. Subscribers may take long, so that it does not hold e.mu meanwhile.
func (e *sourceEvents) tell(o *events, source string) {
	type event struct {
		condition condition
		name      string
		data      map[string]any // nil: the condition has ended
	}
	var due []event
	e.mu.Lock()
	switch down := e.current(conditionDown); {
	case down != nil && !e.told[conditionDown]:
		due = append(due, event{conditionDown, SourceDown, down})
	case down == nil && e.told[conditionDown]:
		due = append(due, event{conditionDown, SourceUp, nil})
	}
	switch refused := e.current(conditionRefused); {
	case refused == nil: // there is no event for an end
		e.told[conditionRefused] = false
	case !e.told[conditionRefused]:
		due = append(due, event{conditionRefused, CredentialRefused, refused})
	}
	e.mu.Unlock()
	ended := false
	for _, d := range due {
		all := map[string]any{"source": source}
		maps.Copy(all, d.data)
		if !o.emit(d.name, all) {
			ended = true
			continue
		}
		e.mu.Lock()
		e.told[d.condition] = d.data != nil
		e.last = time.Now()
		e.mu.Unlock()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiting = false; !ended { // otherwise the next request of the new configuration starts the timer again
		e.schedule(o, source)
	}
}

// of returns the events of a source; nil: there are none.
func (o *events) of(source string) *sourceEvents {
	if o == nil || o.health[source] == nil {
		return nil
	}
	return &o.health[source].events
}

// reached notes whether a request has reached its source.
func (o *events) reached(ctx context.Context, x *exchange.Exchange) {
	known := o.of(x.Source)
	if known == nil || x.SaysNothing(ctx) {
		return
	}
	kind, most := healthKindOf(x.Phase), downAfter
	denied := x.Status == http.StatusUnauthorized || x.Status == http.StatusForbidden
	failed := x.Err != nil || x.Status >= http.StatusInternalServerError
	if kind == indexHealth {
		failed = failed || x.Status >= http.StatusBadRequest && !denied && x.Status != http.StatusTooManyRequests
		most = 1
	}
	if !failed && x.Status == http.StatusTooManyRequests {
		return // a busy source is neither
	}
	var data map[string]any
	if failed || denied {
		data = o.data(x.Phase, x.Address(), x.Status)
		if x.Err != nil {
			data["error"] = o.clean(x.Err.Error())
		}
	}
	document := kind != runHealth && o.documents[x.Source]
	known.change(o, x.Source, func(e *sourceEvents) {
		switch {
		case !failed:
			e.failures[kind], e.down[kind] = 0, nil
		default:
			if e.failures[kind]++; e.failures[kind] >= most && e.down[kind] == nil {
				e.down[kind] = data
			}
		}
		switch {
		case document && denied:
			e.refused[documentCredential] = data
		case document && !failed:
			e.refused[documentCredential] = nil
		}
	})
}

// clean returns a text of a provider without configured secrets and what is unsafe to show.
func (o *events) clean(text string) string {
	return safetext.Field(credential.Scrub(text, o.secrets...), MaxLoggedError)
}

// data returns the members of an event about a request to a source.
func (o *events) data(phase run.Phase, url string, status int) map[string]any {
	data := map[string]any{"phase": string(phase)}
	if url != "" {
		data["url"] = o.clean(url)
	}
	if status != 0 {
		data["http_status"] = status
	}
	return data
}

// unusable notes that a source can't be used although it answers.
func (o *events) unusable(source string, f *run.Failure) {
	known := o.of(source)
	if known == nil || f.Phase != run.PhaseDiscovery || f.Kind != run.InvalidDocument && f.Kind != run.VersionIncompatible {
		return
	}
	data := o.data(f.Phase, f.URL, f.HTTPStatus)
	data["error"] = o.clean(f.Message)
	known.change(o, source, func(e *sourceEvents) {
		if e.down[indexHealth] == nil {
			e.down[indexHealth] = data
		}
	})
}

// authenticated notes whether the provider has accepted the credential of a call.
func (o *events) authenticated(out *run.Run, s *translate.Statistics) {
	if s.Stats.Credentials == 0 {
		return // there was no request with a credential
	}
	known := o.of(s.Source)
	f := out.Failure
	switch {
	case known == nil, f != nil && f.Next() == run.NextConnect: // which says nothing about other users
	case f != nil && f.Kind == run.AuthRequired && f.HTTPStatus >= http.StatusBadRequest && f.HTTPStatus < http.StatusInternalServerError:
		data := o.data(f.Phase, f.URL, f.HTTPStatus)
		data["skill_id"] = safetext.Field(out.SkillID, MaxLogged)
		known.change(o, s.Source, func(e *sourceEvents) {
			if e.refused[runCredential] == nil {
				e.refused[runCredential] = data
			}
		})
	case f == nil || out.ExecutionID != "":
		known.change(o, s.Source, func(e *sourceEvents) { e.refused[runCredential] = nil })
	}
}
