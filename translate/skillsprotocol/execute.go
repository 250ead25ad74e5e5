package skillsprotocol

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/keptcalls"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
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
	p.request.Release()
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
	if timeout := p.milliseconds(paramTimeout, 1, " greater than 0"); timeout != nil { // 0 would mean that there is none
		call.Timeout = *timeout
	}
	call.Priority = p.text(paramPriority)
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

// tokenOf returns the token of a run; empty: there is none.
func (f *Front) tokenOf(ctx context.Context, r *run.Run) string {
	return front.TokenOf(ctx, f.Tokens, r, translate.RequestOf(ctx).Principal)
}

// completedSize returns about how many bytes the result of a completed run takes.
func completedSize(r *run.Run, skill string) int {
	return 160 + len(r.ExecutionID) + 2*len(skill) + len(r.Output)
}

// resultOf begins the result of a call about a run. runID and runToken may be empty.
func resultOf(buffer []byte, status, runID, runToken, summary string) builder {
	b := builder{front.Writer{Buf: buffer}}
	b.Open()
	b.Text("status", status)
	b.Text("run_id", runID)
	b.Optional("run_token", runToken)
	b.Text("summary", summary)
	return b
}

// appendCompleted appends the result of a completed run.
func appendCompleted(to []byte, r *run.Run, skill string) jsontext.Value {
	b := resultOf(slices.Grow(to, completedSize(r, skill)), "completed", r.ExecutionID, "", "Skill "+safetext.Line(skill, maxName)+" completed"+took(r.Elapsed)+".")
	if len(r.Output) == 0 {
		b.Raw("output", jsontext.Value("null"))
	}
	b.Raw("output", r.Output)
	b.Close()
	return b.Buf
}

// took returns how long a run took, in milliseconds or seconds; empty: it is not known.
func took(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return ""
	case d < time.Second:
		return " in " + strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	}
	return " in " + strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
}

// failed returns the result of a run that failed or did not end in time.
func failed(f *run.Failure, state run.State, runID, skill, runToken string) jsontext.Value {
	late := state == run.TimedOut
	verb, otherwise := " failed: ", rowOf(run.RunFailed).Meaning
	if late {
		verb, otherwise = " did not finish in time: ", "The run took longer than it may"
	}
	message := messageOf(f.Text(), otherwise)
	buffer := make([]byte, 0, 320+2*len(message)+len(f.ProviderSaid().Details)+len(runToken))
	b := resultOf(buffer, "failed", runID, runToken, safetext.Line("Skill "+safetext.Line(skill, maxName)+verb+message, maxMessage))
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

// KeptRuns are the runs of calls with idempotency keys, and of those that ask for a call-back.
type KeptRuns struct {
	*ledger.Ledger
	// Owner returns the owner of the runs of a principal: the same name may be another principal at another handler.
	Owner func(principal string) ledger.Owner
	// MaxOutput is the size of the largest output, in bytes.
	MaxOutput int64
}

// headerKey is the header with an idempotency key (draft-ietf-httpapi-idempotency-key-header), in its canonical form.
const headerKey = "Idempotency-Key"

// maxKey is the length of the longest key.
const maxKey = 255

// idempotencyKey reads the key of a call, from the param or the header; empty: it has none.
func (f *Front) idempotencyKey(p *params, principal string) string {
	key := p.text(paramKey)
	if r := p.request.HTTP; r != nil && len(r.Header[headerKey]) > 0 {
		sent, err := front.ParseKey(r.Header[headerKey])
		switch {
		case err != nil:
			p.refuse(headerKey, reasonInvalid, "the header "+headerKey+" "+err.Error())
		case p.request.InBatch():
			p.refuse(headerKey, reasonInvalid, "the header "+headerKey+" is one key, but the request is a batch: give each call a key of its own with '"+keptcalls.ParamKey+"'")
		case key != "" && key != sent:
			p.reject(paramKey, reasonInvalid, "differs from the header "+headerKey+": send one of them, or the same key in both")
		}
		key = sent
	}
	switch {
	case key == "" || p.failure != nil:
	case f.Kept == nil:
		p.reject(paramKey, reasonUnsupported, "is not supported by this bridge, which has no database")
	case len(key) > maxKey || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }):
		p.reject(paramKey, reasonInvalid, "must have 1 to 255 printable ASCII characters")
	case principal == "" && !front.IsRandomUUID(key):
		p.reject(paramKey, reasonInvalid, "must be a random UUID (version 4 or 7) unless the caller authenticates: all anonymous callers share their keys, and who repeats a call gets its outcome")
	}
	return key
}

// refuse sets the failure for something that is no param, unless a param was rejected before.
func (p *params) refuse(name string, reason run.Reason, message string) {
	if p.failure == nil {
		p.failure = invalidParam(name, reason, message, nil)
	}
}

// executeKept answers a call with an idempotency key or with a receiver for the end of its run.
func (f *Front) executeKept(ctx context.Context, p *params, call translate.Call, key string, to receiver) (jsontext.Value, *jsonrpc.Error) {
	call.Answer = p.request
	call.Inputs = jsonrpc.Object{Text: call.Inputs.Text.Clone()} // the run may be submitted after the request has ended
	call.Inputs.Members = jsonrpc.MembersOf(call.Inputs.Text)
	q := &keptcalls.Request{Owner: f.Kept.Owner(call.Principal), Key: key, Call: call, MaxOutput: f.Kept.MaxOutput, Differs: f.Callbacks.Differs(ctx, to.url, to.token)}
	if to.url != "" {
		var err error
		if q.Notes, q.Receiver, err = f.Callbacks.Receiver(ctx, q.Owner, to.url, to.token); err != nil {
			return nil, p.tokensUnavailable(run.ExecutedNo, err)
		}
	}
	bridge := f.bridge(p)
	p.request.Release()
	a := keptcalls.Execute(ctx, f.Kept.Ledger, bridge, q)
	p.unknown, p.skill = a.Unknown, a.Skill
	if fault := withoutRunToken(p, call.Name, a.Failure); fault != nil {
		return nil, fault
	}
	if a.Failure == nil && !p.request.Reserve(int64(len(a.Output))+2<<10) {
		a.Failure = exchange.NoRoom(p.request, run.PhaseResult, a.ExecutionID, run.ExecutedYes, true)
		a.Output = nil
	}
	p.hinted, p.faults = isOnlyRead(a.Failure), a.Warnings
	if key != "" && a.Failure != nil && a.Failure.Executed == run.ExecutedMaybe && a.ExecutionID == "" {
		p.advice = "the bridge does not submit this call again: ask the provider whether the skill was executed, or call it with a new key if executing it twice does no harm"
		if a.Entry == nil { // an earlier call is still being submitted
			p.advice = "send this call again, with the same key, after the delay in 'retry': it joins the run of the earlier call. A new key would execute the skill twice"
		}
	}
	return f.answerOutcome(ctx, p.request, &a.Run, call.Name)
}
