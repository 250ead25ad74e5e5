package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/provider"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/servers"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/statistics"
)

// measureClosed compares throughput and processor time with a fixed number of connections.
func measureClosed(b *bench) values {
	targets := b.sides()
	pairs, others := pairTable(), table{header: []string{"requests/s; processor time, µs/request"}}
	for _, l := range targets[2:] {
		others.header = append(others.header, l.name)
	}
	for _, body := range bodies {
		for _, connections := range []int{32, 128} {
			b.say("closed: %s, %d connections", body.name, connections)
			loads := b.loads(targets, body.size, connections)
			b.compare(loads, b.slice())
			name := fmt.Sprintf("%s, %d connections", body.name, connections)
			rate, _ := b.pairRow(&pairs, name, loads[0], loads[1])
			if connections == 32 {
				b.report.goal("Requests/s, ratio, "+body.name, body.goal, rate)
				row := []string{name}
				for _, l := range loads[2:] {
					row = append(row, fmt.Sprintf("%s; %.1f", number(l.all().rate()), l.all().cost()*1e6))
				}
				others.add(row...)
			}
			for _, l := range loads {
				l.close()
			}
		}
	}
	return values{"table": pairs.String(), "others": others.String(), "slice": b.slice()}
}

// row adds the throughput and the processor time of a target to a table, with their ratios to those
// of another target. It returns the ratio of the throughputs.
func (b *bench) row(t *table, l, to *load) (ratio string) {
	all := l.all()
	ratio = b.ratio(l, to, slice.rate).Format("%.2f")
	t.add(l.name, number(all.rate()), ratio, fmt.Sprintf("%.1f", all.cost()*1e6), b.ratio(l, to, slice.cost).Format("%.2f"))
	return ratio
}

// asyncConnections is the number of connections for polled runs, which wait most of the time. Seven polls for each find no end: with more, the bridge's bound of
// 1,000 such polls a second would delay the first runs of each slice.
const asyncConnections = 128

// busyPolls is the option with the shortest polling interval.
const busyPolls = "poll_interval 1ms 1ms"

// polled returns the bridge's skills by number of polls, first the one that completes at once.
func polled(address string, pids []int) []*target {
	targets := make([]*target, 1+len(provider.PollCounts))
	targets[0] = &target{"bridge, completed at once", address, servers.BridgePath, provider.Now, pids}
	for i, n := range provider.PollCounts {
		targets[i+1] = &target{fmt.Sprintf("bridge, polls: %d", n), address, servers.BridgePath, provider.Poll + strconv.Itoa(n), pids}
	}
	return targets
}

// measureAsync measures the cost of a poll.
func measureAsync(b *bench) values {
	u := b.StartUpstream()
	c := b.StartCaddy(u.ProxySite("proxy", servers.ProxyPath, "1.1"), u.BridgeSite("bridge", busyPolls))
	at := []int{c.Pid()}
	proxy := &target{"reverse_proxy", c.Addresses["proxy"], servers.ProxyPath, provider.Now, at}
	targets := append([]*target{proxy}, polled(c.Addresses["bridge"], at)...)
	loads := b.loads(targets, bodies[0].size, asyncConnections)
	b.say("async")
	b.compare(loads, either(b, 100*time.Millisecond, time.Second))

	t := table{header: []string{"", "calls/s", "processor time, µs/call", "ratio to a request of reverse_proxy"}}
	for _, l := range loads {
		all := l.all()
		t.add(l.name, number(all.rate()), fmt.Sprintf("%.1f", all.cost()*1e6), b.ratio(l, loads[0], slice.cost).Format("%.2f"))
	}
	poll := b.pollRatio(loads[2:], loads[0])
	t.add("each poll", "", fmt.Sprintf("%.1f", pollCost(loads[2:], statistics.Indexes(len(loads[0].slices)))*1e6), poll)
	b.report.goal("Processor time of a poll, ratio to a request of reverse_proxy", "≤ 0.42", poll)
	return values{"table": t.String(), "connections": asyncConnections}
}

// pollRatio estimates the ratio of the processor time of a poll to that of a request of another target.
func (b *bench) pollRatio(polls []*load, to *load) string {
	return statistics.Bootstrap(b.random, len(to.slices), func(rounds []int) float64 {
		return pollCost(polls, rounds) / to.total(rounds).cost()
	}).Format("%.2f")
}

// pollCost returns the processor time of one more poll.
func pollCost(loads []*load, rounds []int) float64 {
	costs := make([]float64, len(loads))
	for i, l := range loads {
		costs[i] = l.total(rounds).cost()
	}
	return pollSlope(costs)
}

// watchedTargets are handlers with log, metrics and traces. The first target of each handler is the
// reference of its others. Each runs in its own process, because the trace sampler is global.
var watchedTargets = []struct {
	name    string
	path    string
	level   string // of the log
	sampled string // share of sampled traces; empty: no tracing directive
	goal    string // name of the goal for its throughput; may be empty
}{
	{"bridge", servers.BridgePath, "ERROR", "", ""},
	{"bridge, log", servers.BridgePath, "INFO", "", "Requests per second with log and metrics, ratio to without log"},
	{"bridge, log and traces, 1 % sampled", servers.BridgePath, "INFO", "0.01", "The same with traces too, of which 1 % are sampled"},
	{"bridge, log and traces, all sampled", servers.BridgePath, "INFO", "1", "The same, all sampled"},
	{"reverse_proxy", servers.ProxyPath, "INFO", "", ""},
	{"reverse_proxy, traces, 1 % sampled", servers.ProxyPath, "INFO", "0.01", ""},
	{"reverse_proxy, traces, all sampled", servers.ProxyPath, "INFO", "1", ""},
}

// measureWatched measures the cost of log, metrics and traces.
func measureWatched(b *bench) values {
	u := b.StartUpstream()
	var received atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { // of OTLP over HTTP
		n, _ := io.Copy(io.Discard, r.Body) // incomplete bodies count, too
		received.Add(n)
	}))
	b.AtEnd(collector.CloseClientConnections)
	b.AtEnd(collector.Close)
	targets := make([]*target, len(watchedTargets))
	for i, w := range watchedTargets {
		s := u.ProxySite("site", servers.ProxyPath, "1.1")
		if w.path == servers.BridgePath {
			s = u.BridgeSite("site")
		}
		environment := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"}
		if w.sampled != "" {
			s.Lines = "tracing\n" + s.Lines
			environment = append(environment, "OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG="+w.sampled)
		}
		c := b.StartCaddyWith(w.level, environment, s)
		targets[i] = &target{w.name, c.Addresses["site"], w.path, provider.Now, []int{c.Pid()}}
	}
	loads := b.loads(targets, bodies[0].size, 32)
	b.say("watched")
	b.compare(loads, b.slice())
	if received.Load() == 0 && !b.short { // a short run may end before the first export
		check(errors.New("no traces have arrived"))
	}
	t := table{header: []string{"", "requests/s", "ratio", "processor time, µs/request", "ratio"}}
	var off *load
	for i, l := range loads {
		if off == nil || l.path != off.path {
			off = l
		}
		rate := b.row(&t, l, off)
		if goal := watchedTargets[i].goal; goal != "" {
			b.report.goal(goal, "≥ 0.9", rate)
		}
	}
	return values{"table": t.String()}
}

// pollSlope returns the slope of values over the numbers of polls in provider.PollCounts.
func pollSlope(y []float64) float64 {
	x := make([]float64, len(provider.PollCounts))
	for i, n := range provider.PollCounts {
		x[i] = float64(n)
	}
	return statistics.Slope(x, y)
}
