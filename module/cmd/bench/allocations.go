package main

import (
	"context"
	"fmt"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/provider"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/servers"
)

// measureAllocations measures the allocations per call.
func measureAllocations(b *bench) values {
	u := b.StartUpstream()
	c := b.StartCaddy(u.ProxySite("proxy", servers.ProxyPath, "1.1"), u.BridgeSite("bridge", busyPolls), servers.RespondSite("respond"))
	b.say("allocations")
	targets := append([]*target{
		{"reverse_proxy", c.Addresses["proxy"], servers.ProxyPath, provider.Now, nil},
		{"respond", c.Addresses["respond"], servers.ProxyPath, provider.Now, nil},
	}, polled(c.Addresses["bridge"], nil)...)
	t := table{header: []string{"", "allocations", "KiB"}}
	counts, sizes := make([]float64, len(targets)), make([]float64, len(targets))
	for i, target := range targets {
		check(context.Cause(b.Context))
		const connections = 64
		l := b.load(target, bodies[0].size, connections)
		check(l.sendAll(3)) // opens connections and fills pools
		each := either(b, 4, 50)
		before := c.Allocated()
		check(l.sendAll(each))
		after, n := c.Allocated(), float64(connections*each)
		l.close()
		counts[i], sizes[i] = (after.Mallocs-before.Mallocs)/n, (after.TotalAlloc-before.TotalAlloc)/n/1024
		if i <= 3 { // further polls are in the row of each poll
			t.add(target.name, fmt.Sprintf("%.1f", counts[i]), fmt.Sprintf("%.1f", sizes[i]))
		}
	}
	poll := pollSlope(counts[3:])
	t.add("each poll", fmt.Sprintf("%.1f", poll), fmt.Sprintf("%.1f", pollSlope(sizes[3:])))
	b.report.goal("Allocations of a call that completes at once, and of a poll", "≤ 135, 40", fmt.Sprintf("%.1f, %.1f", counts[2], poll))
	return values{"table": t.String()}
}
