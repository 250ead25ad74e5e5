package skillsprotocol

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
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
	if !f.canceled().When(ctx, call.Principal, &ref).IsZero() {
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
	if name := p.values[paramName]; name == nil || name.Kind() != '"' || string(jsonrpc.Unquote(name)) != front.GetRun {
		return false
	}
	jsonrpc.EachMember(p.values[paramArgs], func(name, value jsontext.Value) bool {
		if id := paramOf(jsonrpc.Unquote(name)); knows(methodGetRun, id) && value.Kind() != 'n' {
			p.values[id] = value
		}
		return true
	})
	return p.values[paramRunToken] != nil
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
	b := builder{front.Writer{Buf: make([]byte, 0, 256+len(r.ExecutionID)+2*len(skill)+len(runToken))}}
	b.Open()
	b.Text("status", "running")
	b.Text("run_id", r.ExecutionID)
	b.Optional("run_token", runToken)
	b.Text("summary", "Skill "+safetext.Line(skill, maxName)+" is still running; "+methodGetRun+" with the run_token tells how it ends.")
	b.Name("retry_after_ms")
	b.Buf = strconv.AppendInt(b.Buf, roundUp(min(r.RetryAfter, lifetime-lifetime/24)).Milliseconds(), 10) // the run token is still valid then
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
	p.failure = &run.Failure{
		Kind: run.Internal, By: run.Bridge, Executed: executed, Retry: run.RetryIn(2*time.Second, 5), Cause: err,
		Message: "Internal error: the bridge can't read its keys for run tokens at the moment; " + run.StorageAdvice(err),
	}
	var b builder
	b.Open()
	b.Text("reason", "the keys of run tokens can't be read from the database")
	b.failure(p.failure)
	b.Close()
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: p.failure.Message, Data: b.Buf}
}
