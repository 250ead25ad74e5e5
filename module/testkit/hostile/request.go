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

// A Request is a request that a provider received.
type Request struct {
	Part      Part   // empty: no path of the provider
	Skill     string // its id
	Execution string // the execution id, if the part is Status or Result
	Call      string // the call id, if the part is Invoke
	Method    string
	Target    string // path and query as sent
	Host      string
	Header    http.Header
	Body      string
	At        time.Time
	Remote    string // the client's address
	Client    string // name in the client's certificate; empty: there was none

	conn   *conn
	from   int64        // bytes that the connection had sent before
	to     atomic.Int64 // bytes sent at the next request; 0: there is none yet
	status atomic.Int64
}

// Sent returns how many bytes of the answer were written to the socket. Bytes that the client has not
// read are in the kernel's buffers; [EndlessBody], [EndlessHeaders] and [Bomb] make the send buffer
// small.
func (r *Request) Sent() int64 {
	if to := r.to.Load(); to > 0 {
		return to - r.from
	}
	return r.conn.sent() - r.from
}

// Status returns the status of the answer; 0: there is none yet, or it is not HTTP.
func (r *Request) Status() int { return int(r.status.Load()) }

// newRequest returns the record of an HTTP request.
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
	q.Part, q.Skill, q.Execution = parsePath(r.URL.EscapedPath())
	if q.Part == Invoke {
		q.Call = callOf(r.URL, body)
	}
	return q
}

// callOf returns the call id, which clients send as the argument "call".
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

// find returns where a request contains a text, also in encoded form; empty: nowhere.
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
