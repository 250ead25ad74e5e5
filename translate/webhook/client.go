package webhook

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

const (
	// timeout bounds the duration of a request, from the look-up of the host to the end of the answer.
	timeout = 10 * time.Second
	// maxRead bounds how much of an answer is read, in bytes. A connection can be used again only if the answer was read to its end.
	maxRead = 4 << 10
	// maxRetryAfter bounds Answer.RetryAfter.
	maxRetryAfter = time.Hour
	// maxURL is the longest URL, in bytes.
	maxURL = 2048
	// maxProblem and maxHost bound texts for the operator, in characters.
	maxProblem = 200
	maxHost    = 255
)

// Client sends requests to webhooks. Its fields must not be changed while it is used.
type Client struct {
	// Transport sends requests. It must follow no redirects, and must check each address that it connects to. It is required.
	Transport http.RoundTripper
	// Judge returns an error if requests to a URL are not allowed, as far as that is known without a look-up of its host. It is
	// required.
	Judge func(ctx context.Context, u *url.URL) error
	// AllowHTTP allows webhooks without TLS.
	AllowHTTP bool
	// Proxied says that the Transport connects to a proxy, so that the addresses of the webhooks are not known.
	Proxied bool
}

// Check returns the problem of a webhook's URL; empty: there is none.
func (c *Client) Check(ctx context.Context, text string) (problem string) {
	if len(text) > maxURL {
		return "must have at most 2048 bytes"
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "" || u.Hostname() == "":
		return "must be an absolute URL"
	case u.Scheme == "http" && !c.AllowHTTP:
		return "must begin with https://"
	case u.Scheme != "https" && u.Scheme != "http":
		return "must be an https URL"
	case u.User != nil:
		return "must have no user name or password: use authentication"
	case u.Fragment != "" || u.RawFragment != "":
		return "must have no fragment"
	case !isPort(u.Port()):
		return "must have a port from 1 to 65535, without leading zeros"
	}
	if err := c.Judge(ctx, u); err != nil {
		if refused := exchange.Refusal(err); refused != nil {
			return "is not allowed here: " + refused.Reason
		}
		return "is not allowed here"
	}
	return ""
}

// isPort reports whether a text is a port as all programs read it; empty: that of the scheme.
func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return text == "" || err == nil && n > 0 && text[0] != '0'
}

// HostOf returns the host of a URL, and its port unless it is that of the scheme. It is the same for all spellings: in lower case, and without a
// dot at the end.
func HostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if port := u.Port(); port != "" && port != map[string]string{"https": "443", "http": "80"}[u.Scheme] {
		return net.JoinHostPort(host, port)
	}
	return host
}

// Outcome is the result of a request.
type Outcome string

// The outcomes.
const (
	Delivered Outcome = "delivered" // the HTTP status was 2xx
	Refused   Outcome = "refused"   // the HTTP status was another one
	Blocked   Outcome = "blocked"   // the configuration does not allow the connection
	Failed    Outcome = "failed"    // there was no answer in time
)

// Request is a request to a webhook.
type Request struct {
	URL string
	// Paced is whose requests to one address have a rate; empty: none are.
	Paced  string
	Header http.Header
	Body   []byte
	// Secrets are removed from the problem, which may have a part of the answer.
	Secrets []string
}

// Answer is the answer to a request, for the operator. It has no secrets.
type Answer struct {
	Host     string // of the webhook, with the port
	Outcome  Outcome
	Status   int    // the HTTP status; 0: there was no answer
	Problem  string // the reason why there was no answer
	Duration time.Duration
	// RetryAfter is the time after which a receiver that refused the request wants the next one, at most an hour; 0: it does not say.
	RetryAfter time.Duration
}

// Post sends a request. All requests of the process to one address are at most as many at a time as those to one host; further ones wait.
func (c *Client) Post(ctx context.Context, q *Request) (a Answer) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	u, err := url.Parse(q.URL)
	if err != nil {
		a.Outcome, a.Problem = Blocked, "the URL is not valid"
		return a
	}
	a.Host = safetext.Line(u.Host, maxHost)
	if u.Scheme != "https" && !c.AllowHTTP {
		a.Outcome, a.Problem = Blocked, "HTTP without TLS is not allowed"
		return a
	}
	entry := &admission{paced: q.Paced}
	defer entry.end()
	body := func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(entry, bytes.NewReader(q.Body))), nil
	}
	r := &http.Request{Method: http.MethodPost, URL: u, Host: u.Host, Header: q.Header, ContentLength: int64(len(q.Body)), GetBody: body}
	r.Body, _ = body()
	if !c.Proxied {
		ctx = entry.traced(ctx)
	}
	response, err := c.Transport.RoundTrip(r.WithContext(ctx)) // a transport does not follow redirects
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
		a.RetryAfter = min(exchange.RetryAfter(response.Header), maxRetryAfter)
	default:
		a.Outcome, a.Problem = Failed, problem(err, q.Secrets)
		if refused := exchange.Refusal(err); refused != nil {
			a.Outcome, a.Problem = Blocked, refused.Reason
		}
	}
	return a
}

// problem returns the text of an error, without secrets.
func problem(err error, secrets []string) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer within " + timeout.String()
	}
	text := err.Error()
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "[redacted]")
		}
	}
	return safetext.Line(text, maxProblem)
}
