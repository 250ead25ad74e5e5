package delivery_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/deliverytest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// dead answers as a function does for hosts whose names begin with dead.
func dead(f func(int, *http.Request) (int, error)) func(int, *http.Request) (int, error) {
	return func(n int, r *http.Request) (int, error) {
		if strings.HasPrefix(r.URL.Host, "dead") {
			return f(n, r)
		}
		return http.StatusOK, nil
	}
}

// Receivers that do not answer delay no event of another caller, and have few requests at a time.
func TestHanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &receiver{answer: dead(hang)}
		i := start(t, deliverytest.NewDatabase(), to)
		for n := range 2000 {
			i.end("eve", fmt.Sprintf("dead%d.example", n))
		}
		synctest.Wait()
		if n := to.inProgress(); n != 16 {
			t.Errorf("%d requests for one caller", n)
		}
		i.end("ada", "one.example")
		synctest.Wait()
		same(t, "another caller", to.bodies("one.example"), "002 end")
		for caller := range 10 {
			for range 10 {
				i.end(fmt.Sprint("mallory", caller), "dead.example")
			}
		}
		synctest.Wait()
		if n := len(to.bodies("dead.example")); n != 8 {
			t.Errorf("%d requests to one host", n)
		}
		for n := range 200 {
			i.end(fmt.Sprint("trudy", n), fmt.Sprintf("dead%d.example", n))
		}
		synctest.Wait()
		if n := to.inProgress(); n != 64 {
			t.Errorf("%d requests at a time", n)
		}
		if s := delivery.StatsOf(i.Deliverer); s.Lines > 1000 || s.Runs > 1000 {
			t.Errorf("%+v", s)
		}
		i.stop()
	})
}

// A host gets eight requests at once from the runs of one caller, and then one each second, also when they are repeated. The others wait, and all
// are sent. Those of another caller do not wait for them.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var victims atomic.Int64
		d, to := deliverytest.NewDatabase(), &receiver{answer: dead(func(int, *http.Request) (int, error) {
			if victims.Add(1) <= 100 {
				return http.StatusServiceUnavailable, nil
			}
			return http.StatusOK, nil
		})}
		i := start(t, d, to)
		for range 250 {
			i.end("eve", "dead.example")
		}
		synctest.Wait()
		if n := len(to.all()); n != 8 {
			t.Errorf("%d requests at once", n)
		}
		i.end("ada", "dead.example")
		i.end("eve", "one.example")
		synctest.Wait()
		if n := len(to.all()); n != 10 {
			t.Errorf("%d requests, with those of another caller and to another host", n)
		}
		time.Sleep(time.Hour)
		var of []time.Time
		for n, r := range to.all() {
			if strings.Contains(r.url, "dead") && n != 8 && n != 9 {
				of = append(of, r.at)
			}
		}
		if len(of) < 348 || len(of) > 350 || d.Rows() != 0 {
			t.Errorf("%d requests for 250 call-backs of which 100 requests are refused; %d are left", len(of), d.Rows())
		}
		for n := 8; n < len(of); n++ {
			if gap := of[n].Sub(of[n-8]); gap < time.Second {
				t.Fatalf("request %d comes %s after the eighth one before it", n, gap)
			}
		}
		if took := of[len(of)-1].Sub(of[0]); took > 10*time.Minute {
			t.Errorf("they took %s", took)
		}
		if s := delivery.StatsOf(i.Deliverer); s != (delivery.Stats{}) {
			t.Errorf("%+v", s)
		}
		i.stop()
	})
}

// Callers whose receivers are dead take no places of others, neither when their events wait for their turns nor when they wait for hours. Each
// is sent eight times all the same, and not more often.
func TestPlaces(t *testing.T) {
	for name, oneHost := range map[string]bool{"one host": true, "many hosts": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, to := deliverytest.NewDatabase(), &receiver{answer: dead(status(503))}
				i := start(t, d, to)
				all := 600 // more than one owner can have in memory
				if oneHost {
					all = 300
				}
				for n := range all {
					host := "dead"
					if !oneHost {
						host += fmt.Sprint(n)
					}
					i.end(fmt.Sprintf("eve%d", max(n-550, 0)%4), host+".example")
				}
				for n, pause := range []time.Duration{0, 10 * time.Second, 20 * time.Minute, 5 * time.Hour} {
					time.Sleep(pause)
					for of := range 15 {
						i.end("ada", fmt.Sprintf("alive%d.example", of))
					}
					time.Sleep(5 * time.Minute)
					for of := range 15 {
						if got := len(to.bodies(fmt.Sprintf("alive%d.example", of))); got != n+1 {
							t.Errorf("after %s, host %d: %d events of %d", pause, of, got, n+1)
						}
					}
				}
				time.Sleep(24 * time.Hour)
				sent, given := 0, 0
				for _, r := range to.all() {
					if strings.HasPrefix(r.url, "https://dead") {
						sent++
					}
				}
				for _, a := range i.given() {
					if a.GivenUp {
						given++
					}
				}
				if sent != 8*all || given != all || d.Rows() != 0 {
					t.Errorf("%d requests, %d given up, %d left", sent, given, d.Rows())
				}
				i.stop()
			})
		})
	}
}

// Callers that have one principal, as anonymous ones, take no places of each other by a receiver that is sent many.
func TestPlacesOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, to := deliverytest.NewDatabase(), &receiver{answer: dead(hang)}
		i := start(t, d, to)
		for range 1000 {
			i.end("", "dead.example")
		}
		i.end("", "one.example")
		time.Sleep(15 * time.Second)
		same(t, "another host", to.bodies("one.example"), "002 end")
		time.Sleep(2 * time.Hour)
		if n := len(to.bodies("dead.example")); n < 1001 {
			t.Errorf("%d requests", n)
		}
		i.stop()
	})
}

// Of many versions, few are kept, and what a receiver gets is bounded, in order, and ends with the last one.
func TestManyVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, to := deliverytest.NewDatabase(), new(receiver)
		i := start(t, d, to)
		e := i.begin(push, "ada", "one.example", "two.example")
		for range 500 {
			e = i.state(e, ledger.Working)
			if s := delivery.StatsOf(i.Deliverer); s.Versions > 64 {
				t.Fatalf("%+v", s)
			}
		}
		i.state(e, ledger.Completed)
		time.Sleep(10 * time.Second)
		if n := len(to.all()); n < 2 || n > 2*20 {
			t.Errorf("%d requests within 10 s", n)
		}
		time.Sleep(10 * time.Minute)
		got := to.bodies("one.example")
		if len(got) > 80 || got[len(got)-1][:3] != "502" {
			t.Errorf("%d events, the last is %s", len(got), got[len(got)-1])
		}
		if s := delivery.StatsOf(i.Deliverer); s != (delivery.Stats{}) || d.Rows() != 0 {
			t.Errorf("left: %+v, %d", s, d.Rows())
		}
		i.stop()
	})
}

// Versions of many runs that can't be delivered take a bounded amount of memory.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := start(t, deliverytest.NewDatabase(), &receiver{answer: hang})
		large := make([]byte, 200<<10)
		for n := range 600 {
			e := i.begin(push, fmt.Sprint("eve", n%20), fmt.Sprintf("dead%d.example", n))
			next := *e
			next.Notes = large
			i.state(&next, ledger.Completed)
		}
		synctest.Wait()
		if s := delivery.StatsOf(i.Deliverer); s.Held > 33<<20 || s.Versions > 10_000 {
			t.Errorf("%+v", s)
		}
		i.stop()
	})
}
