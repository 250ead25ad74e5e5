package webhook

import (
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"net"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

// Rates are rates by owner and place, which is a host or an address. The zero value is ready. They are not safe for concurrent use.
type Rates struct {
	of    map[pair]*share.Rate // those that have not rested
	swept int                  // their number after the last sweep
}

// minSwept is the number of rates of which those that have rested are looked for.
const minSwept = 256

// Get returns the rate of an owner and place, or a new one of one each interval, after a burst.
func (s *Rates) Get(owner, place string, now time.Time, each, burst time.Duration) *share.Rate {
	key := pair{owner, place}
	r := s.of[key]
	if r == nil {
		if s.of == nil {
			s.of = map[pair]*share.Rate{}
		}
		if len(s.of) >= 2*s.swept+minSwept {
			maps.DeleteFunc(s.of, func(_ pair, r *share.Rate) bool { return r.Rest(now) <= 0 })
			s.swept = len(s.of)
		}
		r = share.NewRate(now, each, burst)
		s.of[key] = r
	}
	return r
}

// A rate of requests allows a burst at once, and then one in each pause.
const pause, burst = time.Second, 8

// addresses bound the requests by the addresses that are dialled: any number of names may lead to one. A request that has to wait holds a
// connection and its place in a [Schedule], where its owner has few.
type addresses struct {
	active share.Pool
	mu     sync.Mutex
	rates  Rates
}

// dialled are the addresses of all webhooks, also after a reload.
var dialled addresses

// enter waits until a request to an address may be sent, and counts it in a part. It reports false if the context ends before. paced is whose requests have
// a rate; empty: there is none.
func (a *addresses) enter(ctx context.Context, paced string, part *share.Part) bool {
	for paced != "" {
		a.mu.Lock()
		now := time.Now()
		rate := a.rates.Get(paced, part.Owner, now, pause, burst*pause)
		taken, wait := rate.Take(now), rate.Delay(now)
		a.mu.Unlock()
		if taken {
			break
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return false
		}
	}
	return part.Await(ctx, 1)
}

// errBusy is the error of a request that had to wait for too long.
var errBusy = errors.New("too many requests to its address")

// admission admits a request to the address of its connection, before the request is written. It is an empty reader in front of the body, which
// can't be read without it.
type admission struct {
	paced    string
	mu       sync.Mutex  // a request may get another connection
	part     *share.Part // of its address, which counts the request; nil: none does
	rejected bool
}

// traced returns a context for the request.
func (a *admission) traced(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		a.end()
		address := info.Conn.RemoteAddr().String()
		if host, _, err := net.SplitHostPort(address); err == nil {
			address = host
		}
		part := &share.Part{Pool: &dialled.active, Owner: address, Most: math.MaxInt32, OfOne: maxActivePerHost}
		ok := dialled.enter(ctx, a.paced, part)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.rejected, a.part = !ok, part
	}})
}

// Read implements [io.Reader].
func (a *admission) Read([]byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.rejected {
		return 0, errBusy
	}
	return 0, io.EOF
}

// end ends the request.
func (a *admission) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.part != nil {
		a.part.Set(0)
	}
}
