package publish

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strconv"
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
	// codeLost is the code of a run whose process is gone, or whose outcome was not kept.
	codeLost = "LOST"
	// maxOutcome is the size of the largest outcome: base64 of an answer, and the rest.
	maxOutcome = publish.MaxAnswer/3*4 + 4<<10
)

// follower makes the ledger notice that the process of a run is gone. Its runs are submissions for the ledger, so that there is nothing to poll.
type follower struct{}

// Name is what operators know the runs by.
func (follower) Name() string { return realm }

// Realm implements [ledger.Follower].
func (follower) Realm() string { return realm }

// Poll implements [ledger.Follower].
func (follower) Poll(_ context.Context, e *ledger.Entry, _ bool) run.Run { return lost(e) }

// Room implements [ledger.Follower].
func (follower) Room(string) exchange.AnswerBudget { return nil }

// Granted implements [ledger.Follower].
func (follower) Granted(context.Context, string) {}

// View implements [ledger.Follower].
func (follower) View(string) ledger.View { return nil }

// lost is the outcome of a run whose process is gone.
func lost(e *ledger.Entry) run.Run {
	o := runOf(failed(codeLost, "The publisher has ended while the operation was executed; the operation may have been executed, and is not executed again"))
	o.Ref, o.Failure.Lost = e.Ref, true
	return o
}

// notes are those of an entry: the names of the credential headers that went with an invocation, and a digest of their values.
type notes struct {
	Headers []string `json:"headers,omitzero"`
	Digest  string   `json:"digest"`
}

// credentialsOf returns the notes for an invocation with some headers. The salt is the part of the run's id that can't be guessed.
func credentialsOf(o *publish.Operation, headers http.Header, salt string) notes {
	var n notes
	for _, name := range o.Credentials {
		if headers[name] != nil {
			n.Headers = append(n.Headers, name)
		}
	}
	n.Digest = n.of(headers, salt)
	return n
}

// of returns the digest for a request with some headers.
func (n *notes) of(headers http.Header, salt string) string {
	d := lifetime.NewDigest(salt)
	for _, name := range n.Headers {
		d.Add(append([]string{name}, headers[name]...)...)
	}
	return d.String()
}

// ownerOf returns the owner of a run with an id. Callers without a name share many, so that none has all that one may have.
func ownerOf(caller, secret string) ledger.Owner {
	if caller == "" {
		caller = "\t" + secret[:2] // no caller's name begins so
	}
	return ledger.Owner{Realm: realm, Principal: caller}
}

// newEntry returns the entry of the execution.
func (x *execution) newEntry() *ledger.Entry {
	text, _ := json.Marshal(&x.notes) // texts
	return &ledger.Entry{
		Owner: ownerOf(x.caller, x.secret), Front: "publish", Skill: x.skill.ID, Asked: x.skill.ID, Notes: text, Single: true,
		Ref: run.Ref{Source: x.catalog.namespace, SkillID: x.skill.ID, ExecutionID: x.secret, Accepted: x.began},
	}
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
	e := x.newEntry()
	if _, failure := x.handler.kept.Add(context.WithoutCancel(x.Context()), e, maxOutcome); failure != nil {
		x.handler.logger.Warn("a run can't be kept, so its caller is not answered before its end", zap.String("skill_id", x.skill.ID), zap.Error(failure))
		return false
	}
	x.entry = e
	return true
}

// claim claims an idempotency key. If that is not possible, since it is in use or too much is kept, it answers, and reports false.
func (x *execution) claim(key string, inputs jsontext.Value) bool {
	text := lifetime.NewDigest(x.skill.ID, key, x.notes.of(x.Header, "")).String()
	sum := sha256.Sum256([]byte(text))
	x.secret = hex.EncodeToString(sum[:1]) + rand.Text()
	x.notes.Digest = x.notes.of(x.Header, x.secret)
	l := x.handler.kept
	if l == nil {
		x.fail(http.StatusServiceUnavailable, document.EndpointUnreachable, "There is no database, which idempotency keys need; nothing was sent to the API", nil)
		return false
	}
	for {
		e := x.newEntry()
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
			x.entry = e
			return true
		case !slices.Equal(present.Args, e.Args):
			x.fail(http.StatusBadRequest, document.ValidationError, "The Idempotency-Key was used before for an invocation with other inputs; use a new key for a new invocation", nil)
			return false
		case x.join(present):
			return false
		}
	}
}

// join answers with the run of an earlier invocation with the same key, whose end it awaits for a while. It reports false if that one was certainly not executed.
func (x *execution) join(e *ledger.Entry) bool {
	wait, _ := x.handler.asyncAfter()
	ctx, cancel := context.WithTimeout(x.Context(), cmp.Or(wait, time.Duration(x.handler.Timeout)))
	defer cancel()
	if e.State == ledger.Submitting {
		for e = range x.handler.kept.Watch(ctx, e) {
			if e == nil {
				return false
			}
			if e.State != ledger.Submitting {
				break
			}
		}
	}
	x.serveKept(e, http.StatusAccepted)
	return true
}

// settle writes how a kept run has ended. It returns the outcome that was stored first.
func (x *execution) settle(o run.Run) run.Run {
	if x.entry != nil {
		o, _ = x.handler.kept.Agree(context.WithoutCancel(x.Context()), x.entry, o, ledger.Settling{First: true}, nil)
	}
	return o
}

// free makes the key of an invocation free that the API has refused.
func (x *execution) free(status int, o run.Run) {
	if status != http.StatusRequestTimeout { // otherwise it may have been executed
		o = run.Run{Failure: &run.Failure{Kind: run.ProviderFault, Executed: run.ExecutedNo}}
	}
	x.settle(o)
}

// executionID returns the id by which the caller finds the run.
func (x *execution) executionID() string {
	if x.entry != nil {
		return idOf(x.entry)
	}
	return x.secret
}

func idOf(e *ledger.Entry) string { return e.ID + "-" + e.Ref.ExecutionID }

// uuidLength is the length of the id of an entry.
const uuidLength = 36

// serveRun answers a request for a run.
func (q *request) serveRun(c *catalog, id string) {
	if !q.allows(http.MethodGet, http.MethodHead) {
		return
	}
	if known := q.handler.shared.find(id); known != nil && known.namespace == c.namespace && known.caller == q.caller && q.isOf(&known.notes, id) {
		q.write(http.StatusOK, q.state(id, known.skillID, known.run, known.began, known.ended))
		return
	}
	if l := q.handler.kept; l != nil && len(id) > uuidLength+2 && id[uuidLength] == '-' {
		secret := id[uuidLength+1:]
		ctx, cancel := context.WithTimeout(q.Context(), 5*time.Second)
		defer cancel()
		e, err := l.Get(ctx, ledger.Identity{Owner: ownerOf(q.caller, secret), ID: id[:uuidLength]})
		if err != nil && !errors.Is(err, ledger.ErrNoEntry) {
			q.failForNow(http.StatusServiceUnavailable, document.EndpointUnreachable, "The database can't be used at the moment", 2*time.Second)
			return
		}
		var n notes
		if err == nil && subtle.ConstantTimeCompare([]byte(e.Ref.ExecutionID), []byte(secret)) == 1 && e.Ref.Source == c.namespace &&
			json.Unmarshal(e.Notes, &n) == nil && q.isOf(&n, secret) {
			q.serveKept(e, http.StatusOK)
			return
		}
	}
	q.fail(http.StatusNotFound, document.SkillNotFound, "There is no such run of this caller", map[string]string{"execution_id": id})
}

// isOf reports whether the credential headers of the request are those that went with an invocation.
func (q *request) isOf(n *notes, salt string) bool {
	return subtle.ConstantTimeCompare([]byte(n.Digest), []byte(n.of(q.Header, salt))) == 1
}

// serveKept answers with a kept run, with a status if it goes on.
func (q *request) serveKept(e *ledger.Entry, goesOn int) {
	l := q.handler.kept
	if e.State == ledger.Unknown { // what one reader is told stays
		o := lost(e)
		text, _ := ledger.EncodeOutcome(&o) // it has texts
		now, _ := l.Change(q.Context(), e.Identity(), func(next *ledger.Entry) error {
			if next.State != ledger.Unknown {
				return ledger.ErrUnchanged
			}
			next.State, next.Outcome = ledger.Lost, text
			return nil
		})
		if now == nil || !now.State.Ended() {
			q.write(http.StatusOK, q.state(idOf(e), e.Skill, o, e.Created, e.Changed))
			return
		}
		e = now
	}
	o, status := run.Run{State: run.Working}, goesOn
	if e.State.Ended() {
		memory := q.memory()
		defer memory.Set(0)
		if !memory.Set(e.Apart + int64(len(e.Outcome))) {
			q.failForNow(http.StatusTooManyRequests, document.RateLimited, "Too many answers are in memory", time.Second)
			return
		}
		o, _ = l.Outcome(q.Context(), e, nil)
		status = http.StatusOK
	} else {
		if goesOn == http.StatusAccepted {
			o.State = run.Accepted
		}
		pause := min(max(time.Since(e.Created)/10, time.Second), 10*time.Second)
		q.w.Header().Set("Retry-After", strconv.Itoa(int(pause/time.Second)))
	}
	q.write(status, q.state(idOf(e), e.Skill, o, e.Created, e.Changed))
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
func (q *request) state(id, skillID string, o run.Run, began, changed time.Time) *response {
	r := &response{ExecutionID: id, Status: statusOf(o.State), SkillID: skillID, Timestamps: timestamps{Created: began.UTC(), Updated: changed.UTC()}}
	if base, ok := q.base(); ok {
		r.StatusURL = base + "/runs/" + id
	}
	switch {
	case o.State == run.Completed && o.Failure == nil:
		r.Output = o.Output
	case o.State.Ended():
		r.Error = errorOf(&o)
		if o.State == run.Completed { // but its output is gone
			r.Status = statusOf(run.Failed)
		}
	default:
		return r
	}
	r.Timestamps.Completed = r.Timestamps.Updated
	return r
}

// statuses are those of runs in the words of the protocol; all other runs have failed.
var statuses = map[run.State]string{run.Accepted: "accepted", run.Working: "running", run.Completed: "completed", run.TimedOut: "timeout"}

// statusOf returns the status of a run.
func statusOf(s run.State) string { return cmp.Or(statuses[s], "failed") }

// errorOf returns the error of a run.
func errorOf(o *run.Run) *failure {
	p := o.Failure.ProviderSaid()
	return &failure{cmp.Or(document.ErrorCode(p.Code), codeLost), o.Failure.Message, p.Details, p.Retry}
}

// runOf returns the run of a result.
func runOf(r *publish.Result) run.Run {
	if r.Status == "completed" {
		return run.Run{State: run.Completed, Output: r.Output}
	}
	o := run.Run{State: run.Failed, Failure: &run.Failure{
		Kind: run.RunFailed, Phase: run.PhaseInvoke, By: run.Provider, Executed: run.ExecutedYes, Message: r.Error.Message,
		Provider: &run.ProviderError{Code: r.Error.Code, Details: r.Error.Details, Retry: retryAfter(r.RetryAfter)},
	}}
	switch {
	case r.Status == "timeout":
		o.State = run.TimedOut
	case r.Error.Code == codeLost:
		o.State = run.Lost
	}
	return o
}
