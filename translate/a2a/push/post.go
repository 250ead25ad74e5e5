package push

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

const (
	// timeout bounds the duration of a request, from the look-up of the host to the end of the answer.
	timeout = 10 * time.Second
	// maxRead bounds how much of an answer is read, in bytes. A connection can be used again only if the answer was read to its end.
	maxRead = 4 << 10
	// maxProblem and maxHost bound texts for the operator, in characters.
	maxProblem = 200
	maxHost    = 255
)

// Outcome is the result of a request.
type Outcome string

// The outcomes.
const (
	Delivered Outcome = "delivered" // the HTTP status was 2xx
	Refused   Outcome = "refused"   // the HTTP status was another one
	Blocked   Outcome = "blocked"   // the configuration does not allow the connection
	Failed    Outcome = "failed"    // there was no answer in time
)

// Attempt is one request to a webhook, for the operator. It has no secrets.
type Attempt struct {
	Task, Skill, Webhook string // the ids of the task and of the webhook, and the skill's name
	Host                 string // the webhook's host and port
	Version              string // the version of A2A
	Event                uint64 // the number of the event
	Try                  int    // the number of the request for this event, from 1
	Outcome              Outcome
	Status               int    // the HTTP status; 0: there was no answer
	Problem              string // the reason why there was no answer
	Duration             time.Duration
	Retry                time.Duration // until the next request for the event; 0: it is the last one
	Lost                 bool          // the event is not sent again
	GivenUp              bool          // nothing more is sent to the webhook, since too many events in a row were lost
}

func (w *Webhooks) attempted(a *Attempt) {
	if w.Attempted != nil {
		w.Attempted(a)
	}
}

// post sends an event.
func (w *Webhooks) post(ctx context.Context, a *Attempt, p *task.PushConfig, s Secrets, body []byte) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	u, err := url.Parse(p.URL)
	if err != nil {
		a.Outcome, a.Problem = Blocked, "the URL is not valid"
		return
	}
	a.Host = safetext.Line(u.Host, maxHost)
	if u.Scheme != "https" && !w.AllowHTTP {
		a.Outcome, a.Problem = Blocked, "HTTP without TLS is not allowed"
		return
	}
	r := &http.Request{
		Method: http.MethodPost, URL: u, Host: u.Host, Header: header(p, s), ContentLength: int64(len(body)),
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
		Body:    io.NopCloser(bytes.NewReader(body)),
	}
	response, err := w.Transport.RoundTrip(r.WithContext(ctx)) // a transport does not follow redirects
	if err == nil {
		_, _ = io.CopyN(io.Discard, response.Body, maxRead) // only the status matters
		_ = response.Body.Close()
		a.Status = response.StatusCode
	}
	a.Duration = time.Since(began)
	switch {
	case err == nil && a.Status/100 == 2:
		a.Outcome = Delivered
	case err == nil:
		a.Outcome, a.Problem = Refused, cmp.Or(http.StatusText(a.Status), "an unknown status")
	default:
		a.Outcome, a.Problem = Failed, problem(err, s)
		if refused, ok := errors.AsType[interface {
			error
			Refused() string
		}](err); ok {
			a.Outcome, a.Problem = Blocked, refused.Refused()
		}
	}
}

// problem returns the text of an error. It removes the webhook's secrets, which an answer may contain.
func problem(err error, s Secrets) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer within " + timeout.String()
	}
	text := err.Error()
	for _, secret := range []string{s.Credentials, s.Token} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "[redacted]")
		}
	}
	return safetext.Line(text, maxProblem)
}

// header returns the header of a request to a webhook.
func header(p *task.PushConfig, s Secrets) http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"caddy-skill-bridge"}}
	if versionOf(p.Version) == wire.V10 {
		h.Set("Content-Type", "application/a2a+json")
	}
	if p.Scheme != "" && s.Credentials != "" {
		h.Set("Authorization", p.Scheme+" "+s.Credentials)
	}
	if s.Token != "" {
		h["X-A2A-Notification-Token"] = []string{s.Token} // in the specification's spelling, which is not the canonical one
	}
	return h
}
