package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/procfs"
)

// measurePending measures the memory of a call that waits for its run.
func measurePending(b *bench) values {
	t := table{header: []string{"", "requests that wait", "resident memory of each, KB", "goroutines of each"}}
	// Go's runtime sets the soft limit to the hard one, here and in Caddy.
	files := must(must(procfs.Self()).Limits()).OpenFiles
	affordable := int(min(files-500, 1<<20) / 2) // reverse_proxy needs two connections for each
	few := 0
	for _, h2 := range []bool{false, true} {
		n, version, goal := either(b, 20, 8000), "HTTP/1.1", "≤ 45"
		if h2 {
			n, version, goal = either(b, 210, 20000), "HTTP/2", "≤ 32"
		}
		if !h2 && n > affordable {
			n, few = affordable, affordable
		}
		for _, name := range []string{"bridge", "reverse_proxy"} {
			b.say("pending: %s, %d requests over %s", name, n, version)
			resident, goroutines := b.pendingOf(n, h2, name == "reverse_proxy")
			memory := fmt.Sprintf("%.1f", resident/1000)
			t.add(name+", "+version, number(float64(n)), memory, fmt.Sprintf("%.2f", goroutines))
			if name == "bridge" {
				b.report.goal(fmt.Sprintf("Resident memory of a run that goes on, KB, %s over %s", number(float64(n)), version), goal, memory)
			}
		}
	}
	return values{"table": t.String(), "files": files, "few": few}
}

// pendingOf holds n requests at one target, and returns memory and goroutines per request.
func (b *bench) pendingOf(n int, h2, proxy bool) (resident, goroutines float64) {
	arguments, version := []string{}, "1.1"
	if h2 {
		arguments, version = append(arguments, "-h2c"), "h2c"
	}
	u := b.startUpstream(arguments...)
	s := u.bridgeSite("site", "timeout 10m 10m", fmt.Sprintf("limits {\nruns %d %d\n}", n+100, n+100), "transport http {\nversions "+version+"\n}")
	path, warmPath := bridgePath, bridgePath
	if proxy {
		s, path, warmPath = u.proxySite("site", holdPath, version), holdPath, proxyPath
		s.lines += "\n" + u.proxySite("", proxyPath, version).lines // warm-up
	}
	c := b.startCaddy(s)
	defer c.stop()
	defer u.stop()
	address := c.addresses["site"]
	b.warmUp(&target{name: "warming up", address: address, path: warmPath, skill: skillNow})
	before, _ := b.settled(c, either(b, 100*time.Millisecond, time.Second))
	goroutinesBefore := c.goroutines()

	hold := holdH1
	if h2 {
		hold = holdH2
	}
	next, wait, end := hold(b.ctx, &target{name: "the pending calls", address: address, path: path, skill: skillHold}, n)
	defer end()
	const ahead = 64 // maximum number of requests that have not reached the upstream
	for i := range n {
		check(next(i))
		if i%ahead == ahead-1 || i == n-1 {
			u.reached(b.ctx, i+1)
		}
	}
	samples := make([]float64, either(b, 2, 20))
	for i := range samples {
		b.sleep(500 * time.Millisecond)
		samples[i] = c.residentMemory()
	}
	resident, goroutines = (median(samples)-before)/float64(n), float64(c.goroutines()-goroutinesBefore)/float64(n)
	u.release()
	check(wait())
	return resident, goroutines
}

// warmUp sends some requests.
func (b *bench) warmUp(t *target) {
	l := b.load(t, bodies[0].size, 4)
	check(l.sendAll(50))
	l.close()
}

// holdH1 returns functions that send a request over a new connection, wait for correct answers to all
// n requests, and close the connections.
func holdH1(_ context.Context, t *target, n int) (next func(i int) error, wait func() error, end func()) {
	text := request(http.MethodPost, t.address, t.path, call(t.skill, bodies[0].size))
	l := &load{target: t, request: text, connections: make([]*connection, 0, n)}
	next = func(int) error {
		c, err := dial(t.address)
		if err != nil {
			return err
		}
		l.connections = append(l.connections, c)
		_, err = c.Write(l.request)
		return err
	}
	wait = func() error {
		return l.each(time.Now().Add(2*patience), func(_ int, c *connection) error {
			answer, err := c.answer()
			if err != nil {
				return err
			}
			return t.check(answer)
		})
	}
	return next, wait, l.close
}

// holdH2 is holdH1 with 200 requests per connection.
func holdH2(ctx context.Context, t *target, n int) (next func(i int) error, wait func() error, end func()) {
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
	wait = func() error {
		late := time.AfterFunc(4*patience, cancel)
		defer late.Stop()
		requests.Wait()
		return firstOf(errs)
	}
	end = func() {
		cancel()
		requests.Wait()
		for _, transport := range transports {
			transport.CloseIdleConnections()
		}
	}
	return next, wait, end
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
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("HTTP %d %.300s", resp.StatusCode, answer)
	}
	return errors.Join(err, t.check(answer))
}
