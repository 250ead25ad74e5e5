package keptcalls

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// submission submits a call in a goroutine of its own, since the submission may take longer than the request. It ends when the provider has answered the
// submission and no caller waits any more. It implements [translate.Preparation].
type submission struct {
	ledger.Call

	ledger  *ledger.Ledger
	request Request
	inputs  jsonrpc.Object
	args    jsontext.Value  // of the call, until their digest is known
	caller  context.Context // of the request //nolint:containedctx // it ends before the submission does
	how     ledger.Settling
	answer  Answer
	done    chan struct{} // closed when the answer is complete
}

// submit begins the run of a call, and waits for its end as the call says. claimed is the claim of its key; nil: it has no key.
func submit(ctx context.Context, l *ledger.Ledger, b Bridge, q *Request, claimed *ledger.Entry) Answer {
	s := &submission{ledger: l, request: *q, args: q.Call.Inputs.Text, caller: ctx, done: make(chan struct{})}
	s.how = ledger.Settling{First: true, Unsent: true}
	call := q.Call
	s.inputs = call.Inputs
	call.Inputs, call.Prepare, call.Answer, call.Followed = jsonrpc.Object{}, s, l.Room(q.Owner), true
	s.request.Call = call
	s.Go(ctx, l.Panicked, func(ctx context.Context) {
		if claimed != nil {
			s.Attend(l, claimed)
		}
		s.work(ctx, b, call)
	}, s.finish)
	select {
	case <-s.done:
		return s.answer
	case <-ctx.Done():
		s.Detach()
		return Answer{Run: run.Run{Failure: gone("The caller disconnected. Its run, if there is one, goes on.", run.PhasePoll, run.ExecutedMaybe)}}
	}
}

// work executes the call.
func (s *submission) work(ctx context.Context, b Bridge, call translate.Call) {
	execution := b.Start(ctx, call)
	s.inputs = jsonrpc.Object{}
	s.answer.Skill, s.answer.Unknown = execution.Skill(), execution.Unknown()
	s.Follow(ctx, execution, func(o *run.Run) bool {
		s.settle(ctx, o)
		s.answer.Run = *o
		return s.Newest.Load() != nil
	})
}

// settle writes a state of the run, and replaces it if it is not the outcome.
func (s *submission) settle(ctx context.Context, o *run.Run) {
	e := s.Newest.Load()
	if e == nil {
		return
	}
	s.Write(o.IsEnd(), func() {
		said, now := s.ledger.Agree(context.WithoutCancel(ctx), e, *o, s.how, s.request.Call.Answer)
		if s.Newest.Set(now); now == nil {
			s.Newest.Store(nil)
		}
		*o, o.Kept = said, e.ID
	})
}

// finish ends a submission, also if what a bug is to be the end of panics again.
func (s *submission) finish(ctx context.Context, bug *run.Failure) {
	defer func() {
		s.answer.Entry = s.Newest.Load()
		s.End()
		_ = s.ledger.Reserve(s.request.Owner, -s.how.Reserved)
		close(s.done)
	}()
	if bug != nil {
		s.answer.Run = run.Run{Failure: bug}
		if e := s.Newest.Load(); e != nil && e.Ref.ExecutionID == "" {
			s.ledger.Agree(ctx, e, s.answer.Run, s.how, nil)
		}
	}
}

// Inputs implements [translate.Preparation].
func (s *submission) Inputs(context.Context, *translate.Skill) (jsonrpc.Object, *run.Failure) {
	return s.inputs, nil
}

// Invoke implements [translate.Preparation]: without a key, it adds the entry before the provider is called.
func (s *submission) Invoke(ctx context.Context, skill *translate.Skill) *run.Failure {
	if s.caller.Err() != nil {
		return gone("The caller disconnected before the skill was invoked.", run.PhaseInvoke, run.ExecutedNo)
	}
	q, endpoint := &s.request, skill.Descriptor.Endpoint
	single, args := endpoint.StatusURL == "" && endpoint.ResultURL == "", Digest(s.args)
	name, ref := skill.Name, skill.Ref // the skill would keep the execution in memory
	s.args = nil
	s.how.Fill = func(next *ledger.Entry) {
		next.Skill, next.Single, next.Args = name, single, args
		if next.Ref.ExecutionID == "" {
			next.Ref = ref
			next.Ref.Kept = next.ID
		}
	}
	if s.Newest.Load() == nil {
		e := newEntry(q)
		s.how.Fill(e)
		if _, failure := s.ledger.Add(ctx, e, maxOutcome(q)); failure != nil {
			return failure
		}
		s.Attend(s.ledger, e)
	}
	if single {
		if failure := s.ledger.Reserve(q.Owner, maxOutcome(q)); failure != nil {
			return failure
		}
		s.how.Reserved = maxOutcome(q)
	}
	s.how.Unsent = false
	return nil
}
