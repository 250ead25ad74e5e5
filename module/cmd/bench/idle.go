package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/provider"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/servers"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/wire"
)

// measureIdle measures the memory of cached descriptors.
func measureIdle(b *bench) values {
	many := either(b, 500, 9990)
	count := number(float64(many))
	wait := either(b, time.Second, 15*time.Second)
	b.say("idle: %s descriptors", count)
	t := table{header: []string{"", "resident memory, MB", "live heap, MB"}}
	var plain, resident, heap float64
	for i, name := range []string{"plain Caddy", "bridge, 1 descriptor", "bridge, " + count + " descriptors"} {
		skills := 0
		if i == 2 {
			skills = many
		}
		resident, heap = b.idleOf(skills, wait, i > 0)
		if i == 0 {
			plain = resident
		}
		t.add(name, megabytes(resident), megabytes(heap))
	}
	b.report.goal("Memory at rest with "+count+" cached descriptors over plain Caddy, MB", "≤ 60", megabytes(resident-plain))
	return values{"table": t.String(), "count": count, "wait": wait}
}

func megabytes(bytes float64) string { return fmt.Sprintf("%.1f", bytes/1e6) }

// idleOf returns the memory of Caddy after the calls.
func (b *bench) idleOf(many int, wait time.Duration, bridge bool) (resident, heap float64) {
	u := b.StartUpstream("-skills", strconv.Itoa(many+1))
	defer u.Stop()
	s, path := servers.RespondSite("site"), servers.ProxyPath
	if bridge {
		s, path = u.BridgeSite("site"), servers.BridgePath
	}
	c := b.StartCaddy(s)
	defer c.Stop()
	t := &target{name: "the calls", address: c.Addresses["site"], path: path, skill: provider.Now}
	b.warmUp(t)
	b.executeAll(u, t, many)
	return b.settled(c, wait)
}

// executeAll executes each of many skills twice. The second time, their descriptors have to be
// cached.
func (b *bench) executeAll(u *servers.Upstream, t *target, many int) {
	c := must(wire.Dial(t.address))
	defer c.Close()
	var seen [2]int
	for round := range seen {
		for n := range many {
			check(context.Cause(b.Context))
			check(c.SetDeadline(time.Now().Add(wire.Patience)))
			check(t.check(must(c.Do(wire.Request(http.MethodPost, t.address, t.path, call(provider.Many+strconv.Itoa(n), 0))))))
		}
		seen[round] = u.Counts().Descriptors
	}
	if seen[0] < many || seen[1]-seen[0] > many/100 {
		check(fmt.Errorf("%d descriptors were asked for at first, and %d again: they are not all cached", seen[0], seen[1]-seen[0]))
	}
}

// settled returns Caddy's memory when it is idle: after garbage collections, and after a wait in which
// the runtime returns freed memory to the system.
func (b *bench) settled(c *servers.Caddy, wait time.Duration) (resident, heap float64) {
	for range 2 { // the second one frees objects with finalizers and in pools
		c.Get("/debug/pprof/heap?gc=1")
	}
	heap = c.Allocated().HeapAlloc
	b.sleep(wait)
	return c.ResidentMemory(), heap
}
