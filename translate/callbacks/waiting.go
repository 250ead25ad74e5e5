package callbacks

import (
	"cmp"
	"slices"
	"time"
)

// Waiting are the call-backs that are not delivered yet, for the operator.
type Waiting struct {
	// Waiting counts those in memory.
	Waiting int `json:"waiting"`
	// Stored counts those that are only in the storage, as far as this process knows.
	Stored int `json:"stored"`
	// Oldest is the end of the run that has waited the longest.
	Oldest time.Time `json:"oldest,omitzero"`
	// Receivers are those with the most call-backs, at most 100.
	Receivers []Receiver `json:"receivers"`
}

// Receiver is a host to which the call-backs of a caller go that wait in memory.
type Receiver struct {
	Host      string    `json:"host"`
	Principal string    `json:"principal,omitempty"`
	Waiting   int       `json:"waiting"`
	Oldest    time.Time `json:"oldest"`
	// Next is when the next request is due; none: now.
	Next time.Time `json:"next,omitzero"`
}

// maxReceivers bounds Waiting.Receivers.
const maxReceivers = 100

// Add adds the call-backs of another [Deliverer].
func (w *Waiting) Add(other *Waiting) {
	w.Waiting += other.Waiting
	w.Stored += other.Stored
	if w.Oldest.IsZero() || !other.Oldest.IsZero() && other.Oldest.Before(w.Oldest) {
		w.Oldest = other.Oldest
	}
	w.Receivers = append(w.Receivers, other.Receivers...)
	slices.SortFunc(w.Receivers, func(a, b Receiver) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Principal, b.Principal))
	})
	w.Receivers = w.Receivers[:min(len(w.Receivers), maxReceivers)]
}

// Waiting returns the call-backs that are not delivered yet.
func (d *Deliverer) Waiting() *Waiting {
	d.mu.Lock()
	all := Waiting{Waiting: len(d.lines.all), Stored: d.lines.stored}
	type key struct{ owner, host string }
	hosts := map[key]*Receiver{}
	for _, l := range d.lines.all {
		k := key{l.Owner, l.Host}
		r := hosts[k]
		if r == nil {
			r = &Receiver{Host: l.Host, Principal: l.Owner, Oldest: l.since, Next: l.next}
			hosts[k] = r
		}
		r.Waiting++
		if l.since.Before(r.Oldest) {
			r.Oldest = l.since
		}
		if l.next.Before(r.Next) { // a line that is due has none
			r.Next = l.next
		}
		if all.Oldest.IsZero() || l.since.Before(all.Oldest) {
			all.Oldest = l.since
		}
	}
	d.mu.Unlock()
	for _, r := range hosts {
		all.Receivers = append(all.Receivers, *r)
	}
	all.Add(&Waiting{})
	all.Receivers = slices.DeleteFunc(all.Receivers, func(r Receiver) bool { return d.configs.Of(r.Principal) == nil })
	for i := range all.Receivers {
		r := &all.Receivers[i]
		r.Principal = d.configs.Of(r.Principal).Caller(r.Principal).Principal
	}
	return &all
}
