package skillsharing

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// A run is given up after so many failures in a row that span so much time.
const (
	maxPollFailures = 5
	maxPollTrouble  = 30 * time.Second
)

// poller makes the requests about one run, and decides which failures to tolerate. Only
// one watcher at a time uses it.
type poller struct {
	client      *Client
	skill       *discovery.Skill
	executionID string
	phase       run.Phase
	url         *url.URL
	bareOutput  bool          // an object that only has an output means completed, too
	held        bool          // the provider held the newest answer back
	failures    int           // in a row
	failing     time.Time     // the first of them
	missing     int           // answers 404 or 410 in a row
	renewed     bool          // the credential was renewed since the last good answer
	last        *http.Request // as it was sent
}

// seek says what to ask for, and at which URL. The failure is that of a URL which can't be used.
func (p *poller) seek(phase run.Phase, template string) *run.Failure {
	p.phase = phase
	u, err := document.ExpandURL(template, p.executionID)
	if err != nil {
		return unfollowable(phase, p.executionID, err.Error())
	}
	p.url = u
	return nil
}

// ask makes one request for a watcher, and returns the answer and how long the provider is
// to be left alone after it.
func (p *poller) ask(ctx context.Context, w *watcher) (*document.Response, time.Duration, *run.Failure) {
	p.held = false
	c, wait := p.client, time.Duration(0)
	if p.phase == run.PhasePoll { // a result is there, or not
		wait = c.preferredWait(ctx, w.until)
	}
	start := time.Now()
	req, e := c.skillRequest(ctx, p.skill, p.phase, http.MethodGet, p.url, nil, requestOptions{wait, w.traceParent})
	if p.skill.NeedsCredential() {
		w.stats.Credentials += time.Since(start)
	}
	if e != nil {
		return nil, 0, p.about(e)
	}
	if p.skill.NeedsCredential() { // which may have to be renewed
		last := req.Request // without what else was made with it
		p.last = &last
	}
	w.stats.Polls++
	sent := time.Now()
	a, err := c.Send(p.phase, req)
	if p.phase == run.PhasePoll {
		w.stats.Polling += time.Since(sent)
	}
	if err != nil {
		return nil, 0, c.Unreachable(err, p.phase, p.url, p.executionID)
	}
	if wait > 0 && c.notePreference(ctx, a) {
		p.held = time.Since(start) >= wait/2 // a provider may say so, and answer at once
	}
	r, e := c.Judge(a, document.Asked{Phase: p.phase, ExecutionID: p.executionID, SkillID: p.skill.ID, MayBeBare: p.bareOutput})
	if e != nil {
		return nil, max(exchange.RetryAfter(a.Header), exchange.SuggestedDelay(e), rest(a)), e
	}
	return r, max(r.RetryAfter, rest(a)), nil
}

const (
	// largeAnswer is from how many bytes on an answer about a run has a price.
	largeAnswer = 64 << 10
	// restPerByte is ten times what it takes to read and judge an answer, at most.
	restPerByte = 650 * time.Nanosecond
)

// rest is how long a run is not asked about after a large answer, so that one run takes no
// more than a tenth of a processor.
func rest(a *exchange.Answer) time.Duration {
	if len(a.Body) < largeAnswer {
		return 0
	}
	return time.Duration(len(a.Body)) * restPerByte
}

// about makes an error one about the run.
func (p *poller) about(e *run.Failure) *run.Failure {
	e.ExecutionID, e.Executed, e.Phase = p.executionID, run.ExecutedYes, p.phase
	return e
}

// note takes note of an answer that is not the end of the run, or of a failure e. It returns
// whether to ask again at once, what is wrong, if anything, and why to give up, if that is due.
func (p *poller) note(ctx context.Context, e *run.Failure) (again bool, trouble, final *run.Failure) {
	switch {
	case e != nil:
		again, final = p.failed(ctx, e)
	case p.phase == run.PhaseResult: // the run has completed, so that there must be a result soon
		p.missing = 0
		e = unfollowable(p.phase, p.executionID, "its result URL says that it has not ended, although its status URL said that it has")
		final = p.countFailure(e)
	default:
		p.failures, p.missing, p.renewed = 0, 0, false
	}
	return again, e, final
}

// failed decides about a failed request: ask again at once, ask again later,
// or give up with the error it returns.
func (p *poller) failed(ctx context.Context, e *run.Failure) (again bool, final *run.Failure) {
	denied := e.HTTPStatus == http.StatusNotFound || e.HTTPStatus == http.StatusGone // the provider knows no such run
	if !denied {
		p.missing = 0
	}
	switch {
	case e.HTTPStatus == http.StatusUnauthorized && !p.renewed:
		renewed, failed := p.client.renew(ctx, p.skill, p.last)
		p.renewed = failed == nil // else it may be later
		switch {
		case failed != nil && transient(failed):
			return false, p.countFailure(p.about(failed))
		case failed != nil:
			return false, p.about(failed)
		case renewed:
			return true, nil
		}
		return false, e
	case denied:
		if p.missing++; p.missing > 1 {
			return false, e
		}
		e.Lost = false // not all of the provider's servers may know the run yet
		return false, p.countFailure(e)
	case transient(e):
		return false, p.countFailure(e)
	}
	return false, e
}

// countFailure returns the error if there were too many in a row, for too long.
func (p *poller) countFailure(e *run.Failure) *run.Failure {
	if p.failures++; p.failures == 1 {
		p.failing = time.Now()
	}
	if p.failures >= maxPollFailures && time.Since(p.failing) >= maxPollTrouble {
		return e
	}
	return nil
}

// transient reports whether the same request may well succeed later.
func transient(e *run.Failure) bool {
	if e.Refused != "" {
		return false
	}
	switch {
	case e.HTTPStatus == http.StatusTooManyRequests, e.HTTPStatus == http.StatusRequestTimeout, e.HTTPStatus >= 500:
		return true
	case e.HTTPStatus == 0, e.By == run.Bridge: // no answer or half of one, or no credential for the moment
		return e.Kind == run.Unreachable
	}
	return false
}
