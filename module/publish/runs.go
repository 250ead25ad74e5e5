package publish

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/translate/access"
	"github.com/skill-bridge/caddy-skill-bridge/translate/keptcalls"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/publish"
	"github.com/skill-bridge/caddy-skill-bridge/translate/quota"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

const (
	// realm is that of all published runs of a database. A run belongs to its publisher by its namespace.
	realm = "skill_publish"
	// Front is the name of published runs beside those of the bridge's fronts.
	Front = "publish"
	// codeLost is the code of a run whose process is gone, or whose outcome was not kept.
	codeLost = "LOST"
	// maxOutcome is the size of the largest outcome: base64 of an answer, and the rest.
	maxOutcome = publish.MaxAnswer/3*4 + 4<<10
)

// follower makes the ledger notice that the process of a run is gone. Its runs are submissions for the ledger, so that there is nothing to poll.
type follower struct{ of *Handler } // without that, the end of one handler would be that of all

// Name is what operators know the runs by.
func (follower) Name() string { return realm }

// Realm implements [ledger.Follower].
func (follower) Realm() string { return realm }

// Poll implements [ledger.Follower].
func (follower) Poll(context.Context, *ledger.Entry, bool) run.Run { return lost }

// Room implements [ledger.Follower].
func (follower) Room(string) exchange.AnswerBudget { return nil }

// Granted implements [ledger.Follower].
func (follower) Granted(context.Context, string) {}

// View implements [ledger.Follower].
func (follower) View(string) ledger.View { return nil }

// lost is the outcome of a run whose process is gone.
var lost = publish.Failed(codeLost, "The publisher has ended while the operation was executed; the operation may have been executed, and is not executed again", nil).Run

// credential returns a digest of the headers with which the API gets the credential of an operation.
func (q *request) credential(o *publish.Operation, salt string) string {
	d, headers := lifetime.NewDigest(salt), o.Credential(q.forwarded(o))
	for _, name := range o.Credentials {
		d.Add(append([]string{name}, headers[name]...)...)
	}
	return d.String()
}

// ownerOf returns the owner of a run with an id. Callers without a name share many, so that none has all that one may have.
func ownerOf(caller, secret string) ledger.Owner {
	if caller == "" {
		caller = ledger.Group + secret[:1] // no caller's name begins so
	}
	return ledger.Owner{Realm: realm, Principal: caller}
}

// newEntry returns the entry of the execution. Its execution id begins with a prefix.
func (x *execution) newEntry(prefix string) *ledger.Entry {
	secret, o := prefix+rand.Text(), x.skill.Operation
	n := notes{Credential: x.credential(o, secret), Began: x.began.UTC().Truncate(time.Millisecond), Of: publish.Operation{Credentials: o.Credentials, Basic: o.Basic}}
	if slices.Contains(o.Credentials, "Cookie") {
		n.Of.Secrets = o.Secrets
	}
	noted, _ := json.Marshal(&n, json.OmitZeroStructFields(true)) // it has texts only
	return &ledger.Entry{
		Owner: ownerOf(x.caller, secret), Front: Front, Skill: x.skill.ID, Asked: x.skill.ID, Notes: noted, Single: true,
		Ref: run.Ref{Source: x.catalog.namespace, SkillID: x.skill.ID, ExecutionID: secret}, Changed: x.began,
	}
}

// notes are what an entry says of its invocation.
type notes struct {
	Credential string            // a digest
	Of         publish.Operation // as far as it says which headers are its credential: it may be published no longer
	Began      time.Time

	former bool // an earlier build has written them, without Of
}

func noted(e *ledger.Entry) (n notes) {
	if json.Unmarshal(e.Notes, &n) != nil {
		var ms int64
		_, _ = fmt.Sscanf(string(e.Notes), "%s %d", &n.Credential, &ms)
		n.Began, n.former = time.UnixMilli(ms).UTC(), true
	}
	return n
}

// mayKeep reports whether one more run of the source may be kept.
func (x *execution) mayKeep() bool {
	_, own := x.handler.Runs()
	policy := quota.New(&quota.Rules{List: []quota.Rule{{
		Principal: access.Everyone, Skills: access.Everyone, Rate: quota.Amount{Count: own, Per: x.handler.Lifetime()},
	}}}, x.handler.shared.counters)
	grant, exceeded := policy.Take(x.source(), "", nil)
	grant.End(quota.Ending{})
	return exceeded == nil
}

// keep makes the run one that is kept, before its caller is told of it. Otherwise the caller has to wait for its end.
func (x *execution) keep() bool {
	if x.handler.kept == nil || !x.mayKeep() {
		return false
	}
	_, failure := x.handler.kept.Add(context.WithoutCancel(x.Context()), x.entry, maxOutcome)
	if x.kept = failure == nil; !x.kept {
		x.handler.shared.warnings.Warn("a run can't be kept, so its caller is not answered before its end", failure, zap.String("skill_id", x.skill.ID))
	}
	return x.kept
}

// claim claims an idempotency key. If that is not possible, since it is in use or too much is kept, it answers, and reports false.
func (x *execution) claim(key string, inputs jsontext.Value) bool {
	l := x.handler.kept
	if l == nil {
		x.fail(http.StatusServiceUnavailable, document.EndpointUnreachable, "There is no database, which idempotency keys need; nothing was sent to the API", nil)
		return false
	}
	sum := sha256.Sum256([]byte(lifetime.NewDigest(x.skill.ID, key, x.credential(x.skill.Operation, "")).String()))
	for {
		e := x.newEntry(hex.EncodeToString(sum[:1])) // the same owner for the same key
		e.Key, e.Args = sum[:], keptcalls.Digest(inputs)
		var present *ledger.Entry
		var fault *run.Failure
		if x.mayKeep() {
			present, fault = l.Add(x.Context(), e, maxOutcome)
		} else if present, _ = l.Named(x.Context(), e.Owner, e.Key); present == nil {
			fault = &run.Failure{Limit: &run.Limit{}}
		}
		switch {
		case fault != nil && fault.Limit != nil:
			x.failForNow(http.StatusTooManyRequests, document.RateLimited, "Too many runs are kept; nothing was sent to the API", time.Minute)
			return false
		case fault != nil:
			x.failForNow(http.StatusServiceUnavailable, document.EndpointUnreachable, "The database can't be used at the moment; nothing was sent to the API", 2*time.Second)
			return false
		case present == nil:
			x.entry, x.kept = e, true
			return true
		case !slices.Equal(present.Args, e.Args):
			x.fail(http.StatusBadRequest, document.ValidationError, "The Idempotency-Key was used before for an invocation with other inputs; use a new key for a new invocation", nil)
			return false
		case present.State == ledger.Submitting:
			present = x.submitted(present)
		}
		if present != nil { // otherwise it was certainly not executed
			x.serveKept(present, http.StatusAccepted)
			return false
		}
	}
}

// submitted awaits the end of the run of an earlier invocation with the same key for a while. It returns nil if that one was certainly not executed.
func (x *execution) submitted(e *ledger.Entry) *ledger.Entry {
	wait, _ := x.handler.asyncAfter()
	ctx, cancel := context.WithTimeout(x.Context(), cmp.Or(wait, time.Duration(x.handler.Timeout)))
	defer cancel()
	return keptcalls.Submitted(ctx, x.handler.kept.Ledger, e)
}

// idOf returns the id by which a caller finds the run of an entry.
func idOf(e *ledger.Entry) string { return strings.TrimPrefix(e.ID+"-"+e.Ref.ExecutionID, "-") }

// uuidLength is the length of the id of an entry.
const uuidLength = 36

// serveRun answers a request for a run.
func (q *request) serveRun(c *catalog, id string) {
	if !q.allows(http.MethodGet, http.MethodHead) {
		return
	}
	if known := q.handler.shared.find(id); known != nil && q.owns(c, &known.Entry, id) {
		q.write(http.StatusOK, q.state(&known.Entry, known.run))
		return
	}
	if l := q.handler.kept; l != nil && len(id) > uuidLength+2 && id[uuidLength] == '-' {
		secret := id[uuidLength+1:]
		ctx, cancel := context.WithTimeout(q.Context(), 5*time.Second)
		defer cancel()
		e, err := l.Get(ctx, ledger.Identity{Owner: ownerOf(q.caller, secret), ID: id[:uuidLength]})
		switch {
		case err == nil && q.owns(c, e, secret):
			q.serveKept(e, http.StatusOK)
			return
		case err != nil && !errors.Is(err, ledger.ErrNoEntry):
			q.failForNow(http.StatusServiceUnavailable, document.EndpointUnreachable, "The database can't be used at the moment", 2*time.Second)
			return
		}
	}
	q.fail(http.StatusNotFound, document.SkillNotFound, "There is no such run of this caller", map[string]string{"execution_id": id})
}

// owns reports whether the caller began a run, of which the request knows the secret: it has the credential that went with the invocation.
func (q *request) owns(c *catalog, e *ledger.Entry, secret string) bool {
	n := noted(e)
	if s := c.skills[e.Skill]; n.former && s != nil && s.Operation != nil {
		n.Of = *s.Operation
	}
	return e.Ref.Source == c.namespace && e.Owner == ownerOf(q.caller, secret) &&
		subtle.ConstantTimeCompare([]byte(e.Ref.ExecutionID), []byte(secret)) == 1 &&
		subtle.ConstantTimeCompare([]byte(n.Credential), []byte(q.credential(&n.Of, secret))) == 1
}

// serveKept answers with a kept run, with a status if it goes on.
func (q *request) serveKept(e *ledger.Entry, goesOn int) {
	memory := q.memory()
	defer memory.Set(0)
	if !memory.Set(e.Apart + int64(len(e.Outcome))) {
		q.failForNow(http.StatusTooManyRequests, document.RateLimited, "Too many answers are in memory", time.Second)
		return
	}
	o, ended := q.handler.kept.Outcome(q.Context(), e, nil)
	switch {
	case e.State == ledger.Unknown:
		o = lost
	case ended:
	default:
		pause := min(max(time.Since(e.Created)/10, time.Second), 10*time.Second)
		q.w.Header().Set("Retry-After", strconv.Itoa(int(pause/time.Second)))
		o = run.Run{State: map[int]run.State{http.StatusOK: run.Working, http.StatusAccepted: run.Accepted}[goesOn]}
		q.write(goesOn, q.state(e, o))
		return
	}
	q.write(http.StatusOK, q.state(e, o))
}

// response is an InvocationResponse (section 5.4).
type response struct {
	ExecutionID string         `json:"execution_id"`
	Status      string         `json:"status"`
	SkillID     string         `json:"skill_id"`
	Output      jsontext.Value `json:"output,omitzero"`
	Error       *failure       `json:"error,omitzero"`
	StatusURL   string         `json:"status_url,omitzero"`
	Timestamps  timestamps     `json:"timestamps"`
}

type timestamps struct {
	Created   time.Time `json:"created_at"`
	Updated   time.Time `json:"updated_at"`
	Completed time.Time `json:"completed_at,omitzero"`
}

// state returns the response about a run.
func (q *request) state(e *ledger.Entry, o run.Run) *response {
	r := &response{ExecutionID: idOf(e), Status: statusOf(&o), SkillID: e.Skill, Timestamps: timestamps{Created: noted(e).Began, Updated: e.Changed.UTC()}}
	if base, ok := q.base(); ok {
		r.StatusURL = base + "/runs/" + r.ExecutionID
	}
	switch {
	case o.GoesOn():
		return r
	case o.Failure == nil:
		r.Output = o.Output
	default:
		r.Error = errorOf(&o)
	}
	r.Timestamps.Completed = r.Timestamps.Updated
	return r
}

// statuses are those of runs in the words of the protocol; all other runs have failed.
var statuses = map[run.State]string{run.Accepted: "accepted", run.Working: "running", run.Completed: "completed"}

// statusOf returns the status of a run. One that completed, but whose output is gone, has failed.
func statusOf(o *run.Run) string {
	switch {
	case o.State == run.TimedOut:
		return "timeout"
	case o.Failure != nil:
		return "failed"
	}
	return cmp.Or(statuses[o.State], "failed")
}

// errorOf returns the error of a run.
func errorOf(o *run.Run) *failure {
	p := o.Failure.ProviderSaid()
	return &failure{cmp.Or(document.ErrorCode(p.Code), codeLost), o.Failure.Message, p.Details, p.Retry}
}
