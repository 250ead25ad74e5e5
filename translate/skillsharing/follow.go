package skillsharing

import (
	"cmp"
	"context"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Polling says when the state of a run is asked for.
type Polling struct {
	// Plan is the same for all runs. If it is nil, Store learns one for each skill.
	Plan  polling.Plan
	Store *polling.Store
	// Budgets bound how often each host is asked, for whichever source; nil: they don't.
	Budgets *polling.Budgets
}

// FollowOptions is a run whose end is awaited.
type FollowOptions struct {
	ExecutionID string
	// RetryAfter is a delay that the provider has asked for.
	RetryAfter time.Duration
	// Resumed tells that the run was not accepted just now, but followed before or by
	// somebody else: then it is asked about at once.
	Resumed bool
	// Accepted is when a resumed run was accepted; zero: that is not known.
	Accepted time.Time
	// NotBefore is when the provider wants to be asked about a resumed run at the earliest; zero: it has not said.
	NotBefore time.Time
	// Until is when whoever waits wants to hear how the run is, ended or not; zero: not before it has ended.
	Until time.Time
	// TraceParent is the traceparent header of all requests (W3C Trace Context, section 3.2); empty: they have none.
	TraceParent string
	// Show is called, by the goroutine that called Follow, each time that the run is in another state than Known, or than
	// was shown last, and has not ended. However long it takes, others go on to follow the run. If it returns false,
	// Follow returns that state. nil: no state but the last is of interest.
	Show  func(*document.Response) bool
	Known run.State
}

// resultDelays are those between requests for a result that should be there.
var resultDelays = polling.Backoff{Initial: 500 * time.Millisecond, Longest: 5 * time.Second}

// Follow asks for a run's status until it has ended, and for its output if that
// is published elsewhere (section 5.5). It ends with the context at the latest.
// Skill and execution id are all that is needed, so a run can be followed by
// whoever knows them. If the run has not ended by the time that the caller waits
// for it, the response is not final, and its RetryAfter says when it makes sense
// to ask again. However many follow a run at the same time, one of them asks, and
// the others hear of it: the response is shared, and must not be changed.
func (c *Client) Follow(ctx context.Context, s *discovery.Skill, awaited *FollowOptions, stats *Stats) (*document.Response, *run.Failure) {
	executionID := awaited.ExecutionID
	if e := c.judgeURLs(ctx, s); e != nil {
		e.ExecutionID, e.Executed = executionID, run.ExecutedYes
		return nil, c.finish(s, e)
	}
	if s.Endpoint.StatusURL == "" && s.Endpoint.ResultURL == "" {
		return nil, c.finish(s, unfollowable(run.PhasePoll, executionID, "the descriptor has neither a status nor a result URL"))
	}
	w := newWatcher(ctx, awaited, stats)
	f, asks := c.followers.join(c, s, awaited, w)
	for {
		r, e := f.watch(w, asks)
		if e != nil || r.State.Ended() || !w.looking {
			return r, e
		}
		w.seen = r.State
		back, asksAgain := f.show(w, r, awaited.Show)
		if !back {
			return r, nil
		}
		asks = asksAgain
	}
}

// Result fetches the output of a run that is known to have completed. Of the run that
// was awaited, its id is not needed. If the output is not there by the time that the
// caller waits for it, the response is not final.
func (c *Client) Result(ctx context.Context, s *discovery.Skill, completed *document.Response, awaited *FollowOptions, stats *Stats) (*document.Response, *run.Failure) {
	w := newWatcher(ctx, awaited, stats)
	f := newFollower(c, s, completed.ExecutionID, w)
	f.seekResult(completed)
	return f.watch(w, true)
}

// unfollowable is the error of a run that exists but whose end can't be learned.
func unfollowable(phase run.Phase, executionID, reason string) *run.Failure {
	return &run.Failure{
		Kind: run.ProviderFault, Phase: phase, By: run.Bridge, Ref: run.Ref{ExecutionID: safetext.Clip(executionID, document.MaxExecutionID)}, Executed: run.ExecutedYes,
		Lost: true, Message: "The run was accepted, but can't be followed: " + reason + ".",
	}
}

// RunError is the failure of a run that the provider reported as failed or timed
// out.
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
	credential.ScrubFailure(e, c.Credentials, c.DiscoveryCredentials)
	return e
}
