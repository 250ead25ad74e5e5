package faults_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// R27: a host that answers nothing but 503 is left alone after 20 failures in a
// row; then one request per cool-down tries it, calls are refused without asking
// it, and once it is well it is used again. Others are not affected. (A 500 proves
// a host alive, so the row's 500 is a 503 here.)
func TestR27Breaker(t *testing.T) {
	leavesNothing(t)
	const failures, cooldown = 20, 300 * time.Millisecond
	p := hostile.NewProvider(t, hostile.Skill{ID: "sick/now"}, hostile.Skill{ID: "sick/500"})
	q := hostile.NewProvider(t, hostile.Skill{ID: "well/now"})
	p.On("sick/now", hostile.Invoke, hostile.Respond(http.StatusServiceUnavailable, ""))
	p.On("sick/500", hostile.Invoke, hostile.Respond(http.StatusInternalServerError, ""))
	c := testbed.StartCaddy(t, testbed.Bridge("circuit_breaker {\n\tcooldown 300ms\n}", offer(p, "sick"), offer(q, "well")))
	for range 2 * failures {
		if a := c.Execute("sick.500", nil); p.Posts(a.Call) != 1 {
			t.Fatalf("a host that answers 500 is left alone: %v", a)
		}
	}
	start := time.Now()
	var calls atomic.Int64
	stop := testbed.Load{Workers: 4, Pace: time.Millisecond, Do: func(int, int) testbed.Answer {
		return c.Execute("sick.now", nil)
	}, Done: func(_, _ int, a testbed.Answer) {
		calls.Add(1)
		if asked := p.Posts(a.Call) > 0; asked == strings.Contains(string(a.Data.Details), `"circuit_breaker"`) {
			t.Errorf("asked: %t, %v", asked, a)
		}
		if a := c.Execute("well.now", nil); a.Outcome() != "completed" {
			t.Errorf("the other provider: %v", a)
		}
	}}.Start(t)
	testbed.Eventually(t, patience, func() bool { return time.Since(start) > 4*cooldown && calls.Load() > 3*failures }, "there are more calls than the breaker lets through")
	report := stop()
	report.Only(t, unreachable)
	// Those that were under way when the breaker opened, and one for each cool-down.
	most := failures + 3 + int(time.Since(start)/cooldown) + 1
	if n := p.Count("sick/now", hostile.Invoke); n < failures || n > most {
		t.Errorf("%d of %d calls went to a host that is down, want %d to %d", n, report.Total, failures, most)
	}
	p.On("sick/now", hostile.Invoke)
	before := p.Count("sick/now", hostile.Invoke)
	testbed.Eventually(t, patience, func() bool { return c.Execute("sick.now", nil).Outcome() == done }, "the host is used again")
	if n := p.Count("sick/now", hostile.Invoke) - before; n != 1 {
		t.Errorf("%d requests until the host was used again, want 1", n)
	}
	testbed.Load{Workers: 4, Calls: 50, Do: func(int, int) testbed.Answer { return c.Execute("sick.now", nil) }}.Run(t).Only(t, done)
}

// R28: when a provider hangs, its calls beyond those that one provider may have
// are refused at once with RATE_LIMITED, and nothing is sent for them. Others keep
// their places.
func TestR28Shed(t *testing.T) {
	leavesNothing(t)
	const places, calls = 50, 64
	p := hostile.NewProvider(t, hostile.Skill{ID: "sick/hangs"})
	q := hostile.NewProvider(t, hostile.Skill{ID: "well/now"}, hostile.Skill{ID: "well/hangs"})
	gate := hostile.NewGate(t)
	p.On("sick/hangs", hostile.Invoke, gate.Then(hostile.Usual()))
	q.On("well/hangs", hostile.Invoke, gate.Then(hostile.Usual()))
	c := testbed.StartCaddy(t, testbed.Bridge("limits {\n\truns 100 50\n}", offer(p, "sick"), offer(q, "well")))
	var refused atomic.Int64
	stop := testbed.Load{
		Workers: calls, Calls: calls,
		Do: func(int, int) testbed.Answer { return c.Execute("sick.hangs", nil) },
		Done: func(_, _ int, a testbed.Answer) {
			if a.Outcome() != "RATE_LIMITED" {
				return
			}
			refused.Add(1)
			if a.Code != -32057 || a.Data.Source != "bridge" || a.Data.Executed != "no" || a.Data.Next != "retry" || a.Data.Retry == nil ||
				a.Data.Retry.SuggestedDelayMS <= 0 || p.Posts(a.Call) != 0 || !strings.Contains(string(a.Data.Details), `"runs_per_provider"`) {
				t.Errorf("%d posts, %v", p.Posts(a.Call), a)
			}
		},
	}.Start(t)
	// At once: while the others still hang.
	testbed.Eventually(t, patience, func() bool { return gate.Waiting() == places && refused.Load() == calls-places }, "50 calls hang, 14 are refused")
	testbed.Load{Workers: 8, Calls: 200, Do: func(int, int) testbed.Answer { return c.Execute("well.now", nil) }}.Run(t).Only(t, done)

	// When no place is left at all, others are refused, too.
	stopOthers := testbed.Load{Workers: places, Calls: places, Do: func(int, int) testbed.Answer { return c.Execute("well.hangs", nil) }}.Start(t)
	testbed.Eventually(t, patience, func() bool { return gate.Waiting() == 2*places }, "100 calls hang")
	if a := c.Execute("well.now", nil); a.Code != -32057 || !strings.Contains(string(a.Data.Details), `"runs"`) {
		t.Errorf("with no place left: %v", a)
	}
	gate.Open()
	stop().Only(t, done, "RATE_LIMITED")
	stopOthers().Only(t, done)
	if a := c.Execute("sick.hangs", nil); a.Outcome() != done {
		t.Errorf("with all places free again: %v", a)
	}
}

// A provider that hangs, refuses connections or answers byte by byte does not slow
// down another, however many call it.
func TestIsolation(t *testing.T) {
	leavesNothing(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "sick/now"})
	q := hostile.NewProvider(t, hostile.Skill{ID: "well/now"})
	for _, other := range []*hostile.Provider{p, q} {
		other.Lean()
	}
	c := testbed.StartCaddy(t, testbed.Bridge("timeout 10m", "circuit_breaker off", offer(p, "sick"), offer(q, "well")))
	c.Log.Lean()
	const window, workers = 300 * time.Millisecond, 64
	// rate is how many calls of the one provider there are in a while, with 64
	// workers calling the other.
	rate := func(hanging bool, sick ...hostile.Action) int {
		p.On("sick/now", hostile.Invoke, sick...)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		client := c.With(testbed.Context(ctx))
		var answered atomic.Int64
		stop := testbed.Load{
			Workers: workers, Pace: 100 * time.Millisecond,
			Do:   func(int, int) testbed.Answer { return client.Execute("sick.now", nil) },
			Done: func(int, int, testbed.Answer) { answered.Add(1) },
		}.Start(t)
		testbed.Eventually(t, patience, func() bool {
			if hanging {
				return p.Hanging() == workers
			}
			return answered.Load() >= workers
		}, "the load is there")
		bounded, end := context.WithTimeout(t.Context(), patience)
		defer end()
		other := c.With(testbed.Context(bounded))
		report := testbed.Load{Workers: 4, For: window, Do: func(int, int) testbed.Answer { return other.Execute("well.now", nil) }}.Run(t)
		report.Only(t, done)
		cancel()
		stop()
		return report.Total
	}
	drip := hostile.DripBody(hostile.Every(20*time.Millisecond), http.StatusOK, strings.Repeat(" ", 10_000))
	for name, sick := range map[string]struct {
		action        hostile.Action
		hanging, down bool
	}{
		"hangs":               {action: hostile.Hang(), hanging: true},
		"hangs in the middle": {action: hostile.HangMidBody(), hanging: true},
		"drips":               {action: drip, hanging: true},
		"refuses":             {action: hostile.Usual(), down: true},
		"resets":              {action: hostile.Reset()},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "hangs in the middle" || name == "refuses" {
				longtest.Need(t, longtest.Long)
			}
			// Somebody else may be at work on the machine during one of the two.
			for attempt := 1; ; attempt++ {
				without := rate(false)
				if sick.down {
					p.Down()
					p.Disconnect()
				}
				with := rate(sick.hanging, sick.action)
				p.Up()
				t.Logf("%d calls within %s while the other provider is sick, and %d while it is well", with, window, without)
				if 3*with >= without {
					return
				}
				if attempt == 5 {
					t.Fatal("a provider that is sick slows down the other")
				}
			}
		})
	}
}

// R29: when half of the invocations fail and the provider consents to three
// attempts, 50 callers together make it only a few more requests than calls.
func TestR29Amplification(t *testing.T) {
	leavesNothing(t)
	const workers, calls = 50, 1000
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/busy", Edit: func(d hostile.Object) {
		d["endpoint"].(hostile.Object)["retry"] = hostile.Object{"max_attempts": 3, "backoff_ms": 10}
	}})
	p.Lean()
	slowly := func(action hostile.Action) hostile.Action {
		return func(x *hostile.Exchange) {
			hostile.Every(5 * time.Millisecond)(x.Gone())
			action(x)
		}
	}
	good, bad := slowly(hostile.Usual()), slowly(hostile.Respond(http.StatusServiceUnavailable, ""))
	p.Script("acme/busy", hostile.Invoke, func(n int) hostile.Action {
		if n%2 == 0 {
			return bad
		}
		return good
	})
	c := testbed.StartCaddy(t, testbed.Bridge("circuit_breaker off", offer(p, "acme")))
	report := testbed.Load{Workers: workers, Calls: calls, Do: func(int, int) testbed.Answer { return c.Execute("acme.busy", nil) }}.Run(t)
	report.Only(t, done, unreachable)
	n := p.Count("acme/busy", hostile.Invoke)
	if n > calls*5/4 || n <= calls {
		t.Errorf("%d requests for %d calls, want more, but a quarter at most", n, calls)
	}
	t.Logf("%d requests for %d calls; %v", n, calls, report)
}

// arrivals counts the requests that a client has written.
func arrivals(ctx context.Context) (context.Context, *atomic.Int64) {
	var written atomic.Int64
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { written.Add(1) }}), &written
}

// R34: a bridge that is asked for many more skills than its cache can keep fails
// no call, and fetches each document once however many wait for it.
func TestR34CacheStorm(t *testing.T) {
	leavesNothing(t)
	const skills, together = 300, 8
	list := make([]hostile.Skill, skills)
	for i := range list {
		list[i].ID = "acme/s" + strconv.Itoa(i)
		list[i].Edit = func(d hostile.Object) { d["description"] = strings.Repeat("x", 4000) }
	}
	p := hostile.NewProvider(t, list...)
	c := testbed.StartCaddy(t, testbed.Bridge("cache {\n\tmax_size 512KiB\n}", offer(p, "acme")))
	fetches := func(i int) int { return p.Count(list[i].ID, hostile.Descriptor) }
	name := func(i int) string { return "acme.s" + strconv.Itoa(i) }
	for round := range 2 {
		testbed.Load{Workers: 16, Calls: skills, Do: func(_, call int) testbed.Answer { return c.Execute(name(call), nil) }}.Run(t).Only(t, done)
		total := 0
		for i := range skills {
			total += fetches(i)
		}
		if total < skills*(round+1)/2 || total > skills*(round+1) {
			t.Errorf("after %d rounds over %d skills, their descriptors were fetched %d times", round+1, skills, total)
		}
		if round == 1 && total < skills*5/4 {
			t.Errorf("%d skills are no storm for this cache: they were fetched %d times in two rounds", skills, total)
		}
	}
	ctx, written := arrivals(t.Context())
	client := c.With(testbed.Context(ctx))
	rounds, fetched := 0, 0
	for i := 0; i < skills; i += 10 {
		gate := hostile.NewGate(t)
		p.On(list[i].ID, hostile.Descriptor, gate.Then(hostile.Usual()))
		before, sent := fetches(i), written.Load()
		stop := testbed.Load{Workers: together, Calls: together, Do: func(int, int) testbed.Answer { return client.Execute(name(i), nil) }}.Start(t)
		testbed.Eventually(t, patience, func() bool { return written.Load() == sent+together }, "the calls are sent")
		gate.Open()
		stop().Only(t, done)
		rounds++
		fetched += fetches(i) - before
	}
	// A call that came so late that the others had been answered may have had to
	// fetch it again, if there was no room for it.
	if fetched > 2*rounds {
		t.Errorf("%d times, %d calls at once fetched a descriptor %d times", rounds, together, fetched)
	}
	onceEach(t, p)
}

// R35: 1,000 callers of a skill that nobody has asked for before cost one request
// for the index and one for the descriptor.
func TestR35ColdStart(t *testing.T) {
	leavesNothing(t)
	const calls = 1000
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"})
	index, descriptor := hostile.NewGate(t), hostile.NewGate(t)
	p.On("", hostile.Index, index.Then(hostile.Usual()))
	p.On("acme/now", hostile.Descriptor, descriptor.Then(hostile.Usual()))
	c := testbed.StartCaddy(t, testbed.Bridge(offer(p, "acme")))
	ctx, written := arrivals(t.Context())
	client := c.With(testbed.Context(ctx))
	stop := testbed.Load{Workers: calls, Calls: calls, Do: func(int, int) testbed.Answer { return client.Execute("acme.now", nil) }}.Start(t)
	testbed.Eventually(t, patience, func() bool { return written.Load() == calls && index.Waiting() > 0 }, "the calls are sent")
	index.Open()
	testbed.Eventually(t, patience, func() bool { return descriptor.Waiting() > 0 }, "the descriptor is asked for")
	descriptor.Open()
	stop().Only(t, done)
	if i, d := p.Count("", hostile.Index), p.Count("acme/now", hostile.Descriptor); i != 1 || d != 1 {
		t.Errorf("%d requests for the index and %d for the descriptor, want one each", i, d)
	}
	onceEach(t, p)
}

// slowClients open connections and send the beginning of a request on each, half
// of them of the headers, half of the body. It returns how many are still open.
func slowClients(t *testing.T, address string, n int) (open func() int) {
	t.Helper()
	var left atomic.Int64
	var readers sync.WaitGroup
	t.Cleanup(readers.Wait) // after the connections are closed
	for i := range n {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() }) // it may be closed
		text := "POST /rpc HTTP/1.1\r\nHost: " + address + "\r\nContent-Type: application/json\r\n"
		if i%2 == 0 {
			text += "Content-Length: 1000\r\n\r\n{\"jsonrpc\":"
		}
		if _, err := conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		left.Add(1)
		readers.Go(func() {
			defer left.Add(-1)
			r := bufio.NewReader(conn)
			for {
				if _, err := r.ReadByte(); err != nil {
					return
				}
			}
		})
	}
	return func() int { return int(left.Load()) }
}

// R37: clients that send their requests byte by byte take no places from others,
// and are cut by the timeouts that Caddy has for them.
func TestR37Slowloris(t *testing.T) {
	leavesNothing(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"})
	c := testbed.StartCaddy(t, "{\n\tservers {\n\t\ttimeouts {\n\t\t\tread_header 1s\n\t\t\tread_body 1s\n\t\t}\n\t}\n}\n"+
		testbed.Bridge("limits {\n\truns 4\n}", offer(p, "acme")))
	open := slowClients(t, "127.0.0.1:"+c.Port("PORT"), 200)
	testbed.Load{Workers: 2, Calls: 200, Do: func(int, int) testbed.Answer { return c.Execute("acme.now", nil) }}.Run(t).Only(t, done)
	testbed.Eventually(t, patience, func() bool { return open() == 0 }, "the slow clients are cut")
	if a := c.Execute("acme.now", nil); a.Outcome() != done {
		t.Error(a)
	}
}

// R37, as large as it says: with 5,000 slow clients and Caddy's defaults, those
// that send headers slowly are cut within a minute.
func TestR37SlowlorisLarge(t *testing.T) {
	longtest.Need(t, longtest.Minutes)
	leavesNothing(t)
	const clients = 5000
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"})
	c := testbed.StartCaddy(t, testbed.Bridge(offer(p, "acme")))
	load := testbed.Load{Workers: 4, Calls: 1000, Do: func(int, int) testbed.Answer { return c.Execute("acme.now", nil) }}
	before := load.Run(t)
	before.Only(t, done)
	open := slowClients(t, "127.0.0.1:"+c.Port("PORT"), clients)
	during := load.Run(t)
	during.Only(t, done)
	t.Logf("without: %v; with: %v", before, during)
	testbed.Eventually(t, 2*time.Minute, func() bool { return open() <= clients/2 }, "those that send headers slowly are cut")
}

// R38: a process that may have 256 files open answers what it can and refuses the
// rest, and goes on when there is room again.
func TestR38OpenFiles(t *testing.T) {
	t.Parallel()
	const calls = 400
	provider := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"}, hostile.Skill{ID: "acme/hangs"})
	provider.On("acme/hangs", hostile.Invoke, hostile.Hang())
	p := testbed.StartProcess(t, testbed.Limits{OpenFiles: 256}, testbed.Bridge(offer(provider, "acme")))
	if a := p.Execute("acme.now", nil); a.Outcome() != done {
		t.Fatal(a)
	}
	ctx, cancel := context.WithCancel(t.Context())
	client := p.With(testbed.Context(ctx))
	var refused atomic.Int64
	stop := testbed.Load{
		Workers: calls, Calls: calls,
		Do:   func(int, int) testbed.Answer { return client.Execute("acme.hangs", nil) },
		Done: func(int, int, testbed.Answer) { refused.Add(1) },
	}.Start(t)
	testbed.Eventually(t, patience, func() bool { return p.OpenFiles() >= 250 && refused.Load() > 0 }, "no file is left, and calls are refused")
	cancel()
	stop().Only(t, "gone", unreachable, "broken")
	p.HTTP.CloseIdleConnections() // the clients leave
	testbed.Eventually(t, patience, func() bool { return unpooled(p.Client).Execute("acme.now", nil).Outcome() == done }, "calls succeed again")
	select {
	case <-p.Exited():
		t.Errorf("the process ended\n%s", p.Log.Text())
	default:
	}
	onceEach(t, provider)
}

// highWater is the most memory that a process has occupied, in bytes.
func highWater(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if size, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.Fields(size)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatalf("no VmHWM of process %d", pid)
	return 0
}

// R39: a process with a memory limit takes no more calls than fit, refuses the
// rest with RATE_LIMITED, and lives. The default of the limits follows the memory
// limit: 800 calls for 100 MiB, of which one provider may have half.
func TestR39Memory(t *testing.T) {
	t.Parallel()
	if raced {
		memory(t, 600)
		return
	}
	memory(t, 1500)
}

// R39, as large as it says.
func TestR39MemoryLarge(t *testing.T) {
	longtest.Need(t, longtest.Minutes)
	memory(t, 5000)
}

func memory(t *testing.T, calls int) {
	t.Helper()
	const places = 400
	provider := hostile.NewProvider(t, hostile.Skill{ID: "acme/hangs"})
	provider.Lean()
	gate := hostile.NewGate(t)
	provider.On("acme/hangs", hostile.Invoke, gate.Then(hostile.Usual()))
	p := testbed.StartProcess(t, testbed.Limits{Env: []string{"GOMEMLIMIT=100MiB"}}, testbed.Bridge("timeout 2m", offer(provider, "acme")))
	var refused atomic.Int64
	pad := strings.Repeat("x", 8<<10)
	stop := testbed.Load{
		Workers: calls, Calls: calls,
		Do: func(int, int) testbed.Answer { return p.Execute("acme.hangs", hostile.Object{"pad": pad}) },
		Done: func(_, _ int, a testbed.Answer) {
			if a.Code == -32057 {
				refused.Add(1)
			}
		},
	}.Start(t)
	testbed.Eventually(t, 2*patience, func() bool { return gate.Waiting() == places && refused.Load() == int64(calls-places) },
		"400 calls are under way, the others are refused")
	gate.Open()
	stop().Only(t, done, "RATE_LIMITED")
	if a := p.Execute("acme.hangs", nil); a.Outcome() != done {
		t.Errorf("afterwards: %v", a)
	}
	peak := highWater(t, p.PID())
	t.Logf("%d calls at once: %d MiB at most", calls, peak>>20)
	if !raced && peak > 256<<20 {
		t.Errorf("the process occupied %d MiB", peak>>20)
	}
}

// R40: a run that takes longer than a minute is waited for, over HTTP/1.1 and
// HTTP/2, whether its invocation is answered at once or at its end. (Caddy 2.11.5
// and 2.11.6 ended such requests after 60 seconds.)
func TestR40LongRuns(t *testing.T) {
	longtest.Need(t, longtest.Minutes)
	durations := []time.Duration{65 * time.Second}
	if longtest.Runs(longtest.Hours) {
		durations = append(durations, 5*time.Minute, time.Hour)
	}
	leavesNothing(t)
	p := hostile.NewProvider(t)
	c := testbed.StartCaddy(t, "{\n\tservers {\n\t\tprotocols h1 h2c\n\t}\n}\n"+testbed.Bridge("timeout 25s 2h", offer(p, "acme")))
	overHTTP2 := c.With()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	overHTTP2.HTTP = &http.Client{Transport: transport}
	defer transport.CloseIdleConnections()
	var ended sync.WaitGroup
	for _, d := range durations {
		gate := hostile.NewGate(t)
		time.AfterFunc(d, gate.Open)
		silent, accepted := fmt.Sprintf("acme/silent-%d", d), fmt.Sprintf("acme/accepted-%d", d)
		p.Publish(hostile.Skill{ID: silent}, hostile.Skill{ID: accepted})
		p.On(silent, hostile.Invoke, gate.Then(hostile.Usual()))
		p.On(accepted, hostile.Invoke, hostile.Accept(0))
		p.On(accepted, hostile.Status, func(x *hostile.Exchange) {
			if gate.Waiting() > 0 { // the other skill still waits for it
				hostile.State("running")(x)
				return
			}
			hostile.Usual()(x)
		})
		for name, client := range map[string]*testbed.Client{"HTTP/1.1": c.Client, "HTTP/2": overHTTP2} {
			for _, id := range []string{silent, accepted} {
				ended.Go(func() {
					a := client.With(testbed.Timeout(d+5*time.Minute)).Execute(strings.Replace(id, "/", ".", 1), nil)
					if a.Outcome() != done || a.Took < d-5*time.Second {
						t.Errorf("%s, %s, after %s: %v", name, id, a.Took, a)
					}
				})
			}
		}
	}
	ended.Wait()
	onceEach(t, p)
}
