package callbacks_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/callbacks"
)

// A host gets eight requests at once from the runs of one caller, and then one each second, also when they are repeated. The others wait, and all
// are sent. Those of another caller do not wait for them.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var victims atomic.Int64
		to := &receiver{answer: func(_ int, r *http.Request) (int, error) {
			if r.URL.Port() == "443" && victims.Add(1) <= 100 {
				return http.StatusServiceUnavailable, nil
			}
			return http.StatusOK, nil
		}}
		i := start(t, provider(), newStore(), to)
		for n := range 250 {
			i.call("eve", fmt.Sprintf("https://Victim.example:443/%d", n), secret(1), "")
		}
		synctest.Wait()
		if n := len(to.all()); n != 8 {
			t.Errorf("%d requests at once", n)
		}
		i.call("ada", "https://victim.example/ada", secret(1), "")
		i.call("eve", hook, secret(1), "")
		synctest.Wait()
		if n := len(to.all()); n != 10 {
			t.Errorf("%d requests, with those of another caller and to another host", n)
		}
		time.Sleep(time.Hour)
		var of []time.Time
		for _, r := range to.all() {
			if r.body[:3] == "eve" && r.url != hook {
				of = append(of, r.at)
			}
		}
		if len(of) != 350 {
			t.Errorf("%d requests for 250 call-backs of which 100 requests are refused", len(of))
		}
		for n := 8; n < len(of); n++ {
			if gap := of[n].Sub(of[n-8]); gap < time.Second {
				t.Fatalf("request %d comes %s after the eighth one before it", n, gap)
			}
			if longest := of[0].Add(time.Duration(n-7) * time.Second); of[n].Before(longest) {
				t.Fatalf("request %d comes after %s", n, of[n].Sub(of[0]))
			}
		}
		if i.Deliverer.Stats() != (callbacks.Stats{}) {
			t.Errorf("%+v", i.Deliverer.Stats())
		}
		i.stop()
	})
}
