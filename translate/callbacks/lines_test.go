package callbacks_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// refuse answers 503 for hosts whose names begin with dead.
func refuse(_ int, r *http.Request) (int, error) {
	if strings.HasPrefix(r.URL.Host, "dead") {
		return http.StatusServiceUnavailable, nil
	}
	return http.StatusOK, nil
}

// Callers whose receivers are dead take no places of others, neither when their call-backs wait for their turns nor when they wait for hours. Each
// is sent eight times all the same, and not more often.
func TestPlaces(t *testing.T) {
	for name, oneHost := range map[string]bool{"one host": true, "many hosts": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to := &receiver{answer: refuse}
				i := start(t, provider(), newStore(), to)
				i.Deliverer.Bound(40, 10)
				const each = 25
				for n := range 4 * each {
					host := "dead"
					if !oneHost {
						host += fmt.Sprint(n)
					}
					i.call(fmt.Sprintf("eve%d", n%4), fmt.Sprintf("https://%s.example/%d", host, n), secret(1), "")
				}
				if n := i.Deliverer.Stats().Waiting; n > 40 {
					t.Fatalf("%d call-backs wait in memory", n)
				}
				for n, pause := range []time.Duration{0, 10 * time.Second, 20 * time.Minute, 5 * time.Hour} {
					time.Sleep(pause)
					for of := range 15 {
						i.call("ada", fmt.Sprintf("https://alive%d.example/%d", of, n), secret(1), "")
					}
					time.Sleep(5 * time.Minute)
					for of := range 15 {
						if got := to.to(fmt.Sprintf("alive%d.example", of)); got != n+1 {
							t.Errorf("after %s, host %d: %d call-backs of %d", pause, of, got, n+1)
						}
					}
				}
				time.Sleep(17 * time.Hour)
				tries, given := map[string]int{}, 0
				for _, r := range to.all() {
					if strings.HasPrefix(r.url, "https://dead") {
						tries[r.url]++
					}
				}
				for url, n := range tries {
					if n < 8 || n > 9 { // one can be sent again while the index is read
						t.Errorf("%s: %d requests", url, n)
					}
				}
				for _, a := range i.given() {
					if a.GivenUp {
						given++
					}
				}
				if len(tries) != 4*each || given != 4*each || i.Deliverer.Stats().Waiting != 0 {
					t.Errorf("%d call-backs were sent, %d given up, %+v", len(tries), given, i.Deliverer.Stats())
				}
				i.stop()
			})
		})
	}
}

// A restart changes neither how often a call-back is sent nor when.
func TestCountOverRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s, to := provider(), newStore(), &receiver{answer: refuse}
		first := start(t, p, s, to)
		first.call("ada", "https://dead.example/", secret(1), "")
		time.Sleep(time.Hour) // the next pause is one of two hours
		before := len(to.all())
		first.stop()
		next := start(t, p, s, to)
		time.Sleep(time.Hour)
		if n := len(to.all()); before != 5 || n != before {
			t.Errorf("%d requests, then %d", before, n)
		}
		time.Sleep(21 * time.Hour)
		if all := to.all(); len(all) != 8 {
			t.Errorf("%d requests", len(all))
		} else if gap := all[5].at.Sub(all[4].at); gap < 2*time.Hour || gap > 2*time.Hour+15*time.Minute {
			t.Errorf("the pause over the restart: %s", gap)
		}
		if given := next.given(); len(given) != 3 || !given[2].GivenUp || given[2].Try != 8 {
			t.Errorf("%+v", given)
		}
		next.stop()
	})
}

// Callers that have one principal, as anonymous ones, take no places of each other by a receiver that is sent many.
func TestPlacesOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &receiver{answer: func(n int, r *http.Request) (int, error) {
			if strings.HasPrefix(r.URL.Host, "dead") {
				return hang(n, r)
			}
			return http.StatusOK, nil
		}}
		i := start(t, provider(), newStore(), to)
		i.Deliverer.Bound(1000, 20)
		for n := range 100 {
			i.call("", fmt.Sprintf("https://dead.example/%d", n), secret(1), "")
		}
		i.call("", hook, secret(1), "")
		synctest.Wait()
		if n := to.to("hooks.example"); n != 1 {
			t.Errorf("%d call-backs", n)
		}
		time.Sleep(2 * time.Hour)
		if n := len(to.all()); n < 101 {
			t.Errorf("%d requests", n)
		}
		i.stop()
	})
}
