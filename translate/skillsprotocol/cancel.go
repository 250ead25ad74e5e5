package skillsprotocol

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// cancelPoll bounds how long cancel_run waits to learn whether the run has ended.
const cancelPoll = 5 * time.Second

// canceled returns the canceled runs.
func (f *Front) canceled() *runtoken.Canceled {
	if f.Canceled != nil {
		return f.Canceled
	}
	return &f.own
}

// cancelRun answers cancel_run. The Skill Sharing Protocol can't end a run, so the run is only followed no longer. A run that has
// ended stays as it is.
func (f *Front) cancelRun(ctx context.Context, p *params) (jsontext.Value, *jsonrpc.Error) {
	call := translate.Call{Caller: callerFor(ctx, p.request.Method), Wait: new(time.Duration), Answer: p.request}
	ref, fault := f.openToken(ctx, p, call.Principal)
	if fault != nil {
		return nil, fault
	}
	if !f.canceled().When(ctx, call.Principal, &ref).IsZero() {
		return f.answerCanceled(ctx, p, call, ref)
	}
	outcome := f.askOnce(ctx, p, ref, call)
	if said := outcome.Failure; !outcome.State.Ended() && (said == nil || !said.Lost || said.NotOffered()) {
		ended, failure := f.canceled().Cancel(ctx, call.Principal, &ref)
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
	b := builder{front.Writer{Buf: make([]byte, 0, 256+len(r.ExecutionID)+2*len(skill))}}
	b.Open()
	b.Text("status", "canceled")
	b.Text("run_id", r.ExecutionID)
	b.Text("summary", "The run of skill "+safetext.Line(skill, maxName)+" is no longer followed. Its provider was not told, since the Skill Sharing Protocol can't cancel runs: the run may go on there and have effects.")
	b.Close()
	return b.Buf
}
