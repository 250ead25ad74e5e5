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

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/provider"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/servers"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/statistics"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/wire"
)

// bodies are the sizes of requests.
var bodies = []struct {
	name string
	size int
	goal string // name of the goal for the bridge's throughput
}{{"0.3 KiB", 300, "≥ 1.1"}, {"4 KiB", 4 << 10, "≥ 0.95"}, {"64 KiB", 64 << 10, "≥ 0.6"}}

// call returns a request to the bridge of about this size. All targets get the same request. Large
// ones have an argument with many short members, which take longest to parse. All arguments are inputs
// of the skill: there are warnings about others.
func call(skill string, size int) []byte {
	var b strings.Builder
	b.WriteString(`{"jsonrpc":"2.0","id":"req-000042","method":"execute_skill","params":{"name":"bench.` + skill + `","args":{`)
	switch skill {
	case provider.Typical:
		b.WriteString(`"location":"Tokyo","days":5,"units":"metric","include":["temperature","precipitation","wind"]`)
	case provider.Points:
		b.WriteString(`"points":[{"lat":35.68,"lon":139.69}`)
		for i := 0; b.Len() < size-60; i++ {
			b.WriteString(`,{"lat":` + strconv.FormatFloat(35+float64(i)/1000, 'f', -1, 64) + `,"lon":139.69,"label":"place ` + strconv.Itoa(i) + `","tags":["a","b"]}`)
		}
		b.WriteString("]")
	default:
		b.WriteString(`"location":"Tokyo","days":5`)
		if size == 0 {
			break
		}
		b.WriteString(`,"more":{"exact":true`)
		for i := 0; b.Len() < size-60; i++ {
			b.WriteString(`,"item_` + strconv.Itoa(i) + `":{"city":"Kyoto","days":[1,2,3],"exact":true}`)
		}
		b.WriteString("}")
	}
	return []byte(b.String() + "}}}")
}

// base64Call is call with a long text that has no escapes.
func base64Call(skill string, size int) []byte {
	const text = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9Q"
	return bytes.Replace(call(skill, 0), []byte(`"days":5`), []byte(`"days":5,"more":{"image":"`+strings.Repeat(text, size/len(text))+`"}`), 1)
}

// target is a server under measurement.
type target struct {
	name    string
	address string
	path    string
	skill   string
	pids    []int // processes whose processor time counts
}

// request returns a call of about this size.
func (t *target) request(size int) []byte {
	switch t.path {
	case servers.AgentPath:
		return wire.Request(http.MethodPost, t.address, t.path, message(t.skill))
	case servers.ToolsPath:
		return toolRequest(t.address, t.skill)
	}
	return wire.Request(http.MethodPost, t.address, t.path, call(t.skill, size))
}

// check checks the body of an answer with HTTP 200.
func (t *target) check(answer []byte) error {
	output, whole := provider.Output, provider.NowAnswer
	if t.skill == provider.Large {
		output, whole = provider.LargeOutput, provider.LargeAnswer
	}
	var ok bool
	switch t.path {
	case servers.ToolsPath:
		return checkTools(t.skill, answer)
	case servers.AgentPath:
		ok = bytes.Contains(answer, []byte(`"state":"TASK_STATE_COMPLETED"`)) && bytes.Contains(answer, []byte(output))
	case servers.BridgePath:
		ok = bytes.HasPrefix(answer, []byte(`{"jsonrpc":"2.0","id":"req-000042","result":{"status":"completed",`)) && bytes.Contains(answer, []byte(`"output":`+output)) &&
			!bytes.Contains(answer, []byte(`"warnings":`)) // about arguments that the skill does not have
	default:
		ok = string(answer) == whole // the provider's
	}
	if !ok {
		return fmt.Errorf("a wrong answer: %.300s", answer)
	}
	return nil
}

// load is the load of one target.
type load struct {
	*target
	request     []byte
	fresh       func() []byte // returns each request; nil: all are equal
	accept      func(answer []byte) error
	connections []*wire.Connection
	slices      []slice
}

// slice has the results of one or more slices of time.
type slice struct{ answers, elapsed, processor float64 }

func (s slice) rate() float64 { return s.answers / s.elapsed }
func (s slice) cost() float64 { return s.processor / s.answers }

// newLoad opens connections to a target, and sends a first request.
func newLoad(t *target, request []byte, accept func(answer []byte) error, connections int) (*load, error) {
	l := &load{target: t, request: request, accept: accept}
	for range connections {
		c, err := wire.Dial(t.address)
		if err != nil {
			l.close()
			return nil, fmt.Errorf("connecting to %s: %w", t.name, err)
		}
		l.connections = append(l.connections, c)
	}
	first := &load{target: t, connections: l.connections[:1]}
	if err := first.each(time.Now().Add(wire.Patience), func(_ int, c *wire.Connection) error { return l.send(c) }); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *load) close() {
	for _, c := range l.connections {
		_ = c.Close()
	}
}

// load opens connections to a target. They are closed at the end of the section.
func (b *bench) load(t *target, size, connections int) *load {
	return b.loadOf(t, t.request(size), t.check, connections)
}

// loadOf is load with a given request and a check of its answers.
func (b *bench) loadOf(t *target, request []byte, accept func(answer []byte) error, connections int) *load {
	l := must(newLoad(t, request, accept, connections))
	b.AtEnd(l.close)
	return l
}

// loads opens connections to several targets.
func (b *bench) loads(targets []*target, size, connections int) []*load {
	all := make([]*load, len(targets))
	for i, t := range targets {
		all[i] = b.load(t, size, connections)
	}
	return all
}

// each calls do concurrently for all connections.
func (l *load) each(deadline time.Time, do func(i int, c *wire.Connection) error) error {
	errs := make([]error, len(l.connections))
	var clients sync.WaitGroup
	for i, c := range l.connections {
		clients.Go(func() {
			if errs[i] = c.SetDeadline(deadline); errs[i] == nil {
				errs[i] = do(i, c)
			}
		})
	}
	clients.Wait()
	if err := firstOf(errs); err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	return nil
}

// firstOf returns the first error; the others have the same cause.
func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// send sends one request and checks the answer.
func (l *load) send(c *wire.Connection) error {
	request := l.request
	if l.fresh != nil {
		request = l.fresh()
	}
	answer, err := c.Do(request)
	if err != nil {
		return err
	}
	return l.accept(answer)
}

// sendAll sends n requests over each connection.
func (l *load) sendAll(n int) error {
	return l.each(time.Now().Add(2*wire.Patience), func(_ int, c *wire.Connection) (err error) {
		for i := 0; i < n && err == nil; i++ {
			err = l.send(c)
		}
		return err
	})
}

// run sends requests over all connections for some time, each after the answer to the previous one.
// It waits for the last answers.
func (l *load) run(length time.Duration) (s slice, err error) {
	before, err := servers.ProcessorTime(l.pids)
	if err != nil {
		return s, err
	}
	start := time.Now()
	end := start.Add(length)
	answers := make([]int, len(l.connections))
	err = l.each(end.Add(wire.Patience), func(i int, c *wire.Connection) (err error) {
		for err == nil && time.Now().Before(end) {
			err = l.send(c)
			answers[i]++
		}
		return err
	})
	s.elapsed = time.Since(start).Seconds()
	for _, n := range answers {
		s.answers += float64(n)
	}
	after, failed := servers.ProcessorTime(l.pids)
	s.processor = after - before
	return s, errors.Join(failed, err)
}

// slice returns the length of a slice.
func (b *bench) slice() time.Duration { return either(b, 50*time.Millisecond, 300*time.Millisecond) }

// compare loads the targets in turn, in short slices and random order, so that other work of the
// machine affects all of them equally.
func (b *bench) compare(loads []*load, length time.Duration) {
	rounds := either(b, 1, max(3, int(b.duration/length)))
	for round := range rounds + 1 {
		for _, i := range b.random.Perm(len(loads)) {
			check(context.Cause(b.Context))
			s := must(loads[i].run(length))
			if round > 0 { // the first round is a warm-up
				loads[i].slices = append(loads[i].slices, s)
			}
		}
	}
}

// total returns the sum of the slices of some rounds.
func (l *load) total(rounds []int) (t slice) {
	for _, i := range rounds {
		t.answers += l.slices[i].answers
		t.elapsed += l.slices[i].elapsed
		t.processor += l.slices[i].processor
	}
	return t
}

// all returns the sum of all slices.
func (l *load) all() slice { return l.total(statistics.Indexes(len(l.slices))) }

// ratio estimates the ratio of a value of two targets.
func (b *bench) ratio(of, to *load, value func(slice) float64) statistics.Estimate {
	return statistics.Bootstrap(b.random, len(of.slices), func(rounds []int) float64 {
		return value(of.total(rounds)) / value(to.total(rounds))
	})
}

// sides returns the compared targets, reverse_proxy first.
func (b *bench) sides() []*target {
	u := b.StartUpstream()
	c := b.StartCaddy(u.ProxySite("proxy", servers.ProxyPath, "1.1"), u.BridgeSite("bridge"), servers.RespondSite("respond"))
	at := []int{c.Pid()}
	targets := []*target{
		{"reverse_proxy", c.Addresses["proxy"], servers.ProxyPath, provider.Now, at},
		{"bridge", c.Addresses["bridge"], servers.BridgePath, provider.Now, at},
		{"respond", c.Addresses["respond"], servers.ProxyPath, provider.Now, at},
		{upstreamAlone, u.Address, servers.ProxyPath, provider.Now, []int{u.Pid()}},
	}
	if address, pids := b.StartNginx(u); address != "" {
		targets = append(targets, &target{"nginx", address, servers.ProxyPath, provider.Now, pids})
	}
	return targets
}

const upstreamAlone = "upstream alone"
