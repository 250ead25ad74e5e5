package webhook

import (
	"fmt"
	"testing"
	"time"
)

// queue is a queue of requests.
type queue struct{ Place }

// drain returns the hosts of the requests that are possible at a time, all of which end at once.
func drain(s *Schedule[*queue], now time.Time) (hosts []string) {
	for {
		q, ok := s.Next(now)
		if !ok {
			return hosts
		}
		hosts = append(hosts, q.Owner+" "+q.Host)
		s.Done(q)
	}
}

// A schedule limits the rate of an owner's requests to a host, loses none, and forgets owners, hosts and rates.
func TestPaced(t *testing.T) {
	now := time.Unix(1000, 0)
	s := new(Schedule[*queue])
	for range 20 {
		s.Add(&queue{Place{Owner: "eve", Host: "a"}})
	}
	s.Add(&queue{Place{Owner: "eve", Host: "b"}})
	s.Add(&queue{Place{Owner: "ada", Host: "a"}})
	if got := drain(s, now); len(got) != burst+2 {
		t.Errorf("%v", got)
	}
	n := burst
	for ; n < 20; n++ {
		wait := s.Wait(now)
		if wait <= 0 || wait > pause {
			t.Fatalf("after %d: wait %s", n, wait)
		}
		if got := drain(s, now.Add(wait-1)); len(got) != 0 {
			t.Fatalf("too early: %v", got)
		}
		now = now.Add(wait)
		if got := drain(s, now); len(got) != 1 {
			t.Fatalf("after %d: %v", n, got)
		}
	}
	if s.Wait(now) != 0 || len(s.owners) != 0 || len(s.turns) != 0 || s.active != 0 {
		t.Errorf("wait %s, %d owners, %d turns, %d active", s.Wait(now), len(s.owners), len(s.turns), s.active)
	}
	for n := range 10_000 {
		now = now.Add(time.Second / 64)
		s.Add(&queue{Place{Owner: "eve", Host: fmt.Sprint(n)}})
		drain(s, now)
	}
	if len(s.rates.of) > 2*minSwept {
		t.Errorf("%d rates of hosts with requests", len(s.rates.of))
	}
}

// A queue with a rate of its own pauses alone, and one that is added for later does, too.
func TestPaceOfItsOwn(t *testing.T) {
	now := time.Unix(1000, 0)
	s := new(Schedule[*queue])
	for range 20 {
		s.Add(&queue{Place{Owner: "eve", Host: "a", Pace: "one"}})
	}
	for range burst {
		s.Add(&queue{Place{Owner: "eve", Host: "a", Pace: "two"}})
		s.Add(&queue{Place{Owner: "eve", Host: "a"}})
	}
	s.AddLater(&queue{Place{Owner: "ada", Host: "later"}}, now.Add(time.Hour))
	if got := drain(s, now); len(got) != 3*burst {
		t.Errorf("%v", got)
	}
	for n := burst; n < 20; n++ {
		now = now.Add(s.Wait(now))
		if got := drain(s, now); len(got) != 1 {
			t.Fatalf("after %d: %v", n, got)
		}
	}
	if wait := s.Wait(now); wait <= 59*time.Minute || len(s.owners) != 0 || len(s.turns) != 0 {
		t.Errorf("wait %s, %d owners, %d turns", wait, len(s.owners), len(s.turns))
	}
	now = now.Add(s.Wait(now))
	if got := drain(s, now); len(got) != 1 || s.Wait(now) != 0 || len(s.owners) != 0 {
		t.Errorf("%v, wait %s", got, s.Wait(now))
	}
}
