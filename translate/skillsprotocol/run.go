package skillsprotocol

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// getRun answers get_run.
func (f *Front) getRun(ctx context.Context, p *params) (jsontext.Value, *jsonrpc.Error) {
	call := translate.Call{Caller: callerFor(ctx, p.request.Method), Wait: p.wait()}
	ref, fault := f.openToken(ctx, p, call.Principal)
	if fault != nil {
		return nil, fault
	}
	ctx = f.Canceled.Read(ctx, call.Principal, &ref) // once, also while the database does not respond
	if !f.Canceled.When(ctx, call.Principal, &ref).IsZero() {
		return f.answerCanceled(ctx, p, call, ref)
	}
	call.Answer = p.request
	outcome := f.bridge(p).Resume(ctx, ref, call).Wait()
	p.faults = outcome.Warnings
	return f.answerOutcome(ctx, p.request, &outcome, ref.SkillID)
}

const aboutRunToken = "the run_token of an earlier answer"

// followsRun reports whether the params of execute_skill are a call of the tool [front.GetRun] by a model, and makes those of get_run of them. If the
// arguments have no run token, they are those of a skill whose name is the same. What is about skills, such as an idempotency key, has no effect.
func followsRun(p *params) bool {
	if name := p.value(paramName); name.Kind() != '"' || string(jsonrpc.Unquote(name)) != front.GetRun {
		return false
	}
	own := p.request.Members
	p.request.Members = append(jsonrpc.MembersOf(p.value(paramArgs)), jsonrpc.MembersOf(p.request.Params)...)
	if p.value(paramRunToken) == nil {
		p.request.Members = own
		return false
	}
	return true
}

// withoutRunToken returns the error for a call of the tool [front.GetRun] without a run token, if no skill has that name; nil: it is none.
func withoutRunToken(p *params, name string, failure *run.Failure) *jsonrpc.Error {
	if name != front.GetRun || failure == nil || failure.Kind != run.SkillNotFound {
		return nil
	}
	p.reject(paramRunToken, run.Required, "is required in 'args': "+aboutRunToken)
	return p.refusal()
}

// openToken returns the run of the param run_token.
func (f *Front) openToken(ctx context.Context, p *params, principal string) (ref run.Ref, fault *jsonrpc.Error) {
	token := p.required(paramRunToken, aboutRunToken)
	if p.failure != nil {
		return ref, p.refusal()
	}
	ref, err := f.Tokens.Open(ctx, token, principal)
	if errors.Is(err, runtoken.ErrInvalid) {
		p.reject(paramRunToken, reasonInvalid, "is not valid: it has expired, was changed, or was made for another caller or by another bridge; send the run_token exactly as you got it, as the same caller to the same bridge, within "+inWords(f.Tokens.Lifetime()))
		return ref, p.refusal()
	}
	if err != nil {
		return ref, p.tokensUnavailable(run.ExecutedYes, err)
	}
	return ref, nil
}

// running returns the result of a run that goes on.
func running(r *run.Run, skill, runToken string, lifetime time.Duration) jsontext.Value {
	b := resultOf(nil, "running", r.ExecutionID, runToken, "Skill "+safetext.Line(skill, maxName)+" is still running; "+methodGetRun+" with the run_token tells how it ends.")
	b.Integer("retry_after_ms", roundUp(min(r.RetryAfter, lifetime-lifetime/24)).Milliseconds()) // the run token is still valid then
	b.Close()
	return b.Buf
}

// inWords returns a duration in hours, or as Go writes it if these are not whole.
func inWords(d time.Duration) string {
	if hours := d / time.Hour; d%time.Hour == 0 && hours > 1 {
		return strconv.FormatInt(int64(hours), 10) + " hours"
	}
	return d.String()
}

// roundUp rounds up to whole milliseconds.
func roundUp(d time.Duration) time.Duration {
	if whole := d.Truncate(time.Millisecond); whole < d {
		return whole + time.Millisecond
	}
	return max(d, 0)
}

// tokensUnavailable returns the error for keys of run tokens that can't be read.
func (p *params) tokensUnavailable(executed run.Executed, err error) *jsonrpc.Error {
	p.failure = run.StorageFailed("", executed, "the bridge can't read its keys for run tokens at the moment", err)
	var b builder
	b.Open()
	b.Text("reason", "the keys of run tokens can't be read from the database")
	b.failure(p.failure)
	b.Close()
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: p.failure.Message, Data: b.Buf}
}

// cancelPoll bounds how long cancel_run waits to learn whether the run has ended, from the database or the provider.
const cancelPoll = 5 * time.Second

// cancelRun answers cancel_run. The Skill Sharing Protocol can't end a run, so the run is only followed no longer. A run that has
// ended stays as it is.
func (f *Front) cancelRun(ctx context.Context, p *params) (jsontext.Value, *jsonrpc.Error) {
	call := translate.Call{Caller: callerFor(ctx, p.request.Method), Wait: new(time.Duration), Answer: p.request}
	ref, fault := f.openToken(ctx, p, call.Principal)
	if fault != nil {
		return nil, fault
	}
	asking, end := context.WithTimeout(ctx, cancelPoll)
	defer end()
	read := f.Canceled.Read(asking, call.Principal, &ref)
	if !f.Canceled.When(read, call.Principal, &ref).IsZero() {
		return f.answerCanceled(ctx, p, call, ref)
	}
	outcome := f.askOnce(read, p, ref, call)
	if said := outcome.Failure; !outcome.State.Ended() && (said == nil || !said.Lost || said.NotOffered()) {
		ended, failure := f.Canceled.Cancel(read, call.Principal, &ref)
		switch {
		case failure != nil:
			outcome = run.Run{Ref: ref, State: run.Working, Failure: failure}
			f.bridge(p).ReportRun(ctx, call, translate.OperationFollow, &outcome)
		case ended: // in between
			outcome = f.askOnce(ctx, p, ref, call)
		default:
			return canceled(&run.Run{Ref: ref}, ref.SkillID), nil
		}
	}
	return f.answerOutcome(ctx, p.request, &outcome, ref.SkillID)
}

// askOnce asks how a run is, without waiting for its end.
func (f *Front) askOnce(ctx context.Context, p *params, ref run.Ref, call translate.Call) run.Run {
	ctx, cancel := context.WithTimeout(ctx, cancelPoll)
	defer cancel()
	return f.bridge(p).Resume(ctx, ref, call).Wait()
}

// answerCanceled answers a call about a run that was canceled before, and reports the call.
func (f *Front) answerCanceled(ctx context.Context, p *params, call translate.Call, ref run.Ref) (jsontext.Value, *jsonrpc.Error) {
	r := run.Run{Ref: ref, State: run.Canceled}
	call.Name = ref.SkillID
	f.bridge(p).ReportRun(ctx, call, translate.OperationFollow, &r)
	return canceled(&r, ref.SkillID), nil
}

// canceled returns the result for a run that was canceled.
func canceled(r *run.Run, skill string) jsontext.Value {
	b := resultOf(nil, "canceled", r.ExecutionID, "", "The run of skill "+safetext.Line(skill, maxName)+" is no longer followed. Its provider was not told, since the Skill Sharing Protocol can't cancel runs: the run may go on there and have effects.")
	b.Close()
	return b.Buf
}

// The sizes of a page of list_runs. A page has a run token for each run.
const (
	defaultRuns = 50
	maxRuns     = 200
)

// listRuns answers list_runs with the kept runs of the caller, the newest first.
func (f *Front) listRuns(ctx context.Context, p *params) (jsontext.Value, *jsonrpc.Error) {
	principal := translate.RequestOf(ctx).Principal
	status, skill := p.optionalOneOf(paramStatus, []string{"running", "completed", "failed", "canceled", "unknown"}), p.text(paramSkill)
	q := &ledger.Query{Limit: p.integer(paramLimit, 1, maxRuns, defaultRuns), Before: p.cursor(), States: statesOf[status], Fronts: []string{Name}}
	if _, ok := run.TimeOfID(q.Before); q.Before != "" && !ok {
		p.rejectCursor()
	}
	if p.failure != nil {
		return nil, p.refusal()
	}
	if principal == "" {
		p.failure = run.NeedsCredential(run.NoPrincipal(), methodListRuns+" is for authenticated callers: the runs of anonymous ones can't be told apart. A run_token finds a single run")
		return nil, p.refusal()
	}
	var page []*ledger.Entry
	var next, meant string
	if f.Kept != nil {
		listed := skill
		if skill != "" {
			if name, failure := f.Bridge.Find(ctx, skill, principal); failure == nil {
				listed = name
			} else if failure.Argument != nil && len(failure.Argument.Candidates) > 0 {
				meant = failure.Argument.Candidates[0]
			}
		}
		q.Owner = new(f.Kept.Owner(principal))
		match := func(e *ledger.Entry) bool {
			return (e.Ref.SkillID == "" || f.Bridge.Permits(&e.Ref, principal)) && (status == "" || statusOf(e) == status) && (skill == "" || e.Skill == listed || e.Asked == skill)
		}
		var err error
		if page, next, err = f.Kept.List(ctx, q, match); err != nil {
			p.failure = run.StorageFailed("", run.ExecutedNo, "the bridge can't read the runs in its database at the moment", err)
			return nil, p.refusal()
		}
	}
	if len(page) == 0 && q.Before == "" {
		p.advice = "only runs of calls with 'idempotency_key' or 'notify' are listed, for " + inWords(f.Tokens.Lifetime())
		if meant != "" {
			p.advice = "no skill has the name in 'skill'; did you mean '" + meant + "'? " + p.advice
		}
	}
	b := builder{front.Writer{Buf: make([]byte, 0, 64+512*len(page))}}
	b.Open()
	b.OpenArray("runs")
	for _, e := range page {
		b.listedRun(e, f.tokenOf(ctx, &run.Run{Ref: e.Ref}))
	}
	b.CloseArray()
	if next == "" {
		b.Raw("next_cursor", jsontext.Value("null"))
	} else {
		b.Text("next_cursor", cursorAfter(next))
	}
	b.Close()
	return b.Buf, nil
}

// statesOf are the statuses of kept runs, each with the states that have it. Unknown is that of a submission without a usable answer, or without an
// answer yet, and of a run whose end can't be learned.
var statesOf = map[string][]ledger.State{
	"running":   {ledger.Waiting, ledger.Accepted, ledger.Working},
	"completed": {ledger.Completed},
	"failed":    {ledger.Failed, ledger.TimedOut},
	"canceled":  {ledger.Canceled},
	"unknown":   {ledger.Submitting, ledger.Unknown, ledger.Lost},
}

// statusOf returns the status of a kept run.
func statusOf(e *ledger.Entry) string {
	for status, states := range statesOf {
		if slices.Contains(states, e.State) {
			return status
		}
	}
	return ""
}

// listedRun adds a run of list_runs.
func (b *builder) listedRun(e *ledger.Entry, token string) {
	b.Open()
	if token != "" || len(e.Ref.ExecutionID) <= maxName { // one without a token is too long for it, or the keys of tokens can't be read
		b.Optional("run_id", e.Ref.ExecutionID)
	}
	b.Optional("run_token", token)
	b.Text("skill", e.Skill)
	b.Text("status", statusOf(e))
	if e.Unkept() {
		b.Bool("outcome_kept", false)
	}
	b.Text("began", timeText(e.Created))
	if e.State.Ended() || e.State == ledger.Unknown {
		b.Text("ended", timeText(e.Changed))
	}
	b.Close()
}

// timeText returns a time as text (RFC 3339).
func timeText(t time.Time) string { return t.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano) }
