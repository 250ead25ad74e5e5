package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
)

// collector takes traces in, as OTLP over HTTP, and throws them away.
type collector struct {
	server  *http.Server
	address string
	bytes   atomic.Int64
}

func startCollector(ctx context.Context) (*collector, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting a collector of traces: %w", err)
	}
	c := &collector{address: l.Addr().String()}
	c.server = &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body) // what is cut off counts as far as it came
		c.bytes.Add(n)
	})}
	go c.server.Serve(l) //nolint:errcheck // it ends with stop
	return c, nil
}

func (c *collector) stop() { _ = c.server.Close() }

// watchedTarget is a handler with some of what lets an operator see what it does. It
// runs in a process of its own, since the sampler of traces is that of a process.
type watchedTarget struct {
	name    string
	bridge  bool
	level   string // of the log
	sampled string // share of the traces; empty: there is no tracing directive
	goal    string // what its throughput is a goal of; may be empty
}

// watchedTargets begin, for each handler, with the one that its others are compared to.
var watchedTargets = []watchedTarget{
	{"bridge", true, "ERROR", "", ""},
	{"bridge, log", true, "INFO", "", "Requests per second with log and metrics, ratio to without log"},
	{"bridge, log and traces, 1 % sampled", true, "INFO", "0.01", "The same with traces too, of which 1 % are sampled"},
	{"bridge, log and traces, all sampled", true, "INFO", "1", "The same, all sampled"},
	{"reverse_proxy", false, "INFO", "", ""},
	{"reverse_proxy, traces, 1 % sampled", false, "INFO", "0.01", ""},
	{"reverse_proxy, traces, all sampled", false, "INFO", "1", ""},
}

// watched finds what it costs to see what the bridge does.
func (b *bench) watched(ctx context.Context) error {
	u, err := b.startUpstream(ctx)
	if err != nil {
		return err
	}
	defer u.stop()
	traces, err := startCollector(ctx)
	if err != nil {
		return err
	}
	defer traces.stop()
	var loads []*load
	defer func() {
		for _, l := range loads {
			closeAll(l.connections)
		}
	}()
	for _, w := range watchedTargets {
		c, err := b.startWatched(ctx, u, traces, w)
		if err != nil {
			return err
		}
		defer c.stop()
		path := proxyPath
		if w.bridge {
			path = bridgePath
		}
		l, err := newLoad(&target{w.name, c.addresses["site"], path, skillNow, []int{c.pid()}}, bodies[0].size, 32)
		if err != nil {
			return err
		}
		loads = append(loads, l)
	}
	b.say("watched")
	if err := b.compare(ctx, loads, b.slice()); err != nil {
		return err
	}
	if traces.bytes.Load() == 0 && !b.short { // a short run may be over before the first are sent
		return errors.New("no traces have arrived")
	}
	b.report.section("What it costs to watch", `The same, for the bridge in processes of their own: with a log at ERROR, at INFO (a line for each call), and behind Caddy's `+"`tracing`"+` directive with one trace in a
hundred sampled, or all of them, which are sent to a collector (OTLP over HTTP). Metrics are always counted. For comparison, reverse_proxy without and with the same directive: what it loses is what the directive itself costs.
Ratios are to the first row of each handler.`)
	t := table{header: []string{bodies[0].name + ", 32 connections", "requests/s", "ratio", "processor time, µs/request", "ratio"}}
	var off *load
	for i, l := range loads {
		if i == 0 || watchedTargets[i].bridge != watchedTargets[i-1].bridge {
			off = l
		}
		all := l.total(indexes(len(l.slices)))
		rate, cost := b.ratio(l, off, slice.rate), b.ratio(l, off, slice.cost)
		if goal := watchedTargets[i].goal; goal != "" {
			b.report.goal(goal, "≥ 0.9", rate.format("%.2f"))
		}
		t.add(l.name, number(all.rate()), rate.format("%.2f"), strconv.FormatFloat(all.cost()*1e6, 'f', 1, 64), cost.format("%.2f"))
	}
	b.report.table(t)
	return nil
}

func (b *bench) startWatched(ctx context.Context, u *upstream, traces *collector, w watchedTarget) (*caddy, error) {
	s := u.proxySite("site", proxyPath, "1.1")
	if w.bridge {
		s = u.bridgeSite("site")
	}
	environment := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + traces.address, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"}
	if w.sampled != "" {
		s.lines = "tracing\n" + s.lines
		environment = append(environment, "OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG="+w.sampled)
	}
	return b.startCaddyWith(ctx, w.level, environment, s)
}
