package cache

import (
	"context"
	"net/http"
	"time"
)

// Request says which document is wanted, and how it is fetched and parsed.
type Request struct {
	// URL and Partition are the key of the document. The partition is an opaque
	// text that stands for everything else the answer depends on, such as a
	// hash of the credential. All requests of a partition must send the same
	// header fields, but for the conditions, since Vary is not compared.
	URL       string
	Partition string
	// Owner identifies the client that asks. An [OwnError] is returned to
	// requests of the same owner only. 0: there is one client.
	Owner uint64
	// Group and AtOnce bound the flights of the requests with the same Group:
	// AtOnce of them run at a time, and further ones wait for as long as a
	// caller waits for them. A running flight without callers is aborted if a
	// flight with callers needs its place. AtOnce 0: there is no bound.
	Group  string
	AtOnce int
	// Shares name what a flight has in common with others of its group, such as
	// a host. Half of AtOnce is reserved for flights whose shares no running
	// flight has. Of the other half, a share takes no more places than it leaves
	// free: a quarter of AtOnce if there is no other share, and less the more
	// there are. So a flight with new shares can start unless flights of more
	// than AtOnce/2 different shares are running. Flights that wait start in
	// turns, those with different shares one after another. For a flight that
	// was overtaken in the first of its shares, a place is reserved in the last.
	// The slice must not be changed.
	Shares []string
	// Done, if it is not nil, is called once: when the flight that Get has begun
	// has ended, before its callers return, even if this caller has left before;
	// or before Get returns if it has begun none.
	Done func()
	// AskedSince, if it is not zero, is for a caller that has a reason to expect a new document: a fresh one for which the origin was
	// last asked before this time is confirmed first. If that fails, the fresh one stays and is returned, and it is not
	// confirmed early again for Config.NegativeTTL.
	AskedSince time.Time
	// Timeout bounds a flight from its start: one fetch or, if the first answer
	// is about another version than the one known, two. 0: 30 seconds.
	Timeout time.Duration
	// Fetch makes one GET request with the conditions, which are If-None-Match
	// and If-Modified-Since fields or none, and returns the answer. It follows
	// redirects by its own rules, and bounds the body itself. ctx has the values
	// of one caller's context, but does not end with it. Fetch must return when
	// ctx has ended.
	//
	// Every status is an answer, not an error: 200 is a document, 401, 403, 404
	// and 410 are refusals unless a redirect led to them, and all others mean that
	// the origin is in trouble. So
	// does an error, unless errors.As finds an interface{ Permanent() bool } in
	// it that returns true. Such an error is a refusal, too: the known
	// document is dropped, and the error is returned, and remembered for
	// Config.NegativeTTL, instead of a stale document. An [OwnError] drops
	// nothing.
	Fetch func(ctx context.Context, conditions http.Header) (*Response, error)
	// Parse reads the document in a 200 answer, and returns the value to keep
	// with its cost in bytes. An error means that the document is invalid, and is treated like one of Fetch.
	// Parse is not called for a body that was already received from the same
	// final URL by the same redirects, so the value must depend on nothing
	// else.
	Parse func(*Response) (value any, cost int64, err error)
}

// Response is an answer of the origin. It must not change once it is returned.
type Response struct {
	StatusCode int
	Header     http.Header // under canonical names
	Body       []byte
	URL        string   // after redirects; empty: the URL asked for
	Via        []string // the URLs that redirected to it, but for the one asked for
}
