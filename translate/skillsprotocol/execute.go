package skillsprotocol

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// executeSkill answers execute_skill: it runs a skill and waits for its end or until wait_ms is over.
func (f *Front) executeSkill(ctx context.Context, p *params) (jsontext.Value, *jsonrpc.Error) {
	if followsRun(p) {
		return f.getRun(ctx, p)
	}
	call := executeCall(ctx, p)
	call.Wait = p.wait()
	key, to := f.idempotencyKey(p, call.Principal), p.notify(ctx, f)
	call.Unattended = to.url != "" || call.Wait != nil && *call.Wait == 0
	if p.failure != nil {
		return nil, p.refusal()
	}
	if call.Wait != nil { // without a run token, the agent could not follow the run
		if err := f.Tokens.Ready(ctx); err != nil {
			return nil, p.tokensUnavailable(run.ExecutedNo, err)
		}
	}
	if key != "" || to.url != "" {
		return f.executeKept(ctx, p, call, key, to)
	}
	execution := f.bridge(p).Start(ctx, call)
	if p.unknown = execution.Unknown(); len(p.unknown) > 0 || len(p.ignored) > 0 {
		p.skill = execution.Skill()
	}
	p.release()
	outcome := execution.Wait()
	if fault := withoutRunToken(p, call.Name, outcome.Failure); fault != nil {
		return nil, fault
	}
	p.hinted, p.faults = isOnlyRead(outcome.Failure), outcome.Warnings
	return f.answerOutcome(ctx, p.request, &outcome, call.Name)
}

// submitSkill handles execute_skill without an id: it starts a run and does not follow it.
func (f *Front) submitSkill(ctx context.Context, p *params) *jsonrpc.Error {
	call := executeCall(ctx, p)
	p.wait()
	call.Unattended = true
	key, to := f.idempotencyKey(p, call.Principal), p.notify(ctx, f)
	if p.failure != nil {
		return p.refusal()
	}
	if key != "" || to.url != "" {
		call.Wait = new(time.Duration)
		_, fault := f.executeKept(ctx, p, call, key, to)
		return fault
	}
	f.bridge(p).Start(ctx, call).Leave()
	return nil
}

// executeCall reads the params of execute_skill.
func executeCall(ctx context.Context, p *params) translate.Call {
	call := describeCall(ctx, p)
	call.Inputs = p.inputs()
	call.Checks = &translate.RequestOf(ctx).Checks
	call.Timeout, call.Priority = p.milliseconds(paramTimeout), p.text(paramPriority)
	p.noBlobs()
	return call
}

// describeCall reads the params name and version.
func describeCall(ctx context.Context, p *params) translate.Call {
	return translate.Call{
		Caller:  callerFor(ctx, p.request.Method),
		Answer:  p.request,
		Name:    p.required(paramName, "the name of a skill as list_skills shows it"),
		Version: p.text(paramVersion),
	}
}

// answerOutcome answers with a result if the run has ended, goes on or did not end before
// the deadline, else with an error. If a run was accepted and may go on, the answer has a
// run token.
func (f *Front) answerOutcome(ctx context.Context, req *jsonrpc.Request, r *run.Run, name string) (jsontext.Value, *jsonrpc.Error) {
	if r.Failure == nil {
		switch r.State {
		case 0:
			return nil, failureError(&run.Failure{}, subject{name: name, skillID: r.SkillID})
		case run.Accepted, run.Working:
			return running(r, cmp.Or(r.SkillID, name), f.tokenOf(ctx, r), f.Tokens.Lifetime()), nil
		case run.Canceled:
			return canceled(r, cmp.Or(r.SkillID, name)), nil
		}
		skill := cmp.Or(r.SkillID, name)
		return appendCompleted(req.ResultBuffer(completedSize(r, skill)), r, skill), nil
	}
	failure := r.Failure
	about := subject{name: name, skillID: r.SkillID, executionID: r.ExecutionID, tools: f.toolsOf(ctx, failure)}
	runID := runIDOf(r)
	skill := cmp.Or(r.SkillID, failure.SkillID, name)
	switch {
	case failure.Kind == run.RunFailed:
		return failed(failure, r.State, runID, skill, ""), nil
	case failure.Kind == run.DeadlineExceeded && runID != "":
		return failed(failure, run.TimedOut, runID, skill, f.tokenOf(ctx, r)), nil
	}
	about.runToken = f.tokenOf(ctx, r)
	return nil, failureError(failure, about)
}

// runIDOf returns the id of a run, or nothing if none was accepted.
func runIDOf(r *run.Run) string {
	switch {
	case r.ExecutionID != "":
		return r.ExecutionID
	case r.Failure != nil:
		return r.Failure.ExecutionID
	}
	return ""
}

// CodeOf returns the code of the JSON-RPC error that a call is answered with; 0: it is
// answered with a result.
func CodeOf(c *translate.Call, o *run.Run) int {
	f := o.Failure
	if c.Method == methodUnknown {
		return jsonrpc.CodeMethodNotFound
	}
	if f == nil || f.Kind == run.RunFailed || f.Kind == run.DeadlineExceeded && runIDOf(o) != "" {
		return 0
	}
	return rowOf(f.Kind).Code
}

// tokenOf returns the token of a run, or nothing if none was accepted or the token can't be made.
func (f *Front) tokenOf(ctx context.Context, r *run.Run) string {
	if r.ExecutionID == "" || r.Source == "" {
		return ""
	}
	// The context may have ended with the call.
	token, err := f.Tokens.Seal(context.WithoutCancel(ctx), r.Ref, translate.RequestOf(ctx).Principal)
	if err != nil {
		return "" // the answer is sent without it; the implementation of Tokens logs the error
	}
	return token
}

// completedSize returns about how many bytes the result of a completed run takes.
func completedSize(r *run.Run, skill string) int {
	return 160 + len(r.ExecutionID) + 2*len(skill) + len(r.Output)
}

// appendCompleted appends the result of a completed run.
func appendCompleted(to []byte, r *run.Run, skill string) jsontext.Value {
	b := builder{front.Writer{Buf: slices.Grow(to, completedSize(r, skill))}}
	b.Open()
	b.Text("status", "completed")
	b.Text("run_id", r.ExecutionID)
	b.Name("summary")
	var sentence [256]byte // on the stack; most summaries fit
	summary := append(append(sentence[:0], "Skill "...), safetext.Line(skill, maxName)...)
	summary = append(appendTook(append(summary, " completed"...), r.Elapsed), '.')
	b.Buf, _ = jsontext.AppendQuote(b.Buf, summary)
	if len(r.Output) == 0 {
		b.Raw("output", jsontext.Value("null"))
	}
	b.Raw("output", r.Output)
	b.Close()
	return b.Buf
}

// appendTook appends how long a run took, in milliseconds or seconds, unless it is not known.
func appendTook(text []byte, d time.Duration) []byte {
	switch {
	case d < time.Millisecond:
		return text
	case d < time.Second:
		return append(strconv.AppendInt(append(text, " in "...), d.Milliseconds(), 10), " ms"...)
	}
	return append(strconv.AppendFloat(append(text, " in "...), d.Seconds(), 'f', 1, 64), " s"...)
}

// failed returns the result of a run that failed or did not end in time.
func failed(f *run.Failure, state run.State, runID, skill, runToken string) jsontext.Value {
	late := state == run.TimedOut
	verb, otherwise := " failed: ", rowOf(run.RunFailed).Meaning
	if late {
		verb, otherwise = " did not finish in time: ", "The run took longer than it may"
	}
	message := messageOf(f.Text(), otherwise)
	b := builder{front.Writer{Buf: make([]byte, 0, 320+2*len(message)+len(f.ProviderSaid().Details)+len(runToken))}}
	b.Open()
	b.Text("status", "failed")
	b.Text("run_id", runID)
	b.Optional("run_token", runToken)
	b.Text("summary", safetext.Line("Skill "+safetext.Line(skill, maxName)+verb+message, maxMessage))
	b.OpenMember("error")
	b.Text("type", failureType(f.ProviderSaid().Code, late))
	b.Text("message", message)
	b.failure(f)
	b.Close()
	b.Close()
	return b.Buf
}

// failureType returns the provider's error code, else one of the protocol.
func failureType(code string, late bool) string {
	switch {
	case code != "":
		return safetext.Line(code, maxName)
	case late:
		return string(document.InvocationTimeout)
	}
	return document.ExecutionFailed
}
