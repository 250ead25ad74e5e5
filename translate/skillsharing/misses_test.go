package skillsharing_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// A host where as many requests have failed as may in a minute is left alone until time
// has made up for one of them, and no longer.
func TestMisses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := skillsharing.NewMisses(60)
		for n := range 60 {
			if pause := m.Pause("third"); pause != 0 {
				t.Fatalf("after %d: %s", n, pause)
			}
			m.Add("third")
		}
		pause := m.Pause("third")
		if pause < 900*time.Millisecond || pause > 1100*time.Millisecond || m.Pause("other") != 0 {
			t.Errorf("pauses of %s and %s", pause, m.Pause("other"))
		}
		time.Sleep(pause)
		if pause := m.Pause("third"); pause != 0 {
			t.Errorf("a pause of %s after the pause", pause)
		}
		for range 30 { // what was under way
			m.Add("third")
		}
		if pause := m.Pause("third"); pause < 29*time.Second || pause > 31*time.Second {
			t.Errorf("a pause of %s", pause)
		}
		if pause := skillsharing.NewMisses(0).Pause("third"); pause != 0 {
			t.Errorf("without a bound: %s", pause)
		}
	})
}

// Hosts without number take a bounded room: new ones wait until others have recovered.
func TestMissesOfManyHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := skillsharing.NewMisses(60)
		for n := range 5000 {
			if host := strconv.Itoa(n); m.Pause(host) == 0 {
				m.Add(host)
			}
		}
		if n := m.Hosts(); n > 1024 || m.Pause("another") == 0 {
			t.Errorf("%d hosts", n)
		}
		time.Sleep(time.Minute)
		if m.Pause("another") != 0 || m.Hosts() != 0 {
			t.Errorf("%d hosts after a minute", m.Hosts())
		}
	})
}
