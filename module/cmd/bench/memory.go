package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// waiting is what some requests take that wait for their runs.
type waiting struct {
	requests   int
	resident   float64 // bytes of each
	goroutines float64 // of each
}

// pending finds what it takes to wait for a run.
func (b *bench) pending(ctx context.Context) error {
	b.report.section("Memory while runs go on", `Many calls at a time, whose runs all go on until they are all let go. What the resident memory of a Caddy that has just been started and has answered a few calls grows by is divided
by their number: everything counts, the connections and the garbage included. The bridge polls these runs all the while, as it would any other. reverse_proxy gets as many requests, which its upstream
holds for as long. HTTP/1.1 has one connection for each request, towards Caddy and from reverse_proxy to the upstream; with HTTP/2 (without TLS, on both sides) there are 200 requests in
each of them towards Caddy. In the end, each call has to be answered with its run's output.`)
	t := table{header: []string{"", "requests that wait", "resident memory of each, KB", "goroutines of each"}}
	files, err := openFiles()
	if err != nil {
		return err
	}
	for _, h2 := range []bool{false, true} {
		n, version, goal := b.pendingH1, "HTTP/1.1", "≤ 45"
		if h2 {
			n, version, goal = b.pendingH2, "HTTP/2", "≤ 32"
		}
		if affordable := (files - 500) / 2; !h2 && n > affordable { // reverse_proxy has two connections for each
			b.report.note(fmt.Sprintf("This machine lets a process open %d files only, which is too few for %d requests over HTTP/1.1 (`ulimit -n`): these are %d.", files, n, affordable))
			n = affordable
		}
		for _, proxy := range []bool{false, true} {
			name := "bridge"
			if proxy {
				name = "reverse_proxy"
			}
			b.say("pending: %s, %d requests over %s", name, n, version)
			w, err := b.pendingOf(ctx, n, h2, proxy)
			if err != nil {
				return fmt.Errorf("%s, %d requests over %s: %w", name, n, version, err)
			}
			t.add(name+", "+version, number(float64(n)), fmt.Sprintf("%.1f", w.resident/1000), fmt.Sprintf("%.2f", w.goroutines))
			if !proxy {
				b.report.goal(fmt.Sprintf("Resident memory of a run that goes on, KB, %s over %s", number(float64(n)), version), goal, fmt.Sprintf("%.1f", w.resident/1000))
			}
		}
	}
	b.report.table(t)
	return nil
}

// pendingOf holds requests at one target.
func (b *bench) pendingOf(ctx context.Context, n int, h2, proxy bool) (w waiting, err error) {
	arguments, version := []string{}, "1.1"
	if h2 {
		arguments, version = append(arguments, "-h2c"), "h2c"
	}
	u, err := b.startUpstream(ctx, arguments...)
	if err != nil {
		return w, err
	}
	defer u.stop()
	s := u.bridgeSite("site", "timeout 10m 10m", fmt.Sprintf("limits {\nruns %d %d\n}", n+100, n+100), "transport http {\nversions "+version+"\n}")
	path := bridgePath
	if proxy {
		s, path = u.proxySite("site", holdPath, version), holdPath
		s.lines += "\n" + u.proxySite("", proxyPath, version).lines // for warming up
	}
	c, err := b.startCaddy(ctx, s)
	if err != nil {
		return w, err
	}
	defer c.stop()

	address := c.addresses["site"]
	warm := &target{name: "warming up", address: address, path: bridgePath, skill: skillNow, pids: []int{c.pid()}}
	if proxy {
		warm.path = proxyPath
	}
	if err := warmUp(warm, 200); err != nil {
		return w, err
	}
	before, _, err := c.settled(ctx, either(b, 100*time.Millisecond, time.Second))
	if err != nil {
		return w, err
	}
	goroutinesBefore, err := c.goroutines()
	if err != nil {
		return w, err
	}

	held, err := hold(ctx, u, &target{name: "the pending calls", address: address, path: path, skill: skillHold}, n, h2)
	defer held.close()
	if err != nil {
		return w, err
	}
	var samples []float64
	for range either(b, 2, 20) {
		if err := sleep(ctx, 500*time.Millisecond); err != nil {
			return w, err
		}
		resident, err := residentMemory(c.pid())
		if err != nil {
			return w, err
		}
		samples = append(samples, resident)
	}
	goroutines, err := c.goroutines()
	if err != nil {
		return w, err
	}
	w = waiting{n, (median(samples) - before) / float64(n), float64(goroutines-goroutinesBefore) / float64(n)}
	if err := u.release(); err != nil {
		return w, err
	}
	return w, held.wait()
}

// warmUp has some requests answered, one after the other.
func warmUp(t *target, requests int) error {
	l, err := newLoad(t, bodies[0].size, 4)
	if err != nil {
		return err
	}
	defer closeAll(l.connections)
	for i := range requests {
		answer, err := l.connections[i%len(l.connections)].do(l.request)
		if err != nil {
			return err
		}
		if err := l.check(answer); err != nil {
			return err
		}
	}
	return nil
}

// holding are requests that were sent and not answered.
type holding struct {
	wait  func() error // for right answers to all of them
	close func()
}

// hold sends requests, and returns when all have come to the upstream.
func hold(ctx context.Context, u *upstream, t *target, n int, h2 bool) (h holding, err error) {
	const ahead = 64 // how many requests are under way to the upstream at a time
	send := holdH1
	if h2 {
		send = holdH2
	}
	next, h := send(ctx, t, n)
	for i := range n {
		if err := next(i); err != nil {
			return h, fmt.Errorf("sending request %d: %w", i+1, err)
		}
		if i%ahead == ahead-1 || i == n-1 {
			if err := u.reached(ctx, i+1); err != nil {
				return h, err
			}
		}
	}
	return h, nil
}

// reached waits until so many runs have started, or requests are held.
func (u *upstream) reached(ctx context.Context, n int) error {
	deadline := time.Now().Add(patience)
	for {
		c, err := u.counts()
		if err != nil {
			return err
		}
		switch {
		case max(c.Runs, c.Held) >= n:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Now().After(deadline):
			return fmt.Errorf("of %d requests, %d have come to the upstream after %s", n, max(c.Runs, c.Held), patience)
		}
		time.Sleep(time.Millisecond)
	}
}

// holdH1 sends each request over a connection of its own.
func holdH1(_ context.Context, t *target, n int) (next func(i int) error, h holding) {
	text := request(http.MethodPost, t.address, t.path, call(t.skill, bodies[0].size))
	connections := make([]*connection, 0, n)
	next = func(int) error {
		c, err := dial(t.address)
		if err != nil {
			return err
		}
		connections = append(connections, c)
		_, err = c.Write(text)
		return err
	}
	h.close = func() { closeAll(connections) }
	h.wait = func() error {
		for _, c := range connections {
			if err := c.SetDeadline(time.Now().Add(2 * patience)); err != nil {
				return err
			}
			answer, err := c.answer()
			if err != nil {
				return err
			}
			if err := t.check(answer); err != nil {
				return err
			}
		}
		return nil
	}
	return next, h
}

// holdH2 sends 200 requests over each connection.
func holdH2(ctx context.Context, t *target, n int) (next func(i int) error, h holding) {
	const streams = 200
	body := call(t.skill, bodies[0].size)
	ctx, cancel := context.WithCancel(ctx)
	transports := make([]*http.Transport, (n+streams-1)/streams)
	for i := range transports {
		transports[i] = &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
		transports[i].Protocols.SetUnencryptedHTTP2(true)
	}
	errs := make([]error, n)
	var requests sync.WaitGroup
	next = func(i int) error {
		requests.Go(func() { errs[i] = t.postH2(ctx, transports[i/streams], body) })
		return nil
	}
	h.close = func() {
		cancel()
		requests.Wait()
		for _, transport := range transports {
			transport.CloseIdleConnections()
		}
	}
	h.wait = func() error {
		ended := make(chan struct{})
		go func() {
			requests.Wait()
			close(ended)
		}()
		select {
		case <-ended:
			return firstOf(errs)
		case <-time.After(4 * patience):
			return errors.New("not all requests were answered when their runs had ended")
		}
	}
	return next, h
}

func (t *target) postH2(ctx context.Context, transport *http.Transport, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+t.address+t.path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("HTTP %d %.300s", resp.StatusCode, answer)
	}
	return t.check(answer)
}

// idle finds what descriptors take that are cached.
func (b *bench) idle(ctx context.Context) error {
	many := either(b, 500, 9990) // an index may have 10,000 skills, and there are some others in it
	wait := either(b, time.Second, 15*time.Second)
	b.say("idle: %d descriptors", many)
	plain, plainHeap, err := b.idleOf(ctx, 0, wait, false)
	if err != nil {
		return fmt.Errorf("a Caddy without the bridge: %w", err)
	}
	fresh, freshHeap, err := b.idleOf(ctx, 0, wait, true)
	if err != nil {
		return fmt.Errorf("a bridge without descriptors: %w", err)
	}
	full, fullHeap, err := b.idleOf(ctx, many, wait, true)
	if err != nil {
		return fmt.Errorf("%d descriptors: %w", many, err)
	}
	b.report.section("Memory at rest", fmt.Sprintf(`Resident memory of a Caddy that has nothing to do, %s after its garbage was collected: of one that has answered 200 requests with `+"`respond`"+`; of one with the bridge that has answered
as many calls of one skill; and of one that has executed each of the skills of an index of %s once, and did so again without asking for a descriptor. The live heap is
what the last collection left; the rest of the difference is room that the runtime keeps for garbage to come (GOGC).`, wait, number(float64(many))))
	t := table{header: []string{"", "resident memory, MB", "more than plain Caddy, MB", "live heap, MB", "more than plain Caddy, MB"}}
	row := func(name string, resident, heap float64) {
		t.add(name, megabytes(resident), megabytes(resident-plain), megabytes(heap), megabytes(heap-plainHeap))
	}
	row("plain Caddy", plain, plainHeap)
	row("bridge, 1 descriptor", fresh, freshHeap)
	row("bridge, "+number(float64(many))+" descriptors", full, fullHeap)
	b.report.table(t)
	b.report.goal(fmt.Sprintf("Memory at rest with %s cached descriptors over plain Caddy, MB", number(float64(many))), "≤ 60", megabytes(full-plain))
	return nil
}

func megabytes(bytes float64) string { return fmt.Sprintf("%.1f", bytes/1e6) }

// idleOf is the memory of a Caddy that has done its work.
func (b *bench) idleOf(ctx context.Context, many int, wait time.Duration, bridge bool) (resident, heap float64, err error) {
	u, err := b.startUpstream(ctx, "-many", strconv.Itoa(many))
	if err != nil {
		return 0, 0, err
	}
	defer u.stop()
	s, path := respondSite("site"), proxyPath
	if bridge {
		s, path = u.bridgeSite("site"), bridgePath
	}
	c, err := b.startCaddy(ctx, s)
	if err != nil {
		return 0, 0, err
	}
	defer c.stop()
	t := &target{name: "the calls", address: c.addresses["site"], path: path, skill: skillNow}
	if err := warmUp(t, 200); err != nil {
		return 0, 0, err
	}
	if many > 0 {
		if err := executeAll(ctx, u, t, many); err != nil {
			return 0, 0, err
		}
	}
	return c.settled(ctx, wait)
}

// executeAll executes each of many skills twice. The second time, their descriptors
// have to be known.
func executeAll(ctx context.Context, u *upstream, t *target, many int) error {
	c, err := dial(t.address)
	if err != nil {
		return err
	}
	defer c.Close()
	var seen [2]int
	for round := range seen {
		for n := range many {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
				return err
			}
			answer, err := c.do(request(http.MethodPost, t.address, t.path, call(skillMany+strconv.Itoa(n), bodies[0].size)))
			if err != nil {
				return err
			}
			if err := t.check(answer); err != nil {
				return err
			}
		}
		counts, err := u.counts()
		if err != nil {
			return err
		}
		seen[round] = counts.Descriptors
	}
	if seen[0] < many || seen[1]-seen[0] > many/100 {
		return fmt.Errorf("%d descriptors were asked for at first, and %d again: they are not all cached", seen[0], seen[1]-seen[0])
	}
	return nil
}
