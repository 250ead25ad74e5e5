package mcp

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// callTool answers tools/call: it runs a skill, and waits for its end.
func callTool(r *request) (jsontext.Value, *jsonrpc.Error) {
	name, fault := r.text("name")
	if fault != nil {
		return r.refuse(fault)
	}
	arguments := r.Param("arguments")
	if arguments.Value != nil && arguments.Value.Kind() != '{' {
		return r.refuse(invalid("arguments must be an object"))
	}
	own, repeated := r.front.Options.builtIn(name), wire.RepeatedInArguments
	if own != nil {
		repeated = wire.RepeatedArgument // it checks the arguments in its own
	}
	if argument, problem := repeated(arguments.Value); problem != "" {
		return wrongArgument(r, argument, problem)
	}
	if own != nil {
		return own(r, arguments.Value)
	}
	call := translate.Call{Name: name, Answer: r.Request, Inputs: jsonrpc.Object{Text: arguments.Value, Members: arguments.Members}}
	return start(r, call)
}

// start starts the run of a call, and waits for its end.
func start(r *request, call translate.Call) (jsontext.Value, *jsonrpc.Error) {
	if err := r.front.Tokens.Ready(r.ctx); err != nil { // without a run token, the client could not follow the run
		return r.refuse(tokensUnavailable())
	}
	r.mayAsk()
	if value, fault, ended := r.readAnswer(&call); ended {
		return value, fault
	}
	call.Priority = r.meta.Priority
	call.Caller, call.Patient, call.Unattended, call.Wait, call.Checks = r.caller, true, r.takesTasks(), r.wait(), &translate.RequestOf(r.ctx).Checks
	return r.await(r.front.Bridge.Start(r.ctx, call), call.Name)
}

// wait returns how long a call waits for the end of its run.
func (r *request) wait() *time.Duration {
	wait := max(r.front.Options.Wait-r.waited, 0)
	if r.takesTasks() {
		wait = min(wait, r.front.Options.TaskAfter)
	}
	return &wait
}

// takesTasks reports whether the call may be answered with a task.
func (r *request) takesTasks() bool {
	return r.modern && r.meta.Tasks && r.front.Options.TaskAfter >= 0
}

// await waits for the end of a run, reports its progress if the client wants that, and answers.
func (r *request) await(execution translate.Execution, name string) (jsontext.Value, *jsonrpc.Error) {
	stream := r.progressStream()
	r.unknown = execution.Unknown()
	r.Params, r.Members = nil, nil
	if stream == nil {
		r.Release()
		outcome := execution.Wait()
		return r.answer(execution.Skill(), &outcome, name)
	}
	p := &progress{request: r, stream: stream, token: r.meta.ProgressToken.Clone()}
	defer func() { // also after a panic
		if p.begun {
			r.front.Streaming(-1)
		}
	}()
	r.Release()
	outcome := p.watch(execution)
	value, fault := r.answer(execution.Skill(), &outcome, name)
	if p.begun {
		if fault != nil {
			_ = stream.Error(fault) // an error would mean that the client is gone
		} else {
			_ = stream.Result(0, value) // as above
		}
	}
	return value, fault
}

// answer answers a call with the state of its run.
func (r *request) answer(skill *translate.Skill, outcome *run.Run, name string) (jsontext.Value, *jsonrpc.Error) {
	if outcome.Failure != nil {
		return failed(r, outcome, name)
	}
	if !outcome.State.Ended() {
		if r.takesTasks() {
			return newTask(r, outcome)
		}
		return stillRunning(r, outcome), nil
	}
	value, failure := completed(r, skill, outcome)
	if failure != nil {
		return explain(r, failure, r.tokenOf(outcome)), nil
	}
	return value, nil
}

// tokenOf returns the token of a run; empty: there is none.
func (r *request) tokenOf(o *run.Run) string {
	return front.TokenOf(r.ctx, r.front.Tokens, o, r.caller.Principal)
}

// tokensUnavailable returns the error for keys of run tokens that can't be read.
func tokensUnavailable() *jsonrpc.Error {
	return &jsonrpc.Error{
		Code: jsonrpc.CodeInternalError, Message: "Internal error: the server can't read its keys for run tokens at the moment; try again later",
		Data: jsontext.Value(`{"code":"INTERNAL_ERROR","executed":"no"}`),
	}
}

// progressEvery is the time between two notifications of progress.
const progressEvery = time.Second

// progress reports the progress of a run to the client.
type progress struct {
	request *request
	stream  *jsonrpc.Stream
	token   jsontext.Value
	begun   bool
	last    int64 // milliseconds that were reported
}

// progressStream returns the stream for the progress of a call; nil: its token is none or too long, or the client can't read streams.
func (r *request) progressStream() *jsonrpc.Stream {
	token := r.meta.ProgressToken
	isWhole := token.Kind() == '0' && !strings.ContainsAny(string(token), ".eE")
	if token.Kind() != '"' && !isWhole || len(token) > jsonrpc.MaxStreamID || !front.AcceptsStream(r.HTTP, "text/event-stream") {
		return nil
	}
	return r.Stream()
}

// watch waits for the end of a run. The stream begins when the run is accepted, unless it completes at once.
func (p *progress) watch(execution translate.Execution) run.Run {
	states, left := make(chan run.Run), make(chan struct{})
	defer close(left) // also after a panic of notify, so that the goroutine ends
	var bug error
	go func() {
		defer close(states)
		bug = panics.Recovered(func() {
			for state := range execution.Watch() {
				select {
				case states <- state:
				case <-left:
					return
				}
			}
		})
	}()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	var newest run.Run
	var told run.State
	for {
		select {
		case state, more := <-states:
			if !more {
				panics.Raise(bug)
				return newest
			}
			if newest = state; state.GoesOn() && state.State > told { // a poll may say again what was told
				told = state.State
				p.notify(told)
			}
		case <-tick.C:
			if p.begun {
				p.notify(told)
			}
		}
	}
}

// notify reports the seconds since the call arrived, which only rise.
func (p *progress) notify(state run.State) {
	if !p.begun {
		p.begun = true
		p.request.front.Streaming(1)
	}
	now := max(time.Since(p.request.caller.Arrived).Milliseconds(), p.last+1)
	p.last = now
	data := front.Object(func(w *front.Writer) {
		w.Raw("progressToken", p.token)
		w.Name("progress")
		w.Buf = strconv.AppendFloat(w.Buf, float64(now)/1000, 'f', -1, 64)
		w.Text("message", state.String())
	})
	_ = p.stream.Notify("notifications/progress", data) // an error means that the client is gone, which ends the call
}

// completed returns the result of a run that has completed, or the failure of the call if there is no room for it.
func completed(r *request, skill *translate.Skill, o *run.Run) (jsontext.Value, *run.Failure) {
	if o.State == run.Canceled {
		return nil, &run.Failure{Kind: run.CallerCanceled, By: run.Bridge, Executed: run.ExecutedYes, Ref: o.Ref, Message: "The run was canceled: " + abandoned}
	}
	if failure := noRoom(r, o, len(o.Output)); failure != nil {
		return nil, failure
	}
	value := resultOf(r, skill, o)
	if failure := noRoom(r, o, len(value)); failure != nil {
		return nil, failure
	}
	return value, nil
}

// noRoom reserves memory for the result of a run. It returns the failure of a call for whose result there is no room.
func noRoom(r *request, o *run.Run, size int) *run.Failure {
	const envelope, uncounted = 64, 64 << 10 // of each answer
	need := int64(envelope + len(r.ID) + size)
	budget := exchange.AnswerBudget(r.Request)
	if r.room != nil {
		budget = r.room
	}
	if budget.Reserve(need) {
		return nil
	}
	failure := exchange.NoRoom(budget, run.PhaseResult, "", run.ExecutedYes, true)
	failure.Ref = o.Ref
	if _, most := budget.AnswerLimit(); need-uncounted > most {
		failure.Lost, failure.Retry = true, nil
		failure.Message = fmt.Sprintf("The skill has completed, but its output is too large for an answer (at most %d bytes). "+
			"Do not call the tool again: tell the user to ask the operator of this server for a larger limit, or use arguments for a smaller output.", most)
	}
	return failure
}

// resultOf returns the result of a run that has completed.
func resultOf(r *request, skill *translate.Skill, o *run.Run) jsontext.Value {
	contentType := ""
	if skill != nil {
		contentType = skill.Descriptor.Output.ContentType
	}
	output, isJSON := o.Output, wire.IsJSON(contentType)
	parts := front.Parts(output, contentType)
	if len(output) == 0 {
		output = jsontext.Value("null")
	}
	var schema jsontext.Value
	if isJSON && skill != nil && r.front.Options.Validate {
		schema = skill.OutputSchema()
		if fault := skill.CheckOutput(r.ctx, output); fault != nil {
			return misfit(r, fault, output, parts, o)
		}
	}
	w := r.open(resultComplete)
	media := slices.ContainsFunc(parts, func(p front.Part) bool { return p.Kind != front.PartData })
	if isJSON && (!media || schema != nil) { // else no client pays for the base64 twice
		if !r.modern && (schema == nil && output.Kind() != '{' || schema != nil && !wire.IsOfObjects(schema)) { // as the tool says
			output = slices.Concat(jsontext.Value(`{"result":`), output, jsontext.Value("}"))
		}
		w.Raw("structuredContent", output)
	}
	w.OpenArray("content")
	if isJSON && !media {
		w.TextContent(string(output))
	} else {
		w.parts(parts, o)
	}
	w.CloseArray()
	return w.end(wire.Warnings(o.Warnings)...)
}

// parts adds the parts of an output to an array of content.
func (w *result) parts(parts []front.Part, o *run.Run) {
	for i := range parts {
		w.part(&parts[i], o, i)
	}
}

// part adds a part of an output as a value. The oldest version has no links.
func (w *result) part(p *front.Part, o *run.Run, i int) {
	if p.Kind == front.PartURL && !w.request.modern && w.request.legacyVersion() == version20250326 {
		w.TextContent(p.Text)
	} else {
		w.Part(p, o.ExecutionID, i)
	}
}

// misfit returns the result of a run whose output does not fit its schema. All of the output is there, but not as structured content.
func misfit(r *request, fault *run.Failure, output jsontext.Value, parts []front.Part, o *run.Run) jsontext.Value {
	w := r.open(resultComplete)
	w.OpenArray("content")
	w.TextContent("The skill has completed, but its output does not fit the schema that its provider has published (" + messageOf(fault) +
		"). The output follows as it is.")
	w.parts(parts, o)
	if len(parts) == 0 {
		w.TextContent(string(output))
	}
	w.CloseArray()
	w.Bool("isError", true)
	return w.end(append(wire.Warnings(o.Warnings), func(w *front.Writer) {
		w.Raw(wire.MetaError, jsontext.Value(`{"code":"INVALID_OUTPUT","executed":"yes","next":"none","source":"provider"}`))
	})...)
}
