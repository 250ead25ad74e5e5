package discovery_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
)

// try makes a request if it may be made.
func try(m *discovery.Misses, host string, n int, well bool) (made bool) {
	return tryOf(m, host, "publisher", n, well)
}

func tryOf(m *discovery.Misses, host, publisher string, n int, well bool) (made bool) {
	end, pause := m.Begin(host, publisher, strconv.Itoa(n), false)
	if pause > 0 {
		return false
	}
	end(well)
	return true
}

// So many URLs that have not failed may fail at once, at each host, and one more when
// time has made up for it; those that land well don't count.
func TestMisses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := discovery.NewMisses(60, 100)
		for n := range 300 {
			if made := try(m, "third", n, n%2 == 1); made != (n < 199) {
				t.Fatalf("%d: %t", n, made)
			}
		}
		_, pause := m.Begin("third", "publisher", "-1", false)
		if pause < 400*time.Millisecond || pause > 1100*time.Millisecond || !try(m, "other", 0, false) {
			t.Errorf("a pause of %s", pause)
		}
		time.Sleep(pause)
		if !try(m, "third", -1, false) || try(m, "third", -2, false) {
			t.Error("want one more after the pause")
		}
		made := 0
		for n := range 600 {
			time.Sleep(time.Second / 10)
			if try(m, "third", 1000+n, false) {
				made++
			}
		}
		if made < 57 || made > 63 {
			t.Errorf("%d more in a minute", made)
		}
		if end, pause := m.Begin("third", "publisher", "kept", true); pause != 0 {
			t.Error("what was there before is not asked for")
		} else {
			end(true)
		}
		unbounded := discovery.NewMisses(0, 0)
		for n := range 100 {
			if !try(unbounded, "third", n%2, false) {
				t.Error("there is a bound")
			}
		}
	})
}

// What is under way counts until it has landed well.
func TestMissesUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := discovery.NewMisses(60, 100)
		var ends []func(bool)
		for n := range 150 {
			if end, pause := m.Begin("third", "publisher", strconv.Itoa(n), false); pause == 0 {
				ends = append(ends, end)
			}
		}
		if len(ends) != 100 {
			t.Fatalf("%d begin at once", len(ends))
		}
		for n, end := range ends {
			end(n >= 10)
		}
		made := 0
		for n := range 200 {
			if try(m, "third", 1000+n, false) {
				made++
			}
		}
		if made != 90 {
			t.Errorf("%d failed, want 90", made)
		}
	})
}

// URLs that fail again and again are left alone, for longer and longer, and take nothing
// from URLs that have not failed.
func TestMissesOfDeadURLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := discovery.NewMisses(60, 100)
		var made [80]int
		total := 0
		for range 3600 {
			for n := range made {
				if try(m, "third", n, false) {
					made[n]++
					total++
				}
			}
			time.Sleep(time.Second)
		}
		if total > 100+60+60*60 || made[0] < 10 || made[0] > 30 {
			t.Errorf("%d requests in an hour, %d for the first", total, made[0])
		}
		if !try(m, "third", 1000, true) {
			t.Error("a URL that has not failed is not asked for")
		}
		time.Sleep(5 * time.Minute)
		if !try(m, "third", 0, true) || !try(m, "third", 0, false) || !try(m, "third", 0, false) || try(m, "third", 0, false) {
			t.Error("what has landed well is known as dead")
		}
		alone := discovery.NewMisses(60, 100)
		for n := range 150 { // as fast as may be
			end, pause := alone.Begin("third", "publisher", "dead", n > 0)
			time.Sleep(pause)
			if pause > 5*time.Minute {
				t.Fatalf("a pause of %s", pause)
			}
			if pause == 0 {
				end(false)
			}
		}
	})
}

// So many requests at once for URLs that have failed are made at a host.
func TestMissesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := discovery.NewMisses(60, 100)
		made := 0
		for range 2 {
			for n := range 90 {
				if try(m, "third", n, false) {
					made++
				}
			}
		}
		if made != 90+60 {
			t.Errorf("%d requests, want 150", made)
		}
	})
}

// However many URLs of some publishers fail at a host, another's are asked for; all
// together have a bound.
func TestMissesOfPublishers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := discovery.NewMisses(60, 100)
		url := 0
		fail := func(publisher, requests int) (made int) {
			for range requests {
				url++
				if tryOf(m, "third", strconv.Itoa(publisher), url, false) {
					made++
				}
			}
			return made
		}
		total := fail(0, 300)
		if total != 100 || !tryOf(m, "third", "honest", 0, false) { // it has failed, and will again
			t.Fatalf("%d of one", total)
		}
		for publisher := range 10 {
			total += fail(publisher, 300)
		}
		if total > 200 {
			t.Errorf("%d of all", total)
		}
		for n := range 600 { // and it goes on
			time.Sleep(time.Second)
			if n > 0 && !tryOf(m, "third", "honest", -n, true) {
				t.Errorf("after %d s, another is not asked for", n)
			}
			if n%60 == 0 && n < 300 && !tryOf(m, "third", "honest", 0, false) {
				t.Errorf("after %d s, what has failed is not asked for again", n)
			}
			for publisher := range 10 {
				total += fail(publisher, 1)
			}
		}
		if total < 200+600 || total > 200+1300 {
			t.Errorf("%d of all in 10 min", total)
		}
	})
}

// Hosts, publishers and URLs without number take a bounded room, and keep no other host
// from being asked. One that was asked in vain more often than others is not forgotten.
func TestMissesOfManyHosts(t *testing.T) {
	hosts := 1200 // more than have a tally
	if longtest.Runs(longtest.Long) {
		hosts = 5000 // and more URLs than are remembered
	}
	synctest.Test(t, func(t *testing.T) {
		m := discovery.NewMisses(60, 100)
		for n := range 300 {
			try(m, "victim", n, false)
		}
		for n := range hosts {
			for i := range 5 {
				tryOf(m, strconv.Itoa(n), strconv.Itoa(i), n, false)
			}
		}
		if m.Tallies() != 1<<12 || m.URLs() > 1<<14 || !try(m, "another", 0, true) || try(m, "victim", 1000, false) {
			t.Errorf("%d tallies, %d URLs", m.Tallies(), m.URLs())
		}
		var ends []func(bool)
		for n := range 4000 {
			if end, pause := m.Begin(strconv.Itoa(n), "publisher", "", false); pause == 0 {
				ends = append(ends, end)
			}
		}
		for _, end := range ends {
			end(true)
		}
		if len(ends) < 2000 || len(ends) > 1<<11 {
			t.Errorf("%d at once", len(ends))
		}
	})
}
