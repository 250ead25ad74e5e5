package skillsharing

import (
	"cmp"
	"context"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Polling says when the client asks for the state of a run.
type Polling struct {
	// Plan is the same for all runs. If it is nil, Store learns one for each skill.
	Plan  polling.Plan
	Store *polling.Store
	// Budgets limit the polls of each host, of all sources together; nil: there is no limit.
	Budgets *polling.Budgets
}

// FollowOptions says which run to follow, and how.
type FollowOptions struct {
	ExecutionID string
	// RetryAfter is a delay that the provider has asked for.
	RetryAfter time.Duration
	// Resumed says that the run was accepted earlier, so that the first request is made at once.
	Resumed bool
	// Accepted is when a resumed run was accepted; zero: not known.
	Accepted time.Time
	// NotBefore is the earliest time at which the provider wants a request about a resumed run; zero: it has not said.
	NotBefore time.Time
	// Until is when the caller needs an answer, whether the run has ended or not; zero: when it has ended.
	Until time.Time
	// Patience is how long it waits for the first answer about a resumed run at least, also after Until; 0: one second. With it no request waits for the answer,
	// so that the request has its turn after those of all others.
	Patience time.Duration
	// TraceParent is the traceparent header of all requests (W3C Trace Context, section 3.2); empty: they have none.
	TraceParent string
	// Show is called by the goroutine of Follow for each new state but the last. A state is new if it differs from the
	// state before, which is Known at first. Show may take any time; it does not delay other callers. If it returns false,
	// Follow returns that state. nil: Follow only returns the last state.
	Show  func(*document.Response) bool
	Known run.State
}

// earliest returns NotBefore by the clock of this process. It and Accepted may be of another clock that is ahead: the time between
// them is all that the provider has asked for.
func (o *FollowOptions) earliest(now time.Time) time.Time {
	if o.Accepted.After(now) && o.NotBefore.After(o.Accepted) {
		return now.Add(o.NotBefore.Sub(o.Accepted))
	}
	return o.NotBefore
}

// resultDelays are the delays between requests for the result of a completed run.
var resultDelays = polling.Backoff{Initial: 500 * time.Millisecond, Longest: 5 * time.Second}

// Follow requests the status of a run until the run has ended, and then the output if it has a URL of
// its own (section 5.5). It returns at the latest when the context ends. It needs only the skill and
// the execution id. If the run has not ended at [FollowOptions.Until], the response is not final, and
// its RetryAfter says when to ask again. Callers that follow one run at the same time share its
// requests and the response, which must not be changed.
func (c *Client) Follow(ctx context.Context, s *discovery.Skill, options *FollowOptions, stats *Stats) (*document.Response, *run.Failure) {
	executionID := options.ExecutionID
	if e := c.judgeURLs(ctx, s, s.URLs); e != nil {
		e.ExecutionID, e.Executed = executionID, run.ExecutedYes
		return nil, c.finish(s, e)
	}
	if s.Endpoint.StatusURL == "" && s.Endpoint.ResultURL == "" {
		return nil, c.finish(s, unfollowable(run.PhasePoll, executionID, "the descriptor has neither a status nor a result URL"))
	}
	w := newWatcher(ctx, options, stats)
	f, asks := c.followers.join(c, s, options, w)
	for {
		r, e := f.watch(w, asks)
		if e != nil || r.State.Ended() || !w.looking {
			return r, e
		}
		w.seen = r.State
		back, asksAgain := f.show(w, r, options.Show)
		if !back {
			return r, nil
		}
		asks = asksAgain
	}
}

// Result requests the output of a run that is known to have completed, whose execution id is that of
// completed. If there is no output at [FollowOptions.Until], the response is not final.
func (c *Client) Result(ctx context.Context, s *discovery.Skill, completed *document.Response, options *FollowOptions, stats *Stats) (*document.Response, *run.Failure) {
	options.ExecutionID = completed.ExecutionID
	w := newWatcher(ctx, options, stats)
	f := newFollower(c, s, options, w)
	f.seekResult(completed)
	return f.watch(w, true)
}

// unfollowable returns the failure of an accepted run that can't be followed.
func unfollowable(phase run.Phase, executionID, reason string) *run.Failure {
	return &run.Failure{
		Kind: run.ProviderFault, Phase: phase, By: run.Bridge, Ref: run.Ref{ExecutionID: safetext.Clip(executionID, document.MaxExecutionID)}, Executed: run.ExecutedYes,
		Lost: true, Message: "The run was accepted, but can't be followed: " + reason + ".",
	}
}

// RunError returns the failure of a run that the provider reported as failed or
// timed out.
func (c *Client) RunError(s *discovery.Skill, r *document.Response) *run.Failure {
	e := &run.Failure{
		Kind: run.RunFailed, Message: "The provider reported that the run failed.", Phase: run.PhasePoll,
		By: run.Provider, Ref: run.Ref{ExecutionID: r.ExecutionID}, Executed: run.ExecutedYes,
	}
	code, said := document.ExecutionFailed, r.Error
	if r.State == run.TimedOut {
		code, e.Message = string(document.InvocationTimeout), "The provider reported that the run timed out."
	}
	if said == nil {
		said = new(document.RunError)
	}
	switch said.Code {
	case "":
	case document.ExecutionTimeout:
		code = string(document.InvocationTimeout)
	default:
		code = said.Code
	}
	e.Message = cmp.Or(said.Message, e.Message)
	e.Provider = said.Quoted(code)
	e.SkillID = s.ID
	c.ScrubFailure(e)
	return e
}

// schedule says when the next request about a run is due.
type schedule struct {
	run      polling.Run // its deadline is that of the watcher that stays longest
	never    bool        // there is no request before the deadline
	due      time.Time   // otherwise: when the next request is due
	earliest time.Time   // no request may be made before this time; zero: any time
}

// in makes the next request due after d.
func (s *schedule) in(d time.Duration) {
	if s.never = d == polling.Never; !s.never {
		s.due = time.Now().Add(d)
	}
}

// left returns the time until the next request is due.
func (s *schedule) left() time.Duration {
	if s.never {
		return polling.Never
	}
	return time.Until(s.due)
}

// rest sets the least delay before the next request.
func (s *schedule) rest(after time.Duration) {
	s.earliest = time.Time{}
	if after > 0 {
		s.earliest = time.Now().Add(after)
	}
}

// planFor starts the polling plan for a run of a skill.
func (p *Polling) planFor(c *Client, s *discovery.Skill, options *FollowOptions, deadline time.Time) polling.Run {
	plan := p.Plan
	if plan == nil {
		plan = p.Store.Learner(c.pollingKey(s))
	}
	budget := p.Budgets.Of(s.Polled)
	if options.Resumed {
		return polling.Resume(plan, budget, options.Accepted, deadline)
	}
	return polling.Start(plan, budget, time.Now(), deadline)
}

func (c *Client) pollingKey(s *discovery.Skill) polling.Key {
	return polling.Key{Provider: c.Origin.String(), Skill: s.ID, Version: s.Version}
}

// Times returns the median and the 95th percentile of the execution times of a skill's runs that were polled; zero: none is known.
func (c *Client) Times(s *discovery.Skill) (median, p95 time.Duration) {
	if c.Polling.Store == nil {
		return 0, 0
	}
	return c.Polling.Store.Times(c.pollingKey(s))
}
