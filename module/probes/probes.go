// Package probes answers the programs that watch a bridge, such as Kubernetes and balancers: whether the process is alive, and whether it is ready for
// calls. A probe sends nothing to a provider, and asks a database at most once a second.
package probes

import (
	"encoding/json" // as Caddy's admin API
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// The last segments of the paths of a site's probes.
const (
	Health    = "/healthz"
	Readiness = "/readyz"
)

// Serve answers a request for a probe of a site about its bridge: without the reasons of problems, since everybody may read the answer.
func Serve(w http.ResponseWriter, r *http.Request, bridge *observe.Bridge) {
	answer := Healthy
	if strings.HasSuffix(r.URL.Path, Readiness) {
		answer = Ready([]*observe.Bridge{bridge}, nil)
		answer.Error = ""
		for i := range answer.Problems {
			answer.Problems[i], _, _ = strings.Cut(answer.Problems[i], ":")
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(answer.HTTPStatus())
	_ = json.NewEncoder(w).Encode(answer) // the client may be gone
}

// Answer is what a probe says.
type Answer struct {
	// Status is ok: the process answers; ready: nothing is known to be wrong; degraded: the bridge takes calls, of which some fail; or unready: let other
	// instances get the calls.
	Status string `json:"status"`
	// Problems are what does not work (process, configuration, database, sources, documents), with a colon and the reason for operators.
	Problems []string `json:"problems,omitempty"`
	// Error says why a bridge is unready, as in other errors of the admin API.
	Error string `json:"error,omitempty"`
}

// Healthy is the answer of a process that answers.
var Healthy = &Answer{Status: "ok"}

const degraded, unready = "degraded", "unready"

// HTTPStatus returns the HTTP status of the answer.
func (a *Answer) HTTPStatus() int {
	if a.Status == unready {
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

// add adds a problem.
func (a *Answer) add(status, problem string) {
	if !slices.Contains(a.Problems, problem) {
		a.Problems = append(a.Problems, problem)
	}
	if status == unready {
		a.Error = "not ready: " + problem
	}
	if a.Status != unready {
		a.Status = status
	}
}

// ask adds the problems of a database, which bridges and publishers may share.
func (a *Answer) ask(db *store.DB) {
	if db == nil {
		return
	}
	switch s := db.Ask(); {
	case s.Trouble != nil:
		a.add(map[bool]string{true: degraded, false: unready}[s.Open], "database: "+safetext.Field(s.Trouble.Error(), observe.MaxLoggedError))
	case !s.Open:
		a.add(unready, "database: "+s.Place+" is not open yet")
	}
}

// Ready says whether bridges and publishers are ready for calls. A database that was never open keeps them from it. One that is lost does not: calls without keys go
// on, and it is lost for all instances that share it.
func Ready(bridges []*observe.Bridge, publishers []observe.Publisher) *Answer {
	answer := &Answer{Status: "ready"}
	if caddy.Exiting() {
		answer.add(unready, "process: Caddy stops")
	}
	if len(bridges)+len(publishers) == 0 {
		answer.add(unready, "configuration: it has no skill_bridge, and no skill_publish")
	}
	for _, b := range bridges {
		answer.ask(b.Store)
		isUp := func(s translate.SourceStatus) bool { return !b.IsDown(s.Namespace) }
		if sources := b.Sources(); len(sources) > 0 && !slices.ContainsFunc(sources, isUp) {
			answer.add(degraded, fmt.Sprintf("sources: none of bridge %d can be used", b.Number))
		}
	}
	for _, p := range publishers {
		answer.ask(p.DB())
		switch skills, read := p.Published(); {
		case !read:
			answer.add(unready, "documents: those of skill_publish are not read yet")
		case skills == 0:
			answer.add(degraded, "documents: no skill is published")
		}
	}
	return answer
}
