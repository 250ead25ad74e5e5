package main

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/provider"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/servers"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/statistics"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/wire"
)

// shape is a kind of calls.
type shape struct {
	name, skill string
	body        []byte
	connections int
	goals       goals
}

// goals are the targets of a shape; they may be empty.
type goals struct {
	rate, cost string // ratios to reverse_proxy
	micros     string // of processor time
}

// fewConnections is the number of connections for messages of more than 64 KiB.
const fewConnections = 8

var (
	typical = shape{"0.3 KiB, an API key and four schemas", provider.Typical, call(provider.Typical, 0), 32, goals{"≥ 1.0", "≤ 1.0", ""}}
	plain64 = shape{"64 KiB of small members, no schema", provider.Now, call(provider.Now, 64<<10), 32, goals{}}
	points4 = points(4, goals{"≥ 0.9", "", "≤ 130"})
)

// points returns calls with a schema, of some size.
func points(kib int, g goals) shape {
	return shape{strconv.Itoa(kib) + " KiB of points, a schema", provider.Points, call(provider.Points, kib<<10), 32, g}
}

// publishedShapes are calls of skills as people publish them.
var publishedShapes = []shape{
	typical, points(1, goals{"", "", "≤ 100"}), points4, points(16, goals{"", "", "≤ 215"}), points(64, goals{"≥ 0.4", "", "≤ 535"}), plain64,
	{"256 KiB of base64", provider.Now, base64Call(provider.Now, 256<<10), fewConnections, goals{"", "", "≤ 800"}},
	{"900 KiB of base64", provider.Now, base64Call(provider.Now, 900<<10), fewConnections, goals{"", "", "≤ 3,500"}},
	{"an output of 1 MB", provider.Large, call(provider.Large, 0), fewConnections, goals{"", "", "≤ 4,000"}},
}

// sitesOf returns sites of reverse_proxy and of the bridge.
func sitesOf(u *servers.Upstream, versions string) []servers.Site {
	return []servers.Site{u.ProxySite("proxy", "/run/*", versions), u.BridgeSite("bridge")}
}

// pair returns the loads of a shape for the sites of sitesOf.
func (b *bench) pair(s *shape, c *servers.Caddy) (proxy, bridge *load) {
	open := func(name, path string) *load {
		t := &target{s.name, c.Addresses[name], path, s.skill, []int{c.Pid()}}
		return b.loadOf(t, wire.Request(http.MethodPost, t.address, path, s.body), t.check, s.connections)
	}
	return open("proxy", "/run/"+s.skill), open("bridge", servers.BridgePath)
}

// pairTable is a table with the figures of the bridge, and their ratios to those of reverse_proxy.
func pairTable() table {
	return table{header: []string{"bridge", "requests/s", "ratio", "processor time, µs/request", "ratio"}}
}

// pairRow adds a row, and returns the ratios.
func (b *bench) pairRow(t *table, name string, proxy, bridge *load) (rate, cost string) {
	rate, cost = b.ratio(bridge, proxy, slice.rate).Format("%.2f"), b.ratio(bridge, proxy, slice.cost).Format("%.2f")
	t.add(name, number(bridge.all().rate()), rate, fmt.Sprintf("%.1f", bridge.all().cost()*1e6), cost)
	return rate, cost
}

// measurePublished measures calls of skills as people publish them.
func measurePublished(b *bench) values {
	u := b.StartUpstream()
	u.Keyed = true
	c := b.StartCaddy(sitesOf(u, "1.1")...)
	t := pairTable()
	for i := range publishedShapes {
		s := &publishedShapes[i]
		b.say("published: %s", s.name)
		proxy, bridge := b.pair(s, c)
		b.compare([]*load{proxy, bridge}, b.slice())
		rate, cost := b.pairRow(&t, s.name, proxy, bridge)
		for _, g := range [][3]string{
			{"Requests/s, ratio, ", s.goals.rate, rate},
			{"Processor time, ratio, ", s.goals.cost, cost},
			{"Processor time, µs, ", s.goals.micros, number(bridge.all().cost() * 1e6)},
		} {
			if g[1] != "" {
				b.report.goal(g[0]+s.name, g[1], g[2])
			}
		}
		proxy.close()
		bridge.close()
	}
	credentialCost(b, u)
	return values{"table": t.String(), "connections": typical.connections, "few": fewConnections, "waiting": asyncConnections}
}

// credentialCost measures what a credential adds to the processor time of a call and of a poll.
func credentialCost(b *bench, u *servers.Upstream) {
	b.say("published: a credential")
	c := b.StartCaddy(u.BridgeSite("bridge", busyPolls))
	loads := make([]*load, 0, 2*(1+len(provider.PollCounts)))
	for _, prefix := range []string{"", provider.Keyed} {
		for _, t := range polled(c.Addresses["bridge"], []int{c.Pid()}) {
			t.skill = prefix + t.skill
			loads = append(loads, b.load(t, bodies[0].size, asyncConnections))
		}
	}
	for range either(b, 1, 3) { // the differences are small
		b.compare(loads, b.slice())
	}
	n := len(loads) / 2
	micros := func(value func(rounds []int, of []*load) float64) string {
		return statistics.Bootstrap(b.random, len(loads[0].slices), func(rounds []int) float64 {
			return 1e6 * (value(rounds, loads[n:]) - value(rounds, loads[:n]))
		}).Format("%.1f")
	}
	call := micros(func(rounds []int, of []*load) float64 { return of[0].total(rounds).cost() })
	poll := micros(func(rounds []int, of []*load) float64 { return pollCost(of[1:], rounds) })
	b.report.goal("Processor time of a call's credential, µs", "≤ 3", call)
	b.report.goal("Processor time of a poll's credential, µs", "≤ 2", poll)
}

// measureSecure measures calls of providers with HTTPS and HTTP/2.
func measureSecure(b *bench) values {
	u := b.StartSecureUpstream()
	u.Keyed = true
	c := b.StartCaddy(append(sitesOf(u, "2"), u.BridgeSite("busy", busyPolls))...)
	t := pairTable()
	shapes := []shape{typical, points4, plain64}
	for i := range shapes {
		s := &shapes[i]
		b.say("https: %s", s.name)
		proxy, bridge := b.pair(s, c)
		b.compare([]*load{proxy, bridge}, b.slice())
		b.pairRow(&t, s.name, proxy, bridge)
		proxy.close()
		bridge.close()
	}
	b.say("https: polls")
	at := []int{c.Pid()}
	loads := b.loads(append([]*target{{"reverse_proxy", c.Addresses["proxy"], servers.ProxyPath, provider.Now, at}}, polled(c.Addresses["busy"], at)...),
		bodies[0].size, asyncConnections)
	b.compare(loads, b.slice())
	return values{"table": t.String(), "poll": b.pollRatio(loads[2:], loads[0]), "connections": asyncConnections}
}

// measureGarbage measures what rarer garbage collections bring.
func measureGarbage(b *bench) values {
	u := b.StartUpstream()
	u.Keyed = true
	percents := []string{"100", "200", "400"}
	loads, caddies := make([]*load, len(percents)), make([]*servers.Caddy, len(percents))
	for i, percent := range percents {
		c := b.StartCaddyWith("INFO", []string{"GOGC=" + percent}, u.BridgeSite("bridge"))
		t := &target{"GOGC " + percent, c.Addresses["bridge"], servers.BridgePath, provider.Typical, []int{c.Pid()}}
		caddies[i], loads[i] = c, b.load(t, 0, 32)
	}
	b.say("garbage")
	b.compare(loads, b.slice())
	t := table{header: []string{"", "requests/s", "ratio", "processor time, µs/request", "ratio", "resident memory, MB"}}
	for i, l := range loads {
		b.row(&t, l, loads[0])
		t.rows[i] = append(t.rows[i], megabytes(caddies[i].ResidentMemory()))
	}
	return values{"table": t.String()}
}
