package skillsprotocol

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/keptruns"
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
	status, skill := p.optionalOneOf(paramStatus, keptruns.Statuses()), p.text(paramSkill)
	q := &keptruns.Query{Limit: p.integer(paramLimit, 1, maxRuns, defaultRuns), Before: p.cursor()}
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
	var page []*keptruns.Record
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
		q.Owner = f.Kept.Owner(principal)
		q.Match = func(r *keptruns.Record) bool {
			return f.Bridge.Permits(&r.Ref, principal) && (status == "" || f.statusOf(ctx, r, principal) == status) && (skill == "" || r.Skill == listed || r.Asked == skill)
		}
		var err error
		if page, next, err = f.Kept.List(ctx, q); err != nil {
			p.failure = &run.Failure{
				Kind: run.Internal, By: run.Bridge, Executed: run.ExecutedNo, Retry: run.RetryIn(2*time.Second, 5), Cause: err,
				Message: "Internal error: the bridge can't read the runs in its storage at the moment; " + run.StorageAdvice(err),
			}
			return nil, p.refusal()
		}
	}
	if len(page) == 0 && q.Before == "" {
		p.advice = "only runs of calls with 'idempotency_key' or 'notify' are listed, for 24 hours"
		if meant != "" {
			p.advice = "no skill has the name in 'skill'; did you mean '" + meant + "'? " + p.advice
		}
	}
	b := builder{front.Writer{Buf: make([]byte, 0, 64+512*len(page))}}
	b.Open()
	b.OpenArray("runs")
	for _, r := range page {
		b.listedRun(r, f.statusOf(ctx, r, principal), f.tokenOf(ctx, &run.Run{Ref: r.Ref}))
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

// statusOf returns the status of a kept run. Another instance may have canceled it.
func (f *Front) statusOf(ctx context.Context, r *keptruns.Record, principal string) string {
	status := r.Status()
	if status == keptruns.StatusRunning && !f.canceled().When(ctx, principal, &r.Ref).IsZero() {
		status = keptruns.StatusCanceled
	}
	return string(status)
}

// listedRun adds a run of list_runs.
func (b *builder) listedRun(r *keptruns.Record, status, token string) {
	b.Open()
	if token != "" || len(r.Ref.ExecutionID) <= maxName { // one without a token is too long for it, or the keys of tokens can't be read
		b.Optional("run_id", r.Ref.ExecutionID)
	}
	b.Optional("run_token", token)
	b.Text("skill", r.Skill)
	b.Text("status", status)
	if r.Unkept() {
		b.Raw("outcome_kept", jsontext.Value("false"))
	}
	b.Text("began", timeText(r.Began()))
	if !r.Ended.IsZero() {
		b.Text("ended", timeText(r.Ended))
	}
	b.Close()
}

// timeText returns a time as text (RFC 3339).
func timeText(t time.Time) string { return t.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano) }
