package skillsprotocol

import (
	"context"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

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
		p.failure = &run.Failure{
			Kind: run.AuthRequired, Phase: run.PhaseAuth, By: run.Bridge, Executed: run.ExecutedNo, Demand: run.NoPrincipal(),
			Message: methodListRuns + " is for authenticated callers: the runs of anonymous ones can't be told apart. A run_token finds a single run",
		}
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
			p.failure = &run.Failure{
				Kind: run.Internal, By: run.Bridge, Executed: run.ExecutedNo, Retry: run.RetryIn(2*time.Second, 5), Cause: err,
				Message: "Internal error: the bridge can't read the runs in its database at the moment; " + run.StorageAdvice(err),
			}
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
		b.Raw("outcome_kept", jsontext.Value("false"))
	}
	b.Text("began", timeText(e.Created))
	if e.State.Ended() || e.State == ledger.Unknown {
		b.Text("ended", timeText(e.Changed))
	}
	b.Close()
}

// timeText returns a time as text (RFC 3339).
func timeText(t time.Time) string { return t.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano) }
