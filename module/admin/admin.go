package admin

import (
	"bytes"
	"encoding/json" // Caddy's admin API is made with it
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

func init() { caddy.RegisterModule(adminAPI{}) }

// adminAPI tells what the bridges of this process do, and forgets documents. It shows
// no secret, no argument and no output.
//
//	GET  /skill_bridge/providers  each source: health, last trouble, circuit breakers, calls in progress
//	GET  /skill_bridge/skills     each skill: version, whether its descriptor is cached and fresh, what is wrong with it,
//	                              or that there is no credential for it; entries of indexes and registries that can't be used, aliases for
//	                              skills that are not listed
//	GET  /skill_bridge/runs       the calls in progress, the oldest first, with their runs
//	POST /skill_bridge/purge      {"namespace": …, "skill_id": …}: forgets one descriptor, without skill_id one source's
//	                              documents, without namespace all; all but exactly such an object is refused
//
// Bridges, the handlers of this process, are told apart by their numbers. All answers
// have the same ones, counted from 1 in the order in which the bridges were loaded. A
// bridge keeps its number, and no other gets it: that of an earlier configuration,
// which is shown while requests to it go on, has a smaller one than those of the
// present configuration, whose numbers are new.
type adminAPI struct{}

// CaddyModule returns the Caddy module information.
func (adminAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.skill_bridge", New: func() caddy.Module { return new(adminAPI) }}
}

// Provision has the calls of earlier configurations answered at the exit of the process,
// where the last configuration has no bridge. Caddy provisions the admin API with each
// configuration, before its apps.
func (adminAPI) Provision(ctx caddy.Context) error {
	observe.KeepQuiet()
	if _, err := ctx.App("events"); err != nil {
		return nil //nolint:nilerr // Caddy reports it for the app
	}
	if err := lifetime.WatchStop(ctx); err != nil {
		ctx.Logger().Debug("this configuration's stop is watched already", zap.Error(err)) // by the local admin API
	}
	return nil
}

// Routes implements caddy.AdminRouter.
func (a adminAPI) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		{Pattern: "/skill_bridge/providers", Handler: shows(a.providers)},
		{Pattern: "/skill_bridge/skills", Handler: shows(a.skills)},
		{Pattern: "/skill_bridge/runs", Handler: shows(a.runs)},
		{Pattern: "/skill_bridge/purge", Handler: caddy.AdminHandlerFunc(a.purge)},
	}
}

// shows serves what a GET is to show.
func shows(show func(*http.Request) any) caddy.AdminHandler {
	return caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		if r.Method != http.MethodGet {
			return methodError(w, r, http.MethodGet)
		}
		return writeAdmin(w, show(r))
	})
}

func methodError(w http.ResponseWriter, r *http.Request, allowed string) error {
	w.Header().Set("Allow", allowed)
	return caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: fmt.Errorf("%s is not possible here, but %s", r.Method, allowed)}
}

func writeAdmin(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(v)
}

// providerStatus is one source of skills, as the admin API shows it.
type providerStatus struct {
	Bridge          int             `json:"bridge"`
	Namespace       string          `json:"namespace"`
	Kind            string          `json:"kind"` // provider, skill or registry
	URL             string          `json:"url"`
	Health          string          `json:"health"` // ok, trouble or unknown
	LastAnswer      *time.Time      `json:"last_answer,omitempty"`
	LastTrouble     *troubleStatus  `json:"last_trouble,omitempty"`
	CircuitBreakers []breakerStatus `json:"circuit_breakers"`
	CallsInProgress int64           `json:"calls_in_progress"`
}

// troubleStatus is an exchange that went wrong.
type troubleStatus struct {
	At         time.Time `json:"at"`
	Phase      string    `json:"phase"`
	URL        string    `json:"url"`
	HTTPStatus int       `json:"http_status,omitempty"`
	Error      string    `json:"error,omitempty"`
}

// breakerStatus is the circuit breaker of a host that has failed since it last answered.
type breakerStatus struct {
	Host        string     `json:"host"`
	State       string     `json:"state"` // open or closed
	Failures    int        `json:"failures"`
	LastFailure string     `json:"last_failure"`
	Opened      *time.Time `json:"opened,omitempty"`
}

var sourceKinds = map[catalog.SourceKind]string{
	catalog.ProviderSource: "provider", catalog.SkillSource: "skill", catalog.RegistrySource: "registry",
}

func (adminAPI) providers(*http.Request) any {
	list := []providerStatus{}
	for _, b := range observe.Numbered() {
		breakers := b.Breakers.States()
		for _, s := range b.Sources() {
			list = append(list, newProviderStatus(b, s, breakers))
		}
	}
	return list
}

func newProviderStatus(bridge *observe.Bridge, s translate.SourceStatus, breakers []exchange.BreakerState) providerStatus {
	p := providerStatus{
		Bridge: bridge.Number, Namespace: s.Namespace, Kind: sourceKinds[s.Kind], URL: s.URL,
		Health: "unknown", CircuitBreakers: []breakerStatus{}, CallsInProgress: s.Runs,
	}
	answered, troubled, lasting := bridge.Health(s.Namespace)
	if !answered.IsZero() {
		p.Health, p.LastAnswer = "ok", &answered
	}
	if t := troubled; t != nil {
		if lasting {
			p.Health = "trouble"
		}
		p.LastTrouble = &troubleStatus{t.At.UTC(), string(t.Phase), t.Address, t.Status, t.Reason}
	}
	for _, b := range breakers {
		if b.Source != s.Namespace || b.Partition != s.Partition {
			continue
		}
		status := breakerStatus{Host: credential.Scrub(b.Host, bridge.Secrets...), State: "closed", Failures: b.Failures, LastFailure: b.LastFailure}
		if b.Open {
			status.State, status.Opened = "open", new(b.Opened.UTC())
			p.Health = "trouble"
		}
		p.CircuitBreakers = append(p.CircuitBreakers, status)
	}
	return p
}

// skillsStatus is what the admin API shows of skills.
type skillsStatus struct {
	Skills      []skillStatus  `json:"skills"`
	Unavailable []sourceStatus `json:"unavailable"`
	// Entries of indexes and registries that can't be used.
	LeftOut []leftOutStatus `json:"left_out"`
	// Aliases for skills that their sources do not list.
	MissingAliases []aliasStatus `json:"missing_aliases"`
}

// aliasStatus is an alias for a skill that its source does not list.
type aliasStatus struct {
	Bridge    int      `json:"bridge"`
	Namespace string   `json:"namespace"`
	Alias     string   `json:"alias"`
	SkillID   string   `json:"skill_id"`
	Near      []string `json:"near,omitempty"` // ids that may have been meant
}

// leftOutStatus are the entries of an index, or of a registry, that were left out.
type leftOutStatus struct {
	Bridge    int            `json:"bridge"`
	Namespace string         `json:"namespace"`
	Count     int            `json:"count"`
	Entries   []leftOutEntry `json:"entries"` // the first of them, at most 100 of each answer
}

// leftOutEntry is an entry that is invalid, there twice, or has an id that can't be used.
type leftOutEntry struct {
	ID      string `json:"id,omitempty"`
	Path    string `json:"path,omitempty"` // JSON Pointer into a registry's answer
	Message string `json:"message"`
}

// skillStatus is one skill.
type skillStatus struct {
	Bridge    int    `json:"bridge"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	ID        string `json:"id"`
	Version   string `json:"version,omitempty"`
	Access    string `json:"access,omitempty"`
	// fresh, stale, or not_cached until somebody calls it
	Descriptor string       `json:"descriptor"`
	FetchedAt  *time.Time   `json:"fetched_at,omitempty"`
	ExpiresAt  *time.Time   `json:"expires_at,omitempty"`
	Fault      *faultStatus `json:"fault,omitempty"`
}

// sourceStatus is a source that can't be read.
type sourceStatus struct {
	Bridge    int         `json:"bridge"`
	Namespace string      `json:"namespace"`
	Fault     faultStatus `json:"fault"`
}

// faultStatus is why a document can't be had.
type faultStatus struct {
	Code    string          `json:"code"`
	Message string          `json:"message"`
	URL     string          `json:"url,omitempty"`
	Details json.RawMessage `json:"details,omitempty"`
}

func newFaultStatus(f *run.Failure) faultStatus {
	return faultStatus{string(document.CodeOf(f)), safetext.Field(f.Text(), observe.MaxLoggedError), safetext.Field(f.URL, observe.MaxLoggedError), json.RawMessage(front.Details(f))}
}

func (adminAPI) skills(r *http.Request) any {
	status := skillsStatus{Skills: []skillStatus{}, Unavailable: []sourceStatus{}, LeftOut: []leftOutStatus{}, MissingAliases: []aliasStatus{}}
	wanted := r.URL.Query().Get("namespace")
	for _, b := range observe.Numbered() {
		skills, unavailable := b.Catalog().Inventory(r.Context())
		for _, s := range skills {
			if wanted == "" || wanted == s.Namespace {
				status.Skills = append(status.Skills, newSkillStatus(b.Number, &s))
			}
		}
		for _, u := range unavailable {
			if wanted == "" || wanted == u.Namespace {
				status.Unavailable = append(status.Unavailable, sourceStatus{b.Number, u.Namespace, newFaultStatus(u.Failure)})
			}
		}
		for _, l := range b.Catalog().LeftOut(r.Context()) {
			if wanted == "" || wanted == l.Namespace {
				status.add(b.Number, l)
			}
		}
	}
	return status
}

// add adds what is left out of a source's indexes.
func (s *skillsStatus) add(bridge int, l catalog.LeftOut) {
	if l.Count > 0 {
		status := leftOutStatus{bridge, l.Namespace, l.Count, make([]leftOutEntry, len(l.First))}
		for i, e := range l.First {
			status.Entries[i] = leftOutEntry{safetext.Field(e.ID, observe.MaxLogged), safetext.Field(e.Fault.Path, observe.MaxLogged), safetext.Field(e.Fault.Message, observe.MaxLoggedError)}
		}
		s.LeftOut = append(s.LeftOut, status)
	}
	for _, m := range l.Missing {
		near := make([]string, len(m.Near))
		for i, id := range m.Near {
			near[i] = safetext.Field(id, observe.MaxLogged)
		}
		s.MissingAliases = append(s.MissingAliases, aliasStatus{bridge, l.Namespace, m.Name, m.SkillID, near})
	}
}

func newSkillStatus(bridge int, s *catalog.SkillStatus) skillStatus {
	status := skillStatus{
		Bridge: bridge, Name: s.Name, Namespace: s.Namespace, ID: s.ID, Version: s.Version, Access: string(s.Access), Descriptor: "not_cached",
	}
	if s.Cached {
		status.Descriptor, status.FetchedAt, status.ExpiresAt = "stale", new(s.FetchedAt.UTC()), new(s.ExpiresAt.UTC())
		if time.Now().Before(s.ExpiresAt) {
			status.Descriptor = "fresh"
		}
	}
	if s.Fault != nil {
		status.Fault = new(newFaultStatus(s.Fault))
	}
	return status
}

// runsStatus is what the admin API shows of calls in progress.
type runsStatus struct {
	Total int         `json:"total"`
	Runs  []runStatus `json:"runs"` // at most 1000, the oldest
}

// runStatus is a call in progress.
type runStatus struct {
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

// maxShownRuns bounds an answer about calls in progress.
const maxShownRuns = 1000

func (adminAPI) runs(*http.Request) any {
	list, total := lifetime.Calls().InProgress(maxShownRuns)
	numbers := map[*translate.Bridge]int{}
	for _, b := range observe.Numbered() {
		numbers[b.Bridge] = b.Number
	}
	status := runsStatus{Total: total, Runs: make([]runStatus, len(list))}
	for i, c := range list {
		status.Runs[i] = runStatus{
			Bridge: numbers[c.Bridge], // 0: the call has ended by now
			Method: c.Method, Name: safetext.Field(c.Name, observe.MaxLogged), Principal: safetext.Field(c.Principal, observe.MaxLogged), TraceID: c.TraceID, Arrived: c.Arrived.UTC(),
			Namespace: c.Run.Source, SkillID: safetext.Field(c.Run.SkillID, observe.MaxLogged), ExecutionID: safetext.Field(c.Run.ExecutionID, observe.MaxLogged),
		}
		if !c.Run.Accepted.IsZero() {
			status.Runs[i].Accepted = new(c.Run.Accepted.UTC())
		}
	}
	return status
}

// purgeRequest is what is to be forgotten: a descriptor, the documents of a source, or,
// if both are empty, all documents.
type purgeRequest struct {
	Namespace string `json:"namespace,omitempty"`
	SkillID   string `json:"skill_id,omitempty"`
}

// purgeAnswer tells whose documents were forgotten.
type purgeAnswer struct {
	Purged []string `json:"purged"` // namespaces
}

const maxPurgeRequest = 64 << 10

func (adminAPI) purge(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return methodError(w, r, http.MethodPost)
	}
	wanted, err := readPurgeRequest(http.MaxBytesReader(w, r.Body, maxPurgeRequest))
	if err != nil {
		return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: err}
	}
	answer, known := purgeAnswer{Purged: []string{}}, false
	for _, b := range observe.Live() {
		for _, s := range b.Sources() {
			if wanted.Namespace != "" && wanted.Namespace != s.Namespace {
				continue
			}
			known = true
			if b.Catalog().Purge(r.Context(), s.Namespace, wanted.SkillID) {
				answer.Purged = append(answer.Purged, s.Namespace)
			}
		}
	}
	if len(answer.Purged) == 0 && wanted.Namespace != "" {
		return caddy.APIError{HTTPStatus: http.StatusNotFound, Err: notPurged(&wanted, known)}
	}
	return writeAdmin(w, answer)
}

// readPurgeRequest reads what is to be forgotten, exactly: what a mistake in a script
// sends, such as null for a variable that is not set, must not mean everything.
func readPurgeRequest(body io.Reader) (wanted purgeRequest, err error) {
	data, err := io.ReadAll(body)
	if err != nil {
		return wanted, fmt.Errorf("reading the body: %w", err)
	}
	switch text := jsontext.Value(data); {
	case len(bytes.TrimSpace(data)) == 0:
		return wanted, errors.New("the body is empty; {} removes all documents")
	case text.Kind() != jsontext.KindBeginObject:
		return wanted, errors.New("the body is not a JSON object; {} removes all documents")
	}
	var members struct {
		Namespace jsontext.Value            `json:"namespace"`
		SkillID   jsontext.Value            `json:"skill_id"`
		Others    map[string]jsontext.Value `json:",embed"`
	}
	if err := jsonv2.Unmarshal(data, &members); err != nil {
		return wanted, errors.New("the body is not a JSON object, or has a duplicate member; {} removes all documents")
	}
	if len(members.Others) > 0 {
		name := slices.Min(slices.Collect(maps.Keys(members.Others)))
		return wanted, fmt.Errorf("unknown member %q; the members are namespace and skill_id", safetext.Field(name, observe.MaxLogged))
	}
	if wanted.Namespace, err = purgeMember("namespace", members.Namespace); err != nil {
		return wanted, err
	}
	if wanted.SkillID, err = purgeMember("skill_id", members.SkillID); err != nil {
		return wanted, err
	}
	if wanted.SkillID != "" && wanted.Namespace == "" {
		return wanted, errors.New("skill_id without namespace: name the source of the skill")
	}
	return wanted, nil
}

// purgeMember reads a member that may be left out, but not be empty.
func purgeMember(name string, value jsontext.Value) (text string, err error) {
	if value == nil {
		return "", nil
	}
	if value.Kind() == jsontext.KindString {
		err = jsonv2.Unmarshal(value, &text)
	}
	if err != nil || text == "" {
		return "", fmt.Errorf("%s is empty or not a string; leave it out to select all", name)
	}
	return text, nil
}

// notPurged is why there is nothing to be forgotten.
func notPurged(wanted *purgeRequest, known bool) error {
	if known {
		return fmt.Errorf("no document of a skill %q of source %q is cached: there is no such skill, or it was not requested yet", wanted.SkillID, wanted.Namespace)
	}
	return fmt.Errorf("there is no source %q", wanted.Namespace)
}

var _ caddy.AdminRouter = adminAPI{}
