package keptruns

import (
	"context"
	"runtime/debug"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// submission submits a call in a goroutine of its own, which the run may need for longer than the request lasts. It implements
// [translate.Preparation].
type submission struct {
	runs    *Runs
	request Request
	inputs  jsonrpc.Object
	args    jsontext.Value // of the call, until there is a record with their digest
	cancel  context.CancelCauseFunc
	caller  context.Context // of the request //nolint:containedctx // it ends before the submission does
	unlock  func()          // of the key
	run     *following      // nil: there is no record
	answer  Answer
	done    chan struct{} // closed when the answer is complete

	mu        sync.Mutex
	execution translate.Execution
	detached  bool
}

var _ translate.Preparation = (*submission)(nil)

// submit begins the run of a call, and waits for its end as the call says. unlock is called once the record tells what the
// provider has answered.
func (r *Runs) submit(ctx context.Context, b Bridge, q *Request, unlock func()) Answer {
	s := &submission{runs: r, request: *q, args: q.Call.Inputs.Text, caller: ctx, unlock: sync.OnceFunc(unlock), done: make(chan struct{})}
	call := q.Call
	s.inputs = call.Inputs
	call.Inputs, call.Prepare, call.Answer = jsonrpc.Object{}, s, s.room()
	s.request.Call = call
	trim(r)
	go s.work(context.WithoutCancel(ctx), b, call)
	select {
	case <-s.done:
		return s.answer
	case <-ctx.Done():
		s.detach()
		return Answer{Run: run.Run{Failure: &run.Failure{
			Kind: run.CallerGone, Phase: run.PhasePoll, By: run.Bridge, Executed: run.ExecutedMaybe, Message: "The caller disconnected. Its run, if there is one, goes on.",
		}}}
	}
}

// room returns the memory for the output of the run; nil: there is no bound.
func (s *submission) room() exchange.AnswerBudget {
	if f := s.runs.followers.Of(s.request.Owner); f != nil {
		return f.Room(s.request.Call.Principal)
	}
	return nil
}

// detach tells the execution that no request waits for the run any more.
func (s *submission) detach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detached = true
	if s.execution != nil {
		s.execution.Detach()
	}
}

// work executes the call, and follows its run to the end.
func (s *submission) work(ctx context.Context, b Bridge, call translate.Call) {
	defer s.finish(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.cancel = cancel
	execution := b.Start(ctx, call)
	s.inputs = jsonrpc.Object{}
	s.answer.Skill, s.answer.Unknown = execution.Skill(), execution.Unknown()
	s.mu.Lock()
	s.execution = execution
	detached := s.detached
	s.mu.Unlock()
	if detached {
		execution.Detach()
	}
	for o := range execution.Watch() {
		if s.run != nil {
			o.Kept = s.run.current().ID
			if !s.run.settle(ctx, &o, true) {
				o = s.run.agree(ctx, o, call.Answer)
			}
		}
		s.unlock()
		s.answer.Run = o
	}
	last := s.answer.Run
	if s.run != nil {
		s.answer.Record = s.run.current()
		if s.answer.Record.State == run.Canceled {
			s.answer.Run = run.Run{Ref: s.answer.Record.Ref, State: run.Canceled}
		}
		if !s.answer.Record.goesOn() {
			s.run.free() // before the caller knows, whose next call may need the place
		}
	}
	s.answered()
	if s.run != nil && s.run.current().goesOn() {
		last.Output = nil
		s.run.work(ctx, &last)
	}
}

// answered completes the answer, so that the request continues.
func (s *submission) answered() {
	select {
	case <-s.done:
	default:
		close(s.done)
	}
}

// finish ends a submission. It is deferred, so it also runs after a panic.
func (s *submission) finish(ctx context.Context) {
	if value := recover(); value != nil {
		if s.runs.config.Panicked != nil {
			s.runs.config.Panicked(ctx, value, debug.Stack())
		}
		select {
		case <-s.done:
		default:
			s.answer.Run = run.Run{Failure: &run.Failure{By: run.Bridge, Executed: run.ExecutedMaybe, Message: "The bridge failed because of a bug."}}
		}
	}
	s.unlock()
	s.answered()
	if s.run != nil {
		s.run.end()
	}
}

// Inputs implements [translate.Preparation].
func (s *submission) Inputs(context.Context, *translate.Skill) (jsonrpc.Object, *run.Failure) {
	return s.inputs, nil
}

// outcomeMembers is what an outcome has besides the output, in bytes.
const outcomeMembers = 256

// Invoke implements [translate.Preparation]: it stores the record before the provider is called.
func (s *submission) Invoke(ctx context.Context, skill *translate.Skill) *run.Failure {
	if s.caller.Err() != nil {
		return &run.Failure{
			Kind: run.CallerGone, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedNo, Message: "The caller disconnected before the skill was invoked.",
		}
	}
	r, q := s.runs, &s.request
	now := r.config.Now()
	if err := r.count(ctx, q.Owner); err != nil {
		return notKept(err)
	}
	endpoint := skill.Descriptor.Endpoint
	single, most := endpoint.StatusURL == "" && endpoint.ResultURL == "", min(q.MaxOutput+outcomeMembers, run.MaxRecord)
	if failure := r.usage.add(q.Owner, now, most, single); failure != nil {
		return failure
	}
	record := &Record{
		Owner: q.Owner, ID: r.ids.Next(now), Skill: skill.Name, Asked: q.Call.Name, Key: q.Key != "", Ref: skill.Ref, Notes: q.Notes, args: digestOf(s.args), single: single,
		principal: q.Call.Principal, front: q.Call.Front, instance: r.lease.hold(ctx, r),
	}
	s.args = nil
	record.Ref.Kept = record.ID
	kept := &following{runs: r, caller: q.Call.Caller, record: record, cancel: s.cancel}
	if single {
		kept.reserved = most
	}
	var err error
	if q.Keep != nil {
		err = q.Keep(ctx, record)
	}
	if err == nil {
		err = kept.store(ctx, record)
	}
	if err == nil && q.Key != "" {
		err = r.config.Store.Name(ctx, q.Owner, keyName(q.Key), record.ID)
	}
	if err != nil {
		r.usage.done(q.Owner, kept.reserved)
		return notKept(err)
	}
	s.run = kept
	r.add(kept)
	return nil
}
