package keptcalls

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Bridge executes calls. It is a [translate.Bridge].
type Bridge interface {
	ledger.Resumer
	// Start invokes a skill. It does not use call.Inputs after it returns.
	Start(ctx context.Context, call translate.Call) translate.Execution
	// ReportRun reports a call about a run that was answered without the other methods.
	ReportRun(ctx context.Context, call translate.Call, o translate.Operation, r *run.Run)
	// Find returns the name under which the skill is listed that a name means.
	Find(ctx context.Context, name, principal string) (listed string, failure *run.Failure)
	// Audience returns 0 if there are no access rules.
	Audience(principal string) int
	// Permits reports whether the access rules let a principal use the skill of a run.
	Permits(ref *run.Ref, principal string) bool
}

// Request is a call whose run is to be kept.
type Request struct {
	Owner ledger.Owner
	// Key is the idempotency key; empty: the call has none.
	Key string
	// Call is the call. Its Answer bounds the memory for the answer to the caller. Its Inputs must not be changed, also after the return.
	Call translate.Call
	// MaxOutput is the size of the largest output that a run can have, in bytes. A call is refused while there is no place for so much.
	MaxOutput int64
	// Notes of the front are stored in the entry. May be nil.
	Notes []byte
	// Receiver is to whom the end of the run is delivered. May be nil.
	Receiver *ledger.Receiver
	// Differs returns by what the call differs from the one that has begun the run of its key, beside the skill and the arguments;
	// empty: by nothing. May be nil.
	Differs func(e *ledger.Entry) string
}

// Answer is what a call is answered with.
type Answer struct {
	run.Run
	// Entry is that of the run; nil: there is none.
	Entry *ledger.Entry
	// Joined says that an earlier call has begun the run.
	Joined bool
	// Skill and Unknown are those of the [translate.Execution], if the call has begun the run.
	Skill   *translate.Skill
	Unknown []string
}

// ReasonKeyReused is the reason of a failure for a key that belongs to a call with another skill or other arguments.
const ReasonKeyReused run.Reason = "key_reused"

// ParamKey is the name of the param with the key, in failures.
const ParamKey = "idempotency_key"

// submissionWait bounds how long a call without a timeout waits until an earlier call with its key was submitted.
const submissionWait = 25 * time.Second

// Execute executes a call whose run the ledger keeps, unless its key belongs to a run already. The call is reported to the bridge's observer in any case.
func Execute(ctx context.Context, l *ledger.Ledger, b Bridge, q *Request) Answer {
	if q.Key == "" {
		return submit(ctx, l, b, q, nil)
	}
	if failure := denied(ctx, b, &q.Call); failure != nil {
		return answered(ctx, b, q, failure)
	}
	most := cmp.Or(max(q.Call.Timeout, 0), submissionWait)
	waiting, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		e := newEntry(q)
		found, failure := l.Add(waiting, e, maxOutcome(q))
		if failure == nil && found == nil {
			return submit(ctx, l, b, q, e)
		}
		if failure == nil && found.State == ledger.Submitting {
			found = Submitted(waiting, l, found)
			switch {
			case found != nil && found.State != ledger.Submitting:
			case ctx.Err() != nil:
				failure = gone("The caller disconnected before the skill was invoked.", run.PhaseInvoke, run.ExecutedNo)
			case waiting.Err() != nil:
				failure = stillSubmitted(most)
			default:
				continue // it is gone, so that this call may execute the skill
			}
		}
		if failure == nil {
			failure = sameCall(ctx, b, q, found)
		}
		if failure != nil {
			return answered(ctx, b, q, failure)
		}
		return join(ctx, l, b, q, found)
	}
}

// newEntry returns the claim of a call.
func newEntry(q *Request) *ledger.Entry {
	e := &ledger.Entry{Owner: q.Owner, Front: q.Call.Front, Skill: q.Call.Name, Asked: q.Call.Name, Notes: q.Notes, Receiver: q.Receiver}
	if q.Key != "" {
		sum := sha256.Sum256([]byte("key " + q.Key))
		e.Key = sum[:]
	}
	return e
}

// maxOutcome is the size of the largest outcome of a call, which has some bytes besides the output.
func maxOutcome(q *Request) int64 { return min(q.MaxOutput+256, run.MaxRecord) }

// denied returns the failure of a call whose name means no skill that the access rules let its caller use. A key does not change the answer.
func denied(ctx context.Context, b Bridge, call *translate.Call) *run.Failure {
	if b.Audience(call.Principal) == 0 {
		return nil // the outcome is there also while the source can't be read, or no longer lists the skill
	}
	if _, failure := b.Find(ctx, call.Name, call.Principal); failure != nil && failure.Kind == run.SkillNotFound {
		return failure
	}
	return nil
}

// answered answers a call without a run.
func answered(ctx context.Context, b Bridge, q *Request, failure *run.Failure) Answer {
	a := Answer{Run: run.Run{Failure: failure}}
	b.ReportRun(ctx, q.Call, translate.OperationExecute, &a.Run)
	return a
}

// gone is the failure of a call whose caller has disconnected.
func gone(message string, phase run.Phase, executed run.Executed) *run.Failure {
	return &run.Failure{Kind: run.CallerGone, Phase: phase, By: run.Bridge, Executed: executed, Message: message}
}

// stillSubmitted is the failure of a call that has waited for the submission of an earlier one.
func stillSubmitted(waited time.Duration) *run.Failure {
	return &run.Failure{
		Kind: run.DeadlineExceeded, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedMaybe, Timeout: waited, Retry: &run.Retry{After: 2 * time.Second, Attempts: 10, Joins: true},
		Message: "An earlier call with this idempotency key is still being submitted to the provider. Send the call again later, with the same key: it joins that run, and is not executed twice",
	}
}

// Submitted waits until a submission was answered, at whichever instance. It returns nil if its claim was deleted.
func Submitted(ctx context.Context, l *ledger.Ledger, e *ledger.Entry) *ledger.Entry {
	for e = range l.Watch(ctx, e) {
		if e == nil || e.State != ledger.Submitting {
			break
		}
	}
	return e
}

// sameCall returns the failure of a call whose key belongs to a call with another skill, version or arguments.
func sameCall(ctx context.Context, b Bridge, q *Request, found *ledger.Entry) *run.Failure {
	what := ""
	switch {
	case found.Ref.SkillID != "" && !b.Permits(&found.Ref, q.Call.Principal): // the name means another skill, or it is not known at the moment which one
		if _, failure := b.Find(ctx, q.Call.Name, q.Call.Principal); failure != nil {
			return failure
		}
		what = "another skill"
	case found.Args != nil && string(found.Args) != string(Digest(q.Call.Inputs.Text)):
		what = "other arguments"
	case q.Call.Version != "" && found.Ref.SkillID != "" && q.Call.Version != found.Ref.Version:
		what = "another version of the skill"
	case q.Call.Name != found.Asked && q.Call.Name != found.Skill:
		listed, failure := b.Find(ctx, q.Call.Name, q.Call.Principal)
		if failure != nil {
			return failure
		}
		if listed != found.Skill {
			what = "another skill"
		}
	}
	if what == "" && q.Differs != nil {
		what = q.Differs(found)
	}
	if what == "" {
		return nil
	}
	return &run.Failure{
		Kind: run.InvalidArguments, By: run.Bridge, Executed: run.ExecutedNo,
		Message:  "Invalid params: '" + ParamKey + "' was used before for a call with " + what + "; use a new key for a new call, and the same skill and arguments to repeat the earlier one",
		Argument: &run.Argument{Field: run.FieldOther, Name: ParamKey, Reason: ReasonKeyReused},
	}
}

// Digest returns a digest of arguments that does not depend on the order of their members, white space, and the notation of strings.
// Numbers are compared by their text, since they may have more digits than a float64.
func Digest(args jsontext.Value) []byte {
	text := args.Clone()
	if len(text) == 0 {
		text = jsontext.Value("{}")
	}
	if text.Format(jsontext.ReorderRawObjects(true)) != nil {
		// It has a name twice, whose order may matter.
		text = args.Clone()
		_ = text.Compact(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) // else it is compared as it is
	}
	sum := sha256.Sum256(text)
	return sum[:]
}

// join answers a call whose key belongs to a run.
func join(ctx context.Context, l *ledger.Ledger, b Bridge, q *Request, found *ledger.Entry) Answer {
	call := q.Call
	call.Inputs = translate.Call{}.Inputs
	a := Answer{Entry: found, Joined: true}
	if o, ok := l.Outcome(ctx, found, call.Answer); ok {
		a.Run = o
		b.ReportRun(ctx, call, translate.OperationFollow, &a.Run)
		return a
	}
	began, bounded := time.Now(), call.Wait == nil
	if call.Timeout > 0 && (bounded || call.Timeout < *call.Wait) {
		call.Wait = &call.Timeout
	}
	a.Run = b.Resume(ctx, found.Ref, call).Wait() // by way of Follow
	if bounded && a.GoesOn() {
		a.Failure = late(&a.Ref, cmp.Or(call.Timeout, time.Since(began).Truncate(time.Second)))
	}
	return a
}

// late is the failure of a call that joined a run and whose time was up before the run had ended.
func late(ref *run.Ref, timeout time.Duration) *run.Failure {
	return &run.Failure{
		Kind: run.DeadlineExceeded, Phase: run.PhasePoll, By: run.Bridge, Executed: run.ExecutedYes, Ref: *ref, Timeout: timeout,
		Message: fmt.Sprintf("The skill had not finished when the time of this call was up after %d ms. The run goes on: send the call again with the same key to wait for its end.", timeout.Milliseconds()),
	}
}

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
