package skillsharing

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Following fails after so many failed requests in a row, if they span at least so much time.
const (
	maxPollFailures = 5
	maxPollTrouble  = 30 * time.Second
)

// poller makes the requests about one run, and decides after which failures to
// continue. Only one watcher at a time uses it.
type poller struct {
	client      *Client
	skill       *discovery.Skill
	executionID string
	phase       run.Phase
	url         *url.URL
	bareOutput  bool // an object with only an output counts as a completed run
	failures    row
	known       sightings
	renewed     bool        // the credential was renewed since the last good answer
	unsent      bool        // the newest request was not sent: a status is that of a token endpoint
	rejected    http.Header // of a request that the provider answered with 401; the whole request would keep some 3 KB in memory
}

// seek sets the phase and the URL of further requests. It returns a failure if the URL can't be
// used.
func (p *poller) seek(phase run.Phase, template string) *run.Failure {
	p.phase = phase
	u, err := document.ExpandURL(template, p.executionID)
	if err != nil {
		return unfollowable(phase, p.executionID, err.Error())
	}
	p.url = u
	return nil
}

// ask makes one request for a watcher. It returns the answer, and the least delay before
// the next request.
func (p *poller) ask(ctx context.Context, w *watcher) (*document.Response, time.Duration, *run.Failure) {
	p.rejected, p.unsent = nil, false
	c, start := p.client, time.Now()
	req, e := c.skillRequest(ctx, p.skill, p.phase, http.MethodGet, p.url, nil, w.traceParent)
	if p.skill.NeedsCredential() {
		w.stats.Credentials += time.Since(start)
	}
	if e != nil {
		p.unsent = true
		return nil, 0, p.about(e)
	}
	w.stats.Polls++
	sent := time.Now()
	a, err := c.Send(p.phase, req)
	if p.phase == run.PhasePoll {
		w.stats.Polling += time.Since(sent)
	}
	if err != nil {
		return nil, 0, p.rejectedBy(c.Unreachable(err, p.phase, p.url, p.executionID), req)
	}
	r, e := c.Judge(a, document.Asked{Phase: p.phase, ExecutionID: p.executionID, MayBeBare: p.bareOutput})
	if e != nil {
		return nil, max(exchange.RetryAfter(a.Header), exchange.SuggestedDelay(e), rest(a)), p.rejectedBy(e, req)
	}
	warn(ctx, c, p.skill, r)
	return r, max(r.RetryAfter, rest(a)), nil
}

// rejectedBy keeps the header of a request that was answered with 401, so that its credential can be renewed. It returns the failure e.
func (p *poller) rejectedBy(e *run.Failure, req *exchange.Request) *run.Failure {
	if e.HTTPStatus == http.StatusUnauthorized {
		p.rejected = req.Header
	}
	return e
}

const (
	// largeAnswer is the size from which an answer about a run delays the next request, in
	// bytes.
	largeAnswer = 64 << 10
	// restPerByte is ten times the longest time for reading and judging a byte of an answer.
	restPerByte = 650 * time.Nanosecond
)

// rest returns the least delay after a large answer. With it, polling one run takes at
// most a tenth of a processor.
func rest(a *exchange.Answer) time.Duration {
	if len(a.Body) < largeAnswer {
		return 0
	}
	return time.Duration(len(a.Body)) * restPerByte
}

// about sets the run and the phase of a failure.
func (p *poller) about(e *run.Failure) *run.Failure {
	e.ExecutionID, e.Executed, e.Phase = p.executionID, run.ExecutedYes, p.phase
	return e
}

// note counts a failure e, or an answer that is not the end of the run. It returns whether to
// repeat the request at once, the failure of this request or nil, and the failure of following
// or nil.
func (p *poller) note(ctx context.Context, e *run.Failure) (again bool, trouble, final *run.Failure) {
	switch {
	case e != nil:
		again, final = p.failed(ctx, e)
	case p.phase == run.PhaseResult: // the run has completed, so there must be a result soon
		*p.denials() = row{}
		e = unfollowable(p.phase, p.executionID, "its result URL says that it has not ended, although its status URL said that it has")
		final = p.countFailure(e)
	default:
		p.failures, p.renewed = row{}, false
		p.known.seen, p.known.status = true, row{}
	}
	return again, e, final
}

// failed decides what to do after a failed request: repeat it at once, ask
// again later, or stop with the failure that it returns.
func (p *poller) failed(ctx context.Context, e *run.Failure) (again bool, final *run.Failure) {
	denied := !p.unsent && exchange.Denied(e)
	if !denied {
		*p.denials() = row{}
	}
	switch {
	case p.rejected != nil && !p.renewed:
		rejected := &http.Request{Method: http.MethodGet, URL: p.url, Host: p.url.Host, Header: p.rejected}
		renewed, failed := p.client.renew(ctx, p.skill, rejected.WithContext(ctx), nil)
		p.rejected = nil
		p.renewed = failed == nil // otherwise it may be renewed later
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
		least, span := maxPollFailures, maxPollTrouble
		if p.phase == run.PhasePoll && p.known.seen {
			least, span = 2, confirmedAfter
		}
		if p.denials().add(least, span) {
			return false, e
		}
		e.Lost = false
		e.Message = strings.TrimSuffix(e.Message, ".") + ". Perhaps not all servers of the provider know the run yet."
		return false, p.countFailure(passing(e))
	case transient(e):
		return false, p.countFailure(passing(e))
	}
	return false, e
}

// denials are those of the URL that is asked.
func (p *poller) denials() *row {
	if p.phase == run.PhaseResult {
		return &p.known.result
	}
	return &p.known.status
}

// passing marks a failure that may pass, so that no caller takes it for the end of the run.
func passing(e *run.Failure) *run.Failure {
	if e.Cause == nil {
		e.Cause = run.ErrPassing
	}
	return e
}

// countFailure counts a failure. It returns the failure if there were too many in a row for too
// long, and nil otherwise.
func (p *poller) countFailure(e *run.Failure) *run.Failure {
	if p.failures.add(maxPollFailures, maxPollTrouble) {
		return e
	}
	return nil
}

// transient reports whether the same request is likely to succeed later.
func transient(e *run.Failure) bool {
	if e.Refused != "" {
		return false
	}
	switch {
	case e.HTTPStatus == http.StatusTooManyRequests, e.HTTPStatus == http.StatusRequestTimeout, e.HTTPStatus >= 500:
		return true
	case e.HTTPStatus == 0, e.By == run.Bridge: // no complete answer, or no credential at the moment
		return e.Kind == run.Unreachable
	}
	return e.Kind == run.Unreachable || e.Kind == run.RateLimited // by the code of a unified error, which decides before the status
}
