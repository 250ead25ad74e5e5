package keptruns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Lifetime is how long a key is in use, and how long a run is kept.
const Lifetime = 24 * time.Hour

// MethodFollow is the method in reports of calls that follow a run without a request.
const MethodFollow = "follow"

// Bridge executes calls. It is a [translate.Bridge].
type Bridge interface {
	// Start invokes a skill. It does not use call.Inputs after it returns.
	Start(ctx context.Context, call translate.Call) translate.Execution
	// Resume finds a run that was accepted before.
	Resume(ctx context.Context, ref run.Ref, call translate.Call) translate.Execution
	// ReportRun reports a call about a run that was answered without the other methods.
	ReportRun(ctx context.Context, call translate.Call, o translate.Operation, r *run.Run)
	// Find returns the name under which the skill is listed that a name means.
	Find(ctx context.Context, name, principal string) (listed string, failure *run.Failure)
	// Audience returns 0 if there are no access rules.
	Audience(principal string) int
	// Permits reports whether the access rules let a principal use the skill of a run.
	Permits(ref *run.Ref, principal string) bool
}

// Config has what [Runs] need.
type Config struct {
	// Store keeps the records, and no others. It is required.
	Store run.Store
	// Running yields the newest records of all owners whose runs go on; their Owner may be empty. Nil: runs that another process has left are
	// followed only when they are asked about.
	Running func(ctx context.Context) iter.Seq2[*run.Record, error]
	// Bounds are how much is kept. Zero fields have defaults.
	Bounds Bounds
	// Now returns the time; nil: [time.Now].
	Now func() time.Time
	// Trouble is called for failures of the Store that no caller learns. May be nil.
	Trouble func(err error)
	// Panicked is called after a panic in the background, with its stack. May be nil.
	Panicked func(ctx context.Context, value any, stack []byte)
}

// Follower follows runs without a request.
type Follower interface {
	// Owns reports whether the runs of an owner belong to the Follower.
	Owns(owner string) bool
	// Resume finds a run that was accepted before.
	Resume(ctx context.Context, ref run.Ref, call translate.Call) translate.Execution
	// Room returns the memory for an output that is read when no request waits for it; nil: there is no bound.
	Room(principal string) exchange.AnswerBudget
	// Canceled reports whether a principal has canceled a run, here or at another instance.
	Canceled(ctx context.Context, principal string, ref *run.Ref) bool
	// Ended is called for each run that has ended, once its record is stored. It may be called again for the same run.
	Ended(ctx context.Context, r *Record, o *run.Run)
}

// Runs are the kept runs of a storage. Configurations share them, so that they go on after a reload.
type Runs struct {
	config Config
	ids    run.IDs
	locks  locks
	usage  usage
	lease  lease

	followers run.Owners[Follower]

	mu       sync.Mutex
	followed map[claim]*following
	trimmed  time.Time
	resuming bool          // runs that other processes have left are looked for
	closed   chan struct{} // closed by Close
}

// claim identifies a kept run.
type claim struct{ owner, id string }

// New returns the runs in a store.
func New(config Config) *Runs {
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.Trouble == nil {
		config.Trouble = func(error) {}
	}
	return &Runs{
		config: config, usage: usage{bounds: config.Bounds.withDefaults()}, followed: map[claim]*following{}, trimmed: config.Now(), closed: make(chan struct{}),
	}
}

// Limit sets the bounds. They hold for the runs that begin from now on.
func (r *Runs) Limit(b Bounds) {
	r.usage.mu.Lock()
	defer r.usage.mu.Unlock()
	r.usage.bounds = b.withDefaults()
}

// Begin makes the runs use a Follower.
func (r *Runs) Begin(f Follower) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.followers.Add(f, f.Owns); r.config.Running != nil && !r.resuming {
		r.resuming = true
		go (&resumption{r}).work()
	}
}

// End makes the runs no longer use a Follower.
func (r *Runs) End(f Follower) { r.followers.Remove(f) }

// Close ends the pauses between the calls that follow runs. Calls in progress go on.
func (r *Runs) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.closed:
	default:
		close(r.closed)
		r.lease.release()
	}
}

// Request is a call whose run is to be kept.
type Request struct {
	// Owner of the run: the principal, and what tells it from those of the same name elsewhere.
	Owner string
	// Key is the idempotency key; empty: the call has none.
	Key string
	// Call is the call. Its Answer bounds the memory for the answer to the caller. Its Inputs must not be changed, also after the return.
	Call translate.Call
	// MaxOutput is the size of the largest output that a run can have, in bytes. A call is refused while there is no place for so much.
	MaxOutput int64
	// Notes of the front are stored in the record. May be nil.
	Notes jsontext.Value
	// Keep is called before the record of a new run is stored. If it returns an error, nothing is submitted. May be nil.
	Keep func(ctx context.Context, r *Record) error
	// Differs returns by what the call differs from the one that has begun the run of its key, beside the skill and the arguments;
	// empty: by nothing. May be nil.
	Differs func(r *Record) string
}

// Answer is what a call is answered with.
type Answer struct {
	run.Run
	// Record is that of the run; nil: there is none.
	Record *Record
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

// Execute executes a call, unless its key belongs to a run already. The call is reported to the bridge's observer in any case.
func (r *Runs) Execute(ctx context.Context, b Bridge, q *Request) Answer {
	if q.Key == "" {
		return r.submit(ctx, b, q, func() {})
	}
	if failure := denied(ctx, b, &q.Call); failure != nil {
		return answered(ctx, b, q, failure)
	}
	unlock, failure := r.lock(ctx, q)
	var found *Record
	if failure == nil {
		if found, failure = r.find(ctx, q); failure != nil {
			unlock()
		}
	}
	if failure != nil {
		return answered(ctx, b, q, failure)
	}
	if found == nil {
		return r.submit(ctx, b, q, unlock)
	}
	unlock()
	if failure := sameCall(ctx, b, q, found); failure != nil {
		return answered(ctx, b, q, failure)
	}
	return r.join(ctx, b, q, found)
}

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

// lock takes the lock of a key, which is held while a call with the key is submitted.
func (r *Runs) lock(ctx context.Context, q *Request) (unlock func(), failure *run.Failure) {
	most := q.Call.Timeout
	if most <= 0 {
		most = submissionWait
	}
	waiting, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	name := keyName(q.Key)
	here, err := r.locks.lock(waiting, q.Owner+"\x00"+name)
	if err == nil {
		there, failed := r.config.Store.Lock(waiting, q.Owner, name)
		if err = failed; err == nil {
			return func() { there(); here() }, nil
		}
		here()
	}
	switch {
	case ctx.Err() != nil:
		return nil, &run.Failure{
			Kind: run.CallerGone, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedNo, Message: "The caller disconnected before the skill was invoked.",
		}
	case waiting.Err() != nil:
		return nil, &run.Failure{
			Kind: run.DeadlineExceeded, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedMaybe, Timeout: most, Retry: run.RetryIn(2*time.Second, 10),
			Message: "An earlier call with this idempotency key is still being submitted to the provider. Send the call again later, with the same key: it joins that run, and is not executed twice",
		}
	}
	return nil, notKept(err)
}

// keyName is the name of a key in the store.
func keyName(key string) string { return "key " + key }

// notKept is the failure of a call whose record can't be read or written, so that nothing is submitted.
func notKept(err error) *run.Failure {
	return &run.Failure{
		Kind: run.Internal, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedNo, Retry: run.RetryIn(2*time.Second, 5), Cause: err,
		Message: "Internal error: the bridge can't use its storage at the moment, which it needs for 'idempotency_key' and 'notify'. Nothing was sent to the provider; " + run.StorageAdvice(err),
	}
}

// find returns the record of the run of a key; nil: there is none, or it has expired or does not occupy the key.
func (r *Runs) find(ctx context.Context, q *Request) (*Record, *run.Failure) {
	id, err := r.config.Store.Named(ctx, q.Owner, keyName(q.Key))
	if errors.Is(err, run.ErrNoRecord) {
		return nil, nil
	}
	if err != nil {
		return nil, notKept(err)
	}
	made, _ := run.TimeOfID(id)
	if r.expired(made) {
		return nil, nil
	}
	found, err := r.read(ctx, q.Owner, id)
	switch {
	case errors.Is(err, run.ErrNoRecord): // it was deleted since it was too old
		return nil, nil
	case err != nil:
		return nil, notKept(err)
	case found.free:
		return nil, nil
	}
	return found, nil
}

// expired reports whether a run that was begun at a time is kept no longer.
func (r *Runs) expired(began time.Time) bool { return r.config.Now().Sub(began) >= Lifetime }

// read returns the newest record of a run. This process may know a newer one than the store.
func (r *Runs) read(ctx context.Context, owner, id string) (*Record, error) {
	r.mu.Lock()
	f := r.followed[claim{owner, id}]
	r.mu.Unlock()
	if f != nil {
		if known := f.current(); known != nil {
			return known, nil
		}
	}
	from, err := r.config.Store.Get(ctx, owner, id)
	if err != nil {
		return nil, err
	}
	from.Owner = owner
	return decode(from)
}

// sameCall returns the failure of a call whose key belongs to a call with another skill, version or arguments.
func sameCall(ctx context.Context, b Bridge, q *Request, found *Record) *run.Failure {
	what := ""
	switch {
	case !b.Permits(&found.Ref, q.Call.Principal): // the name means another skill, or it is not known at the moment which one
		if _, failure := b.Find(ctx, q.Call.Name, q.Call.Principal); failure != nil {
			return failure
		}
		what = "another skill"
	case found.args != digestOf(q.Call.Inputs.Text):
		what = "other arguments"
	case q.Call.Version != "" && q.Call.Version != found.Ref.Version:
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
		Message:  "Invalid params: '" + ParamKey + "' was used within the last 24 hours for a call with " + what + "; use a new key for a new call, and the same skill and arguments to repeat the earlier one",
		Argument: &run.Argument{Field: run.FieldOther, Name: ParamKey, Reason: ReasonKeyReused},
	}
}

// join answers a call whose key belongs to a run.
func (r *Runs) join(ctx context.Context, b Bridge, q *Request, found *Record) Answer {
	call := q.Call
	call.Inputs = translate.Call{}.Inputs
	if found.goesOn() && r.canceled(ctx, found, call.Principal) {
		found = r.end(ctx, found)
	}
	a := Answer{Record: found, Joined: true}
	if o, ok := r.ended(ctx, found, call.Answer); ok {
		a.Run = o
		b.ReportRun(ctx, call, translate.OperationFollow, &a.Run)
		return a
	}
	if found.Ref.ExecutionID == "" { // its submission has no answer
		a.Run = run.Run{Ref: found.Ref, State: found.State, Failure: lost(found)}
		b.ReportRun(ctx, call, translate.OperationFollow, &a.Run)
		return a
	}
	if found.goesOn() {
		r.follow(found, call.Caller)
	}
	began, bounded := time.Now(), call.Wait == nil
	if call.Timeout > 0 && (bounded || call.Timeout < *call.Wait) {
		call.Wait = &call.Timeout
	}
	a.Run = b.Resume(ctx, found.Ref, call).Wait()
	if bounded && a.Failure == nil && !a.State.Ended() {
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
