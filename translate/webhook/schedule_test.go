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

// A paced schedule limits the rate of an owner's requests to a host, loses none, and forgets owners, hosts and rates.
func TestPaced(t *testing.T) {
	now := time.Unix(1000, 0)
	s := &Schedule[*queue]{Paced: true}
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

// A schedule that is not paced has no pauses.
func TestNotPaced(t *testing.T) {
	s := new(Schedule[*queue])
	for range 20 {
		s.Add(&queue{Place{Owner: "eve", Host: "a"}})
	}
	if got := drain(s, time.Now()); len(got) != 20 {
		t.Errorf("%v", got)
	}
}

// Recalled queues are the newest ones to the host with the most, also if it pauses, and nothing of them stays.
func TestRecall(t *testing.T) {
	now := time.Unix(1000, 0)
	s := &Schedule[*queue]{Paced: true}
	for n := range 12 {
		s.Add(&queue{Place{Owner: "eve", Host: "a", Size: int64(n)}})
	}
	s.Add(&queue{Place{Owner: "eve", Host: "b", Size: 12}})
	s.Add(&queue{Place{Owner: "eve", Host: "c", Size: 13}})
	drain(s, now) // four to host a wait
	s.Add(&queue{Place{Owner: "eve", Host: "b", Size: 14}})
	if q, ok := s.Recall("eve", "b"); !ok || q.Size != 11 {
		t.Errorf("%v %+v", ok, q)
	}
	if q, ok := s.Recall("eve", "a"); ok {
		t.Errorf("%+v gives way to the same host", q)
	}
	for n := range 4 {
		if _, ok := s.Recall("eve", ""); !ok {
			t.Errorf("recall %d: nothing waits", n)
		}
	}
	if q, ok := s.Recall("eve", ""); ok {
		t.Errorf("%+v", q)
	}
	if got := drain(s, now.Add(time.Hour)); len(got) != 0 || len(s.owners) != 0 || len(s.turns) != 0 || len(s.later) != 0 || s.Wait(now.Add(time.Hour)) != 0 {
		t.Errorf("%v, %d owners, %d turns, %d later", got, len(s.owners), len(s.turns), len(s.later))
	}
	s.Add(&queue{Place{Owner: "eve", Host: "a"}})
	if got := drain(s, now.Add(time.Hour)); len(got) != 1 {
		t.Errorf("%v", got)
	}
}
