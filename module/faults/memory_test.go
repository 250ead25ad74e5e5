package faults_test

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// weighed is how many bytes of its heap and stacks a process uses after all garbage
// was collected, and how many goroutines it has.
func weighed(t *testing.T, p *testbed.Process) (size int64, goroutines int) {
	t.Helper()
	a := p.Send(http.MethodGet, p.Admin()+"/debug/pprof/goroutine?debug=1", "")
	found := regexp.MustCompile(`^goroutine profile: total (\d+)`).FindSubmatch(a.Body)
	if a.Err != nil || found == nil {
		t.Fatal(a)
	}
	goroutines, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return p.InUse(), goroutines
}

// R16: a call whose answer comes byte by byte takes little memory: less, with its
// two connections, than Caddy's own reverse_proxy does. (Of the 40 KB that a call
// should take, package net/http needs most for these.)
func TestR16MemoryPerCall(t *testing.T) {
	if raced {
		t.Skip("the race detector has memory of its own")
	}
	calls := 200
	if longtest.Runs(longtest.Minutes) {
		calls = 2000
	}
	provider := hostile.NewProvider(t, hostile.Skill{ID: "acme/drip"}, hostile.Skill{ID: "acme/echo"})
	body := `{"execution_id":"run-1","status":"completed","output":"` + strings.Repeat("a", 100_000) + `"}`
	provider.On("acme/drip", hostile.Invoke, hostile.DripBody(hostile.Every(time.Second), http.StatusOK, body))
	origin := strings.TrimPrefix(provider.URL(), "http://")
	perCall := func(caddyfile, warm, url string) int64 {
		p := testbed.StartProcess(t, testbed.Limits{}, caddyfile)
		at := "http://127.0.0.1:" + p.Port("PORT")
		testbed.NewClient(t, at+warm).Execute("acme.echo", nil)
		before, _ := weighed(t, p)
		leave := crowd(t, at+url, "acme.drip", calls, 1, func() bool { return provider.Hanging() == calls })
		during, _ := weighed(t, p)
		leave()
		testbed.Eventually(t, patience, func() bool { return provider.Hanging() == 0 }, "all requests are cancelled")
		return (during - before) / int64(calls)
	}
	bridge := perCall(withProvider(provider, "timeout 10m", "limits {", "\truns 4000 4000", "}"), "/rpc", "/rpc")
	proxy := perCall("http://127.0.0.1:{$PORT} {\n\treverse_proxy "+origin+"\n}\n",
		strings.TrimPrefix(provider.URLOf("acme/echo", hostile.Invoke), provider.URL()),
		strings.TrimPrefix(provider.URLOf("acme/drip", hostile.Invoke), provider.URL()))
	t.Logf("%d bytes a call, %d with reverse_proxy", bridge, proxy)
	if bridge > proxy {
		t.Errorf("%d bytes a call, and only %d with reverse_proxy", bridge, proxy)
	}
}

// R17: answers that are bombs leave nothing over, and do not make the process
// larger than some answers of the size that is allowed do, since the collector
// lets garbage be as much again as what is in use.
func TestR17MemoryOfBombs(t *testing.T) {
	const limit = 10 << 20
	provider := hostile.NewProvider(t, hostile.Skill{ID: "acme/bomb"}, hostile.Skill{ID: "acme/echo"})
	provider.On("acme/bomb", hostile.Invoke, hostile.Bomb(100<<20))
	p := testbed.StartProcess(t, testbed.Limits{}, withProvider(provider))
	for range 100 {
		want{outcome: "completed"}.check(t, p.Execute("acme.echo", nil))
	}
	before, used := highWater(t, p.PID()), first(weighed(t, p))
	for range 20 {
		want{outcome: "INVALID_PROVIDER_RESPONSE"}.check(t, p.Execute("acme.bomb", nil))
	}
	after, left := highWater(t, p.PID()), first(weighed(t, p))
	t.Logf("%d MiB at most, %d MiB before; %d KiB left over", after>>20, before>>20, (left-used)>>10)
	if left > used+limit/4 {
		t.Errorf("%d KiB are left over", (left-used)>>10)
	}
	if after > before+8*limit && !raced {
		t.Errorf("the process grew from %d MiB to %d MiB", before>>20, after>>20)
	}
}

func first(size int64, _ int) int64 { return size }

// R21: 1,000 clients with ten pending calls each that go at once. Within a minute,
// a process has given back nearly all, and it has no more the next times than after
// the first. (Go's runtime keeps some hundred bytes of each goroutine for ever.)
func TestR21Memory(t *testing.T) {
	longtest.Need(t, longtest.Minutes)
	const clients, callsEach = 1000, 10
	provider := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow"}, hostile.Skill{ID: "acme/echo"})
	provider.Lean()
	provider.On("acme/slow", hostile.Invoke, hostile.Accept(0))
	p := testbed.StartProcess(t, testbed.Limits{}, testbed.Bridge("provider "+provider.URL()+" {", "\tnamespace acme", "}",
		"poll_interval 10m 10m", "timeout 10m", "limits {", "\truns 20000 20000", "}"))
	p.Log.Lean()
	want{outcome: "completed"}.check(t, p.Execute("acme.echo", nil))
	var base int64
	_, goroutines := weighed(t, p)
	for wave := range 3 {
		leave := crowd(t, p.URL, "acme.slow", clients, callsEach, func() bool { return provider.Runs() == (wave+1)*clients*callsEach })
		pending, n := weighed(t, p)
		occupied := p.RSS()
		t.Logf("pending: %d KiB in use, %d goroutines, %d MiB occupied", pending>>10, n, occupied>>20)
		if wave == 0 {
			base = pending / 10
		}
		leave()
		provider.Disconnect() // connections that are kept for the next calls
		var size int64
		testbed.Eventually(t, time.Minute, func() bool {
			size, n = weighed(t, p)
			return n < goroutines+20 && size < base && p.RSS() < occupied/2
		}, "nothing is left over")
		t.Logf("after: %d KiB in use, %d goroutines, %d MiB occupied", size>>10, n, p.RSS()>>20)
		if wave == 0 {
			base = size*12/10 + 8<<20
		}
		want{outcome: "completed"}.check(t, p.Execute("acme.echo", nil))
	}
}
