package recent

import (
	"net/http"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

// Denied are the runs of which their providers have said that they do not have them. The zero value is ready for use.
type Denied struct{ runs Runs[struct{}] }

// First reports whether a poll was the first in a row in which the provider denied the run: perhaps not all servers of the provider know it
// yet. failure is that of the poll; nil: there is none. A caller that follows a run for longer needs no Denied.
func (d *Denied) First(ref *run.Ref, failure *run.Failure) bool {
	key := KeyOf("", ref)
	if failure == nil || failure.Phase != run.PhasePoll && failure.Phase != run.PhaseResult || failure.HTTPStatus != http.StatusNotFound && failure.HTTPStatus != http.StatusGone {
		d.runs.remove(key)
		return false
	}
	_, again := d.runs.Find(key)
	d.runs.Add(key, struct{}{}, runtoken.Lifetime)
	return !again && !failure.Lost
}
