package webhook

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http/httptrace"
	"sync"
	"time"
)

// Rates limit requests by owner and place, which is a host or an address. The zero value is ready. They are not safe for concurrent use.
type Rates struct {
	of    map[pair]*Rate // those that have not rested
	swept int            // their number after the last sweep
}

// minSwept is the number of rates of which those that have rested are looked for.
const minSwept = 256

// Get returns the rate of an owner and place.
func (s *Rates) Get(owner, place string, now time.Time) *Rate {
	key := pair{owner, place}
	r := s.of[key]
	if r == nil {
		if s.of == nil {
			s.of = map[pair]*Rate{}
		}
		if len(s.of) >= 2*s.swept+minSwept {
			maps.DeleteFunc(s.of, func(_ pair, r *Rate) bool { return r.Rest(now) <= 0 })
			s.swept = len(s.of)
		}
		r = new(Rate)
		s.of[key] = r
	}
	return r
}

// addresses bound the requests by the addresses that are dialled: any number of names may lead to one. A request that has to wait holds a
// connection and its place in a [Schedule], where its owner has few.
type addresses struct {
	mu     sync.Mutex
	active map[string]int
	rates  Rates
	freed  chan struct{} // closed when a request ends; nil: none waits
}

// dialled are the addresses of all webhooks, also after a reload.
var dialled = &addresses{active: map[string]int{}}

// enter waits until a request to an address may be sent, and counts it. It reports false if the context ends before. paced is whose requests have
// a rate; empty: there is none.
func (a *addresses) enter(ctx context.Context, paced, address string) bool {
	for {
		a.mu.Lock()
		now, wait := time.Now(), time.Duration(0)
		var rate *Rate
		if paced != "" {
			rate = a.rates.Get(paced, address, now)
			wait = rate.Wait(now)
		}
		full := a.active[address] >= maxActivePerHost
		if !full && wait <= 0 {
			if a.active[address]++; rate != nil {
				rate.Spend(now, pause)
			}
			a.mu.Unlock()
			return true
		}
		if a.freed == nil {
			a.freed = make(chan struct{})
		}
		freed, pause := a.freed, make(<-chan time.Time)
		a.mu.Unlock()
		if wait > 0 {
			timer := time.NewTimer(wait)
			pause, freed = timer.C, nil
			defer timer.Stop()
		}
		select {
		case <-freed:
		case <-pause:
		case <-ctx.Done():
			return false
		}
	}
}

// leave ends a request.
func (a *addresses) leave(address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.active[address]--; a.active[address] == 0 {
		delete(a.active, address)
	}
	if a.freed != nil {
		close(a.freed)
		a.freed = nil
	}
}

// errBusy is the error of a request that had to wait for too long.
var errBusy = errors.New("too many requests to its address")

// admission admits a request to the address of its connection, before the request is written. It is an empty reader in front of the body, which
// can't be read without it.
type admission struct {
	paced    string
	mu       sync.Mutex // a request may get another connection
	address  string     // that counts the request; empty: none does
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
		ok := dialled.enter(ctx, a.paced, address)
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.rejected = !ok; ok {
			a.address = address
		}
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
	if a.address != "" {
		dialled.leave(a.address)
		a.address = ""
	}
}
