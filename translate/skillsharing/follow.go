package skillsharing

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
)

// maxPollFailures is how many failures in a row a status or result URL may have
// before the run counts as lost from sight.
const maxPollFailures = 5

// Polling says when the state of a run is asked for.
type Polling struct {
	// Plan is the same for all runs. If it is nil, Book learns one for each skill.
	Plan polling.Plan
	Book *polling.Book
	// Budgets bound how often each host is asked, for whichever source; nil: they don't.
	Budgets *polling.Budgets
}

// Awaited is a run whose end is awaited.
type Awaited struct {
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
}

// start begins to follow a run of a skill.
func (p *Polling) start(ctx context.Context, c *Client, s *Skill, run *Awaited) polling.Run {
	plan := p.Plan
	if plan == nil {
		plan = p.Book.Learner(polling.Key{Provider: c.Origin.String(), Skill: s.ID, Version: s.Version})
	}
	budget := p.Budgets.Of(s.polled)
	deadline, bounded := ctx.Deadline()
	if until := run.Until; !until.IsZero() && (!bounded || until.Before(deadline)) {
		deadline = until
	}
	if run.Resumed {
		return polling.Resume(plan, budget, run.Accepted, deadline)
	}
	return polling.Start(plan, budget, time.Now(), deadline)
}

// resultDelays are those between requests for a result that should be there.
var resultDelays = polling.Backoff{Initial: 500 * time.Millisecond, Longest: 5 * time.Second}

// Follow asks for a run's status until it has ended, and for its output if that
// is published elsewhere (section 5.5). It ends with the context at the latest.
// Skill and execution id are all that is needed, so a run can be followed by
// whoever knows them. If the run has not ended by the time that the caller waits
// for it, the response is not final, and its RetryAfter says when it makes sense
// to ask again.
func (c *Client) Follow(ctx context.Context, s *Skill, run *Awaited, effort *Effort) (*Response, *Error) {
	executionID := run.ExecutionID
	if e := c.judgeURLs(ctx, s); e != nil {
		e.ExecutionID, e.Executed = executionID, ExecutedYes
		return nil, c.finish(s, e)
	}
	target, hasStatus := s.Endpoint.StatusURL, s.Endpoint.StatusURL != ""
	if !hasStatus {
		target = s.Endpoint.ResultURL
	}
	if target == "" {
		return nil, c.finish(s, unfollowable(PhasePoll, executionID, "the descriptor has neither a status nor a result URL"))
	}
	poll := &poll{
		client: c, skill: s, template: target, executionID: executionID, phase: PhasePoll, effort: effort, mayPrefer: true, traceParent: run.TraceParent,
		run: c.Polling.start(ctx, c, s, run), bareOutput: !hasStatus, until: run.Until, mustAsk: run.Resumed,
	}
	delay := time.Duration(0)
	if early := time.Until(run.NotBefore); run.Resumed && early > 0 {
		poll.mustAsk, poll.known, delay = false, StatusRunning, early
		poll.hear(early)
	}
	if !run.Resumed {
		poll.known = StatusAccepted
		poll.hear(run.RetryAfter)
		if run.RetryAfter > 0 || c.preferredWait(ctx, run.Until) == 0 {
			delay = poll.run.Next(run.RetryAfter)
		}
	}
	start := time.Now()
	r, e := poll.follow(ctx, delay)
	if e != nil {
		return nil, c.finish(s, e)
	}
	if r.Status == StatusCompleted && r.Elapsed > 0 && !run.Resumed {
		effort.Overshoot = max(0, time.Since(start)-r.Elapsed)
	}
	if r.Status == StatusCompleted && r.Output == nil && hasStatus && s.Endpoint.ResultURL != "" {
		return c.Result(ctx, s, r, run, effort)
	}
	return r, nil
}

// Result fetches the output of a run that is known to have completed. Of the run that
// was awaited, its id is not needed. If the output is not there by the time that the
// caller waits for it, the response is not final.
func (c *Client) Result(ctx context.Context, s *Skill, completed *Response, run *Awaited, effort *Effort) (*Response, *Error) {
	start := time.Now()
	defer func() { effort.Result += time.Since(start) }()
	deadline, _ := ctx.Deadline()
	poll := &poll{
		client: c, skill: s, template: s.Endpoint.ResultURL, executionID: completed.ExecutionID, phase: PhaseResult, effort: effort,
		run: polling.Start(resultDelays, nil, time.Now(), deadline), bareOutput: true, traceParent: run.TraceParent,
		until: run.Until, mustAsk: !run.Until.IsZero(), known: StatusRunning, // for as long as there is no output
	}
	elapsed := completed.Elapsed // not for as long as the result takes: it is part of what holds the arguments
	r, e := poll.follow(ctx, 0)
	if e != nil {
		return nil, c.finish(s, e)
	}
	if r.Elapsed == 0 {
		r.Elapsed = elapsed
	}
	return r, nil
}

// unfollowable is the error of a run that exists but whose end can't be learned.
func unfollowable(phase Phase, executionID, reason string) *Error {
	return &Error{
		Code: InvalidProviderResponse, Phase: phase, Source: SourceBridge, ExecutionID: clip(executionID, maxExecutionID), Executed: ExecutedYes,
		Hint: HintRunLost, Message: "The run was accepted, but can't be followed: " + reason + ".",
	}
}

// poll asks one URL about one run until it says how the run ended.
type poll struct {
	client      *Client
	skill       *Skill
	template    string
	executionID string
	phase       Phase
	effort      *Effort
	traceParent string
	run         polling.Run
	bareOutput  bool      // an object that only has an output means completed, too
	until       time.Time // who waits wants to hear how the run is; zero: not before its end
	mustAsk     bool      // that has to be asked for in any case
	mayPrefer   bool      // the provider may be asked to hold its answers back
	held        bool      // it did so with the newest

	known    ExecutionStatus // the newest, empty: none
	trouble  *Error          // of the newest request
	earliest time.Time       // when the provider wants to be asked again; zero: it has not said
	timer    *time.Timer
	failures int  // in a row
	missing  int  // answers 404 or 410 in a row
	renewed  bool // the credential was renewed since the last good answer
	last     *http.Request
}

func (p *poll) follow(ctx context.Context, delay time.Duration) (*Response, *Error) {
	u, err := expandURL(p.template, p.executionID)
	if err != nil {
		return nil, unfollowable(p.phase, p.executionID, err.Error())
	}
	for {
		if !p.pause(ctx, delay) || !p.hold(ctx) {
			return p.leave(ctx)
		}
		p.run.Ask()
		p.held = false
		r, after, e := p.askInTime(ctx, u)
		p.trouble = e
		switch {
		case ctx.Err() != nil && (e != nil || !r.Status.Final()):
			return p.leave(ctx)
		case e != nil:
			if p.over() && !p.mustAsk {
				return p.leave(ctx) // it was broken off
			}
			again, final := p.tolerate(ctx, e)
			if final != nil {
				return nil, final
			}
			if again {
				delay = 0
				continue
			}
		case r.Status.Final():
			if r.Status == StatusCompleted && p.phase == PhasePoll {
				p.run.Done(r.Elapsed, p.held)
			}
			return r, nil
		case p.phase == PhaseResult: // completed before, so it must have a result soon
			e := unfollowable(p.phase, p.executionID, "its result URL keeps saying that it has not ended, after its status URL said that it has")
			if final := p.countFailure(e); final != nil {
				return nil, final
			}
		default:
			p.failures, p.missing, p.renewed = 0, 0, false
			p.known = r.Status
			p.run.Running(p.held)
		}
		p.mustAsk = false
		p.hear(after)
		if p.held && after == 0 {
			delay = 0
			continue
		}
		delay = p.run.Next(after)
	}
}

// hear notes for how long the provider does not want to be asked.
func (p *poll) hear(after time.Duration) {
	p.earliest = time.Time{}
	if after > 0 {
		p.earliest = time.Now().Add(after)
	}
}

// pause waits before a request. It reports whether the request can be made.
func (p *poll) pause(ctx context.Context, d time.Duration) bool {
	if p.until.IsZero() || p.mustAsk {
		return p.sleep(ctx, d)
	}
	return p.sleepUntil(ctx, d)
}

// sleepUntil waits for d, unless who waits does not want to any longer before.
func (p *poll) sleepUntil(ctx context.Context, d time.Duration) bool {
	left := time.Until(p.until)
	return p.sleep(ctx, min(d, left)) && d <= left
}

// sleep waits for d or until the context ends, always with the same timer. It
// reports whether it waited for d.
func (p *poll) sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	if p.timer == nil {
		p.timer = time.NewTimer(d)
	} else {
		p.timer.Reset(d)
	}
	select {
	case <-ctx.Done():
		p.timer.Stop()
		return false
	case <-p.timer.C:
		return true
	}
}

// hold waits for a place among the requests to the provider. Who comes back to a run
// as often as he likes does not get one in any case.
func (p *poll) hold(ctx context.Context) bool {
	if !p.mustAsk || p.until.IsZero() {
		return p.pause(ctx, p.run.Hold())
	}
	delay, ok := p.run.Reserve(time.Until(p.until))
	if !ok {
		delay = time.Until(p.until)
	}
	return p.sleep(ctx, delay) && ok
}

// over reports whether who waits has waited for as long as he wants to.
func (p *poll) over() bool { return !p.until.IsZero() && !time.Now().Before(p.until) }

// firstPatience is how long the answer to the first request about a resumed run is
// waited for, by whoever does not want to wait: otherwise he would never hear one.
const firstPatience = 10 * time.Second

// askInTime makes one request, for whose answer nobody waits too long.
func (p *poll) askInTime(ctx context.Context, u *url.URL) (*Response, time.Duration, *Error) {
	if p.until.IsZero() {
		return p.ask(ctx, u)
	}
	until := p.until
	if earliest := time.Now().Add(firstPatience); p.mustAsk && until.Before(earliest) {
		until = earliest
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	return p.ask(ctx, u)
}

// leave says how things are when the run is not waited for any longer.
func (p *poll) leave(ctx context.Context) (*Response, *Error) {
	switch {
	case !p.over(), ctx.Err() != nil && !errors.Is(causeOf(ctx), context.DeadlineExceeded):
		return nil, interrupted(ctx, p.phase, p.executionID, ExecutedYes)
	case p.known == "" && p.trouble != nil:
		return nil, p.trouble
	}
	return &Response{
		ExecutionID: p.executionID, Status: cmp.Or(p.known, StatusRunning),
		RetryAfter: p.run.Later(time.Until(p.earliest)), NotBefore: p.earliest,
	}, nil
}

// ask makes one request.
func (p *poll) ask(ctx context.Context, u *url.URL) (*Response, time.Duration, *Error) {
	wait := time.Duration(0)
	if p.mayPrefer {
		wait = p.client.preferredWait(ctx, p.until)
	}
	start := time.Now()
	req, e := p.client.skillRequest(ctx, p.skill, p.phase, http.MethodGet, u, nil, requestOptions{wait, p.traceParent})
	if p.skill.needsCredential() {
		p.effort.Credentials += time.Since(start)
	}
	if e != nil {
		e.ExecutionID, e.Executed, e.Phase = p.executionID, ExecutedYes, p.phase
		return nil, 0, e
	}
	if p.skill.needsCredential() { // which may have to be renewed
		last := req.Request // without what else was made with it
		p.last = &last
	}
	p.effort.Polls++
	sent := time.Now()
	a, err := p.client.exchange(p.phase, req)
	if p.phase == PhasePoll {
		p.effort.Polling += time.Since(sent)
	}
	if err != nil {
		return nil, 0, p.client.unreachable(err, p.phase, u, p.executionID)
	}
	if wait > 0 && p.client.notePreference(ctx, a) {
		p.held = time.Since(start) >= wait/2 // or it says so, and answers at once
	}
	r, e := p.client.judge(a, asked{p.phase, p.executionID, p.skill.ID, p.bareOutput})
	if e != nil {
		return nil, max(retryAfter(a.header), suggestedDelay(e.Retry)), e
	}
	return r, r.RetryAfter, nil
}

// tolerate decides about a failed request: ask again at once, ask again later,
// or give up with the error it returns.
func (p *poll) tolerate(ctx context.Context, e *Error) (again bool, final *Error) {
	switch {
	case e.HTTPStatus == http.StatusUnauthorized && !p.renewed:
		p.renewed = true
		renewed, failed := p.renewCredential(ctx)
		switch {
		case failed != nil && transient(failed):
			p.renewed = false // it was not, and may be later
			return false, p.countFailure(failed)
		case failed != nil:
			return false, failed
		case renewed:
			return true, nil
		}
		return false, e
	case e.HTTPStatus == http.StatusNotFound, e.HTTPStatus == http.StatusGone:
		if p.missing++; p.missing > 1 {
			return false, e
		}
		e.Hint = HintNone // for it may just not be known everywhere yet
		return false, nil
	case transient(e):
		if e.HTTPStatus == http.StatusTooManyRequests || e.HTTPStatus == http.StatusServiceUnavailable {
			p.run.Throttled()
		}
		return false, p.countFailure(e)
	}
	return false, e
}

// countFailure returns the error if there were too many in a row.
func (p *poll) countFailure(e *Error) *Error {
	if p.failures++; p.failures > maxPollFailures {
		return e
	}
	return nil
}

func (p *poll) renewCredential(ctx context.Context) (bool, *Error) {
	renewed, e := p.client.renew(ctx, p.skill, p.last)
	if e != nil {
		e.ExecutionID, e.Executed, e.Phase = p.executionID, ExecutedYes, p.phase
	}
	return renewed, e
}

// transient reports whether the same request may well succeed later.
func transient(e *Error) bool {
	if e.Hint == HintRefused {
		return false
	}
	switch {
	case e.HTTPStatus == http.StatusTooManyRequests, e.HTTPStatus == http.StatusRequestTimeout, e.HTTPStatus >= 500:
		return true
	case e.HTTPStatus == 0, e.Source == SourceBridge: // no answer or half of one, or no credential for the moment
		return e.Code == EndpointUnreachable
	}
	return false
}

// RunError is the Error of a run that the provider reported as failed or timed
// out.
func (c *Client) RunError(s *Skill, r *Response) *Error {
	e := &Error{
		Code: "EXECUTION_FAILED", Message: "The provider reported that the run failed.", Phase: PhasePoll,
		Source: SourceProvider, ExecutionID: r.ExecutionID, Executed: ExecutedYes,
	}
	if r.Status == StatusTimeout {
		e.Code, e.Message = InvocationTimeout, "The provider reported that the run timed out."
	}
	if said := r.Error; said != nil {
		if code, known := unifiedCode(said.Code); known {
			e.Code = code
		} else if said.Code != "" {
			e.Code = ErrorCode(said.Code)
		}
		if said.Message != "" {
			e.Message = said.Message
		}
		e.Retry = said.Retry
		if said.Details != nil {
			e.Details, e.DetailsSource = boundedDetails(said.Details, maxDetails), SourceProvider
		}
	}
	e.SkillID = s.ID
	e.scrub(c.Credentials, c.DiscoveryCredentials)
	return e
}
