package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// bodies are the sizes of requests.
var bodies = []struct {
	name string
	size int
}{{"0.3 KiB", 300}, {"4 KiB", 4 << 10}, {"64 KiB", 64 << 10}}

// call is a request to the bridge of about a size; the other targets get the same.
// What makes it large are arguments of many short members, the dearest to read.
func call(skill string, size int) []byte {
	var b strings.Builder
	b.WriteString(`{"jsonrpc":"2.0","id":"req-000042","method":"execute_skill","params":{"name":"bench.` + skill + `","args":{"location":"Tokyo","days":5`)
	for i := 0; b.Len() < size-60; i++ {
		b.WriteString(`,"item_` + strconv.Itoa(i) + `":{"city":"Kyoto","days":[1,2,3],"exact":true}`)
	}
	return []byte(b.String() + "}}}")
}

// target is something that requests are sent to.
type target struct {
	name    string
	address string
	path    string
	skill   string
	pids    []int // whose processor time counts
}

// check tells what is wrong with an answer. That it is HTTP 200 is known.
func (t *target) check(answer []byte) error {
	if t.path == bridgePath && !bytes.HasPrefix(answer, []byte(`{"jsonrpc":"2.0","id":"req-000042","result":{"status":"completed",`)) ||
		!bytes.Contains(answer, []byte(`"output":`+output)) {
		return fmt.Errorf("a wrong answer: %.300s", answer)
	}
	return nil
}

// load is one target under load.
type load struct {
	*target
	request     []byte
	connections []*connection
	slices      []slice
}

// slice is what a target did in one slice of time.
type slice struct{ answers, elapsed, processor float64 }

// newLoad opens connections to a target, and checks its answer in full.
func newLoad(t *target, size, connections int) (*load, error) {
	l := &load{target: t, request: request(http.MethodPost, t.address, t.path, call(t.skill, size))}
	var err error
	if l.connections, err = dialAll(t.address, connections); err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", t.name, err)
	}
	if err := l.first(); err != nil {
		closeAll(l.connections)
		return nil, err
	}
	return l, nil
}

// first has the first request answered.
func (l *load) first() error {
	c := l.connections[0]
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	answer, err := c.do(l.request)
	if err == nil {
		err = l.check(answer)
	}
	if err == nil && l.path != bridgePath && string(answer) != nowAnswer {
		err = fmt.Errorf("an answer that is not the provider's: %.300s", answer)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	return nil
}

// run has all connections send requests for some time, each the next one as soon as
// the last was answered. Those under way at the end are waited for.
func (l *load) run(length time.Duration) (s slice, err error) {
	before, err := processorTime(l.pids)
	if err != nil {
		return s, err
	}
	start := time.Now()
	end := start.Add(length)
	answers, errs := make([]int, len(l.connections)), make([]error, len(l.connections))
	var clients sync.WaitGroup
	for i, c := range l.connections {
		clients.Go(func() { answers[i], errs[i] = l.repeat(c, end) })
	}
	clients.Wait()
	s.elapsed = time.Since(start).Seconds()
	for _, n := range answers {
		s.answers += float64(n)
	}
	after, err := processorTime(l.pids)
	s.processor = after - before
	return s, errors.Join(err, firstOf(errs))
}

// firstOf is the first error: the others say the same.
func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *load) repeat(c *connection, end time.Time) (answers int, err error) {
	if err := c.SetDeadline(end.Add(patience)); err != nil {
		return 0, err
	}
	for time.Now().Before(end) {
		answer, err := c.do(l.request)
		if err == nil {
			err = l.check(answer)
		}
		if err != nil {
			return answers, fmt.Errorf("%s: %w", l.name, err)
		}
		answers++
	}
	return answers, nil
}

// compare loads targets in turn, in short slices and each round in another order, so
// that whatever else the machine does meets all alike.
func (b *bench) compare(ctx context.Context, loads []*load, length time.Duration) error {
	rounds := either(b, 3, max(3, int(b.duration/length)))
	for round := range rounds + 1 {
		for _, i := range b.random.Perm(len(loads)) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			s, err := loads[i].run(length)
			if err != nil {
				return err
			}
			if round > 0 { // the first is for warming up
				loads[i].slices = append(loads[i].slices, s)
			}
		}
	}
	return nil
}

// total adds up the slices of some rounds.
func (l *load) total(rounds []int) (t slice) {
	for _, i := range rounds {
		t.answers += l.slices[i].answers
		t.elapsed += l.slices[i].elapsed
		t.processor += l.slices[i].processor
	}
	return t
}

func (s slice) rate() float64 { return s.answers / s.elapsed }
func (s slice) cost() float64 { return s.processor / s.answers }

// ratio compares two targets.
func (b *bench) ratio(of, to *load, value func(slice) float64) estimate {
	return bootstrap(b.random, len(of.slices), func(rounds []int) float64 {
		return value(of.total(rounds)) / value(to.total(rounds))
	})
}

// side is what requests are sent to, side by side: reverse_proxy comes first.
type side struct {
	targets []*target
	stop    func()
	nginx   bool
}

// startSide starts everything that answers the same request, over HTTP/1.1.
func (b *bench) startSide(ctx context.Context) (*side, error) {
	u, err := b.startUpstream(ctx)
	if err != nil {
		return nil, err
	}
	c, err := b.startCaddy(ctx, u.proxySite("proxy", proxyPath, "1.1"), u.bridgeSite("bridge"), respondSite("respond"))
	if err != nil {
		u.stop()
		return nil, err
	}
	n, address, pids, err := b.startNginx(ctx, u)
	if err != nil {
		c.stop()
		u.stop()
		return nil, err
	}
	at := []int{c.pid()}
	s := &side{nginx: n != nil, targets: []*target{
		{"reverse_proxy", c.addresses["proxy"], proxyPath, skillNow, at},
		{"bridge", c.addresses["bridge"], bridgePath, skillNow, at},
		{"respond", c.addresses["respond"], proxyPath, skillNow, at},
		{"upstream alone", u.address, proxyPath, skillNow, []int{u.pid()}},
	}}
	if s.nginx {
		s.targets = append(s.targets, &target{"nginx", address, proxyPath, skillNow, pids})
	}
	s.stop = func() {
		if n != nil {
			n.stop()
		}
		c.stop()
		u.stop()
	}
	return s, nil
}

// closed compares throughput and processor time.
func (b *bench) closed(ctx context.Context) error {
	s, err := b.startSide(ctx)
	if err != nil {
		return err
	}
	defer s.stop()
	b.report.section("Throughput and processor time", `A fixed number of connections, each of which sends the next request as soon as the last one is answered. All targets get the same
JSON-RPC request (a call of a skill that completes at once) and cause the same single request to the same provider, but for `+"`respond`"+`, which is Caddy's static answer,
and "upstream alone", which is the provider without anything before it. Targets are loaded in turn, in slices of `+strconv.FormatInt(b.slice().Milliseconds(), 10)+` ms, in random order.
Processor time is that of the process between loader and provider (of the provider itself in the row "upstream alone").
The ratios are to `+"`reverse_proxy`"+` with 512 idle connections per host, with 95 % intervals.`)
	for _, body := range bodies {
		for _, connections := range []int{32, 128} {
			b.say("closed: %s, %d connections", body.name, connections)
			if err := b.closedTable(ctx, s, body.name, body.size, connections); err != nil {
				return fmt.Errorf("%s, %d connections: %w", body.name, connections, err)
			}
		}
	}
	return nil
}

// slice is how long a target is loaded at a time.
func (b *bench) slice() time.Duration { return either(b, 50*time.Millisecond, 300*time.Millisecond) }

func (b *bench) closedTable(ctx context.Context, s *side, body string, size, connections int) error {
	var loads []*load
	defer func() {
		for _, l := range loads {
			closeAll(l.connections)
		}
	}()
	for _, t := range s.targets {
		l, err := newLoad(t, size, connections)
		if err != nil {
			return err
		}
		loads = append(loads, l)
	}
	if err := b.compare(ctx, loads, b.slice()); err != nil {
		return err
	}
	t := table{header: []string{body + ", " + strconv.Itoa(connections) + " connections", "requests/s", "ratio", "processor time, µs/request", "ratio"}}
	for _, l := range loads {
		all := l.total(indexes(len(l.slices)))
		rate, cost := b.ratio(l, loads[0], slice.rate), b.ratio(l, loads[0], slice.cost)
		costRatio := cost.format("%.2f")
		if l.name == "upstream alone" {
			costRatio = "" // of another process
		}
		t.add(l.name, number(all.rate()), rate.format("%.2f"), fmt.Sprintf("%.1f", all.cost()*1e6), costRatio)
		if l.name == "bridge" && connections == 32 {
			b.report.goal("Requests per second, ratio to reverse_proxy, "+body, map[int]string{300: "≥ 1.1", 4 << 10: "≥ 0.95", 64 << 10: "≥ 0.28"}[size], rate.format("%.2f"))
		}
	}
	if !s.nginx {
		t.add("nginx", "not installed", "", "", "")
	}
	b.report.table(t)
	return nil
}

func indexes(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// asyncConnections is how many there are for runs that are polled. Much of the time
// they wait for the next poll, so it takes many to keep Caddy busy.
const asyncConnections = 256

// busyPolls are options with which runs are polled as often as the bridge ever does.
var busyPolls = []string{"poll fixed 1ms", "limits {\npolls 1000000\n}"}

// async finds what a poll costs.
func (b *bench) async(ctx context.Context) error {
	u, err := b.startUpstream(ctx)
	if err != nil {
		return err
	}
	defer u.stop()
	c, err := b.startCaddy(ctx, u.proxySite("proxy", proxyPath, "1.1"), u.bridgeSite("bridge", busyPolls...))
	if err != nil {
		return err
	}
	defer c.stop()
	at := []int{c.pid()}
	targets := []*target{
		{"reverse_proxy", c.addresses["proxy"], proxyPath, skillNow, at},
		{"bridge, completed at once", c.addresses["bridge"], bridgePath, skillNow, at},
	}
	for _, n := range pollCounts {
		targets = append(targets, &target{fmt.Sprintf("bridge, polls: %d", n), c.addresses["bridge"], bridgePath, skillPoll + strconv.Itoa(n), at})
	}
	var loads []*load
	defer func() {
		for _, l := range loads {
			closeAll(l.connections)
		}
	}()
	add := func(t *target, size int) error {
		l, err := newLoad(t, size, asyncConnections)
		if err == nil {
			loads = append(loads, l)
		}
		return err
	}
	for _, t := range targets {
		if err := add(t, bodies[0].size); err != nil {
			return err
		}
	}
	for _, body := range bodies[1:] {
		proxy, polled := *targets[0], *targets[2]
		proxy.name, polled.name = proxy.name+", "+body.name, polled.name+", "+body.name
		for _, t := range []*target{&proxy, &polled} {
			if err := add(t, body.size); err != nil {
				return err
			}
		}
	}
	b.say("async")
	if err := b.compare(ctx, loads, either(b, 200*time.Millisecond, time.Second)); err != nil {
		return err
	}
	b.report.section("What a poll costs", fmt.Sprintf(`The same with %d connections and %s, for skills whose runs have completed with the first, second, fourth or eighth request for
their status. The bridge is told to poll as often as it ever does, which is 20 ms after the last answer, and allowed as many polls per second as it likes, so that it is never idle. A poll costs the slope
of the straight line through the processor time per call. Below that, the same with larger requests, as ratios to reverse_proxy with as large ones.`, asyncConnections, bodies[0].name))
	t := table{header: []string{"", "calls/s", "processor time, µs/call", "ratio to a request of reverse_proxy"}}
	proxy := loads[0]
	for i, l := range loads {
		if i == len(targets) {
			small := loads[2:len(targets)]
			poll := bootstrap(b.random, len(loads[0].slices), func(rounds []int) float64 {
				return pollCost(small, rounds) / loads[0].total(rounds).cost()
			})
			t.add("each poll", "", fmt.Sprintf("%.1f", pollCost(small, indexes(len(loads[0].slices)))*1e6), poll.format("%.2f"))
			b.report.goal("Processor time of a poll, ratio to a request of reverse_proxy", "≤ 0.33", poll.format("%.2f"))
		}
		if l.path == proxyPath {
			proxy = l // for those that follow, with as large a request
		}
		all := l.total(indexes(len(l.slices)))
		t.add(l.name, number(all.rate()), fmt.Sprintf("%.1f", all.cost()*1e6), b.ratio(l, proxy, slice.cost).format("%.2f"))
	}
	b.report.table(t)
	return nil
}

// pollCost is the processor time of one more poll.
func pollCost(loads []*load, rounds []int) float64 {
	x, y := make([]float64, len(pollCounts)), make([]float64, len(pollCounts))
	for i, n := range pollCounts {
		x[i], y[i] = float64(n), loads[i].total(rounds).cost()
	}
	return slope(x, y)
}
