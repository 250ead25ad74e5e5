package hostile

import (
	"crypto/tls"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
)

// A Request is what a provider received.
type Request struct {
	Part      Part   // empty: a path that is none of the provider's
	Skill     string // its id
	Execution string // the execution id, if the part is Status or Result
	Call      string // which call it belongs to, if the part is Invoke
	Method    string
	Target    string // path and query, as they were sent
	Host      string
	Header    http.Header
	Body      string
	At        time.Time
	Remote    string // the client's address
	Client    string // the name in the client's certificate; empty: it has shown none

	conn   *conn
	from   int64        // what the connection had written before
	to     atomic.Int64 // and until the next request; 0: there is none yet
	status atomic.Int64
}

// Sent is how many bytes of the answer the kernel has taken from the provider until now.
// What the client has not read of them is in the buffers of the kernel, which
// [EndlessBody], [EndlessHeaders] and [Bomb] keep small on the provider's side.
func (r *Request) Sent() int64 {
	if to := r.to.Load(); to > 0 {
		return to - r.from
	}
	return r.conn.sent() - r.from
}

// Status is that of the answer, or 0 as long as there is none, or none that is HTTP.
func (r *Request) Status() int { return int(r.status.Load()) }

// newRequest notes what has come.
func newRequest(r *http.Request, body []byte) *Request {
	c := r.Context().Value(connKey{}).(*conn)
	q := &Request{
		Method: r.Method, Target: r.RequestURI, Host: r.Host, Header: r.Header.Clone(), Body: string(body),
		At: time.Now(), Remote: r.RemoteAddr, conn: c, from: c.sent(),
	}
	if secure, ok := c.Conn.(*tls.Conn); ok {
		for _, shown := range secure.ConnectionState().PeerCertificates {
			q.Client = shown.Subject.CommonName
		}
	}
	if c.last != nil {
		c.last.to.Store(q.from)
	}
	c.last = q
	q.Part, q.Skill, q.Execution = place(r.URL.EscapedPath())
	if q.Part == Invoke {
		q.Call = callOf(r.URL, body)
	}
	return q
}

// callOf is the id that a client gave a call, in its argument "call".
func callOf(u *url.URL, body []byte) string {
	var invocation struct {
		Inputs struct {
			Call string `json:"call"`
		} `json:"inputs"`
	}
	if json.Unmarshal(body, &invocation) == nil && invocation.Inputs.Call != "" {
		return invocation.Inputs.Call
	}
	return u.Query().Get("call")
}

// find tells where in a request a text is, also if it is encoded there.
func (r *Request) find(text string) (where string) {
	holds := func(s string) bool {
		if strings.Contains(s, text) {
			return true
		}
		plain, err := url.QueryUnescape(s)
		return err == nil && strings.Contains(plain, text)
	}
	user, password, _ := (&http.Request{Header: r.Header}).BasicAuth()
	switch {
	case holds(r.Target), holds(r.Host):
		return "URL"
	case holds(r.Body):
		return "body"
	case holds(user), holds(password):
		return "Authorization"
	}
	for name, values := range r.Header {
		if holds(name) || slices.ContainsFunc(values, holds) {
			return "header " + name
		}
	}
	return ""
}
