package webhook_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// receivers answers requests after a second. Each host is at the address that its path says.
type receivers struct {
	mu       sync.Mutex
	now, top map[string]int // requests in progress, and the most of them at a time, by address
	sent     int
}

type connection struct {
	net.Conn
	address net.TCPAddr
}

func (c connection) RemoteAddr() net.Addr { return &c.address }

func (s *receivers) RoundTrip(r *http.Request) (*http.Response, error) {
	address := r.URL.Query().Get("at")
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: connection{address: net.TCPAddr{IP: net.ParseIP(address), Port: 443}}})
	}
	if _, err := io.ReadAll(r.Body); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.sent++
	s.now[address]++
	s.top[address] = max(s.top[address], s.now[address])
	s.mu.Unlock()
	time.Sleep(time.Second)
	s.mu.Lock()
	s.now[address]--
	s.mu.Unlock()
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// postAll sends requests at the same time, and returns how many were delivered.
func postAll(c *webhook.Client, requests ...webhook.Request) (delivered int) {
	var done sync.WaitGroup
	var mu sync.Mutex
	for i := range requests {
		done.Go(func() {
			a := c.Post(context.Background(), &requests[i])
			mu.Lock()
			defer mu.Unlock()
			if a.Outcome == webhook.Delivered {
				delivered++
			}
		})
	}
	done.Wait()
	return delivered
}

// Any number of names may lead to one address: the bounds for a host hold for the address, too.
func TestNamesOfOneAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &receivers{now: map[string]int{}, top: map[string]int{}}
		c := &webhook.Client{Transport: to, Judge: func(context.Context, *url.URL) error { return nil }}
		of := func(paced, address string, n int) (list []webhook.Request) {
			for i := range n {
				list = append(list, webhook.Request{URL: fmt.Sprintf("https://%s%d.example/?at=%s", paced, i, address), Paced: paced, Body: []byte("{}")})
			}
			return list
		}
		began := time.Now()
		if n := postAll(c, append(of("", "192.0.2.1", 30), of("", "2001:db8::1", 30)...)...); n != 60 || to.top["192.0.2.1"] != 8 || to.top["2001:db8::1"] != 8 || time.Since(began) != 4*time.Second {
			t.Errorf("%d were delivered in %s, at most %v at a time", n, time.Since(began), to.top)
		}
		// Eight at once and then one each second for each owner, within the ten seconds of a request.
		began, to.sent = time.Now(), 0
		if n := postAll(c, of("ada", "192.0.2.2", 30)...); n < 17 || to.sent > 18 || time.Since(began) > 11*time.Second {
			t.Errorf("%d were delivered in %s, %d sent", n, time.Since(began), to.sent)
		}
		if n := postAll(c, of("bob", "192.0.2.2", 8)...); n != 8 {
			t.Errorf("%d of another owner were delivered", n)
		}
		if n := postAll(c, of("ada", "192.0.2.3", 8)...); n != 8 {
			t.Errorf("%d to another address were delivered", n)
		}
		c.Proxied = true
		if postAll(c, of("", "192.0.2.4", 30)...); to.top["192.0.2.4"] != 30 {
			t.Errorf("behind a proxy, %d at a time", to.top["192.0.2.4"])
		}
	})
}
