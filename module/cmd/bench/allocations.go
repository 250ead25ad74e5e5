package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// allocations counts what Caddy allocates for a call.
func (b *bench) allocations(ctx context.Context) error {
	u, err := b.startUpstream(ctx)
	if err != nil {
		return err
	}
	defer u.stop()
	c, err := b.startCaddy(ctx, u.proxySite("proxy", proxyPath, "1.1"), u.bridgeSite("bridge", busyPolls...), respondSite("respond"))
	if err != nil {
		return err
	}
	defer c.stop()
	b.say("allocations")
	b.report.section("Allocations", `Of the whole Caddy process, net/http included, for one call of `+bodies[0].name+`, by its memory statistics (`+"`/debug/vars`"+`) before and after several thousand. A poll is the slope again.`)
	at := []int{c.pid()}
	targets := []*target{
		{"reverse_proxy", c.addresses["proxy"], proxyPath, skillNow, at},
		{"respond", c.addresses["respond"], proxyPath, skillNow, at},
		{"bridge, completed at once", c.addresses["bridge"], bridgePath, skillNow, at},
	}
	for _, n := range pollCounts {
		targets = append(targets, &target{fmt.Sprintf("bridge, polls: %d", n), c.addresses["bridge"], bridgePath, skillPoll + strconv.Itoa(n), at})
	}
	t := table{header: []string{"", "allocations", "KiB"}}
	var counts, sizes []float64
	for _, target := range targets {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		each, err := perCall(c, target, either(b, 4, 50))
		if err != nil {
			return fmt.Errorf("%s: %w", target.name, err)
		}
		t.add(target.name, fmt.Sprintf("%.1f", each.Mallocs), fmt.Sprintf("%.1f", each.TotalAlloc/1024))
		counts, sizes = append(counts, each.Mallocs), append(sizes, each.TotalAlloc)
	}
	x := make([]float64, len(pollCounts))
	for i, n := range pollCounts {
		x[i] = float64(n)
	}
	poll := slope(x, counts[3:])
	t.add("each poll", fmt.Sprintf("%.1f", poll), fmt.Sprintf("%.1f", slope(x, sizes[3:])/1024))
	b.report.table(t)
	b.report.goal("Allocations of a call that completes at once, and of a poll", "≤ 135, 40", fmt.Sprintf("%.1f, %.1f", counts[2], poll))
	return nil
}

// perCall has each of some connections send requests, and returns what one costs.
func perCall(c *caddy, t *target, each int) (a allocated, err error) {
	const connections = 64
	l, err := newLoad(t, bodies[0].size, connections)
	if err != nil {
		return a, err
	}
	defer closeAll(l.connections)
	send := func(n int) error {
		errs := make([]error, connections)
		var clients sync.WaitGroup
		for i, connection := range l.connections {
			clients.Go(func() {
				errs[i] = connection.SetDeadline(time.Now().Add(2 * patience))
				for k := 0; k < n && errs[i] == nil; k++ {
					answer, err := connection.do(l.request)
					if errs[i] = err; err == nil {
						errs[i] = l.check(answer)
					}
				}
			})
		}
		clients.Wait()
		return firstOf(errs)
	}
	if err := send(3); err != nil { // connections are opened and pools filled
		return a, err
	}
	before, err := c.allocated()
	if err != nil {
		return a, err
	}
	if err := send(each); err != nil {
		return a, err
	}
	after, err := c.allocated()
	n := float64(connections * each)
	return allocated{Mallocs: (after.Mallocs - before.Mallocs) / n, TotalAlloc: (after.TotalAlloc - before.TotalAlloc) / n}, err
}
