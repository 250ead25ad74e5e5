package main

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/procfs"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/provider"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/servers"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/statistics"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/wire"
)

// measureAtOnce measures how long calls take that begin at once and whose runs take equally long, by their number, with default limits and
// polling.
func measureAtOnce(b *bench) values {
	takes := time.Duration(provider.Waits[either(b, 0, 1)]) * time.Millisecond
	files := int(min(must(must(procfs.Self()).Limits()).OpenFiles-500, 1<<20)) / 2
	t := table{header: []string{"runs at once", "mean, s", "95 % within, s", "mean after the end, s", "processor time of each, µs", "reverse_proxy, mean, s"}}
	for _, n := range either(b, []int{16, 64}, []int{16, 256, 1000, 4000, 8000}) {
		n = min(n, files) // each call needs two files of Caddy at times
		b.say("atonce: %d runs", n)
		seconds, late, cost, proxied := atOnce(b, n, takes)
		slices.Sort(seconds)
		mean := fmt.Sprintf("%.2f", statistics.Mean(seconds, statistics.Indexes(n)))
		t.add(number(float64(n)), mean, fmt.Sprintf("%.2f", seconds[n*95/100]), fmt.Sprintf("%.2f", late),
			fmt.Sprintf("%.0f", cost*1e6), fmt.Sprintf("%.2f", proxied))
		if n == 8000 {
			b.report.goal(fmt.Sprintf("Mean time of 8,000 calls at once whose runs take %s", takes), "≤ 3.4 s", fmt.Sprintf("%s s (reverse_proxy, without polls: %.2f s)", mean, proxied))
		}
	}
	return values{"table": t.String(), "takes": takes, "learning": learningRuns}
}

// learningRuns is the number of runs from which the bridge learns how long a skill takes, before the measured ones.
const learningRuns = 32

// atOnce makes n calls at once. It returns the time of each, and the means of the time from the end of the run to the answer and
// of the processor time, and then that of as many requests to reverse_proxy which the provider answers when a run would have ended.
func atOnce(b *bench, n int, takes time.Duration) (seconds []float64, late, cost, proxied float64) {
	u := b.StartUpstream()
	defer u.Stop()
	after := provider.After + strconv.Itoa(int(takes.Milliseconds()))
	c := b.StartCaddy(u.BridgeSite("bridge"), u.ProxySite("proxy", after, "1.1"))
	defer c.Stop()
	name := provider.Wait + strconv.Itoa(int(takes.Milliseconds()))
	address, body := c.Addresses["bridge"], call(name, bodies[0].size)
	together := func(n int, address string, do func(i int, connection *wire.Connection) (arrived time.Time, err error)) []float64 {
		l := &load{target: &target{name: name}}
		for range n {
			l.connections = append(l.connections, must(wire.Dial(address)))
		}
		defer l.close()
		times := make([]float64, n)
		check(l.each(time.Now().Add(4*wire.Patience), func(i int, connection *wire.Connection) error {
			start := time.Now()
			arrived, err := do(i, connection)
			times[i] = arrived.Sub(start).Seconds()
			return err
		}))
		return times
	}
	lates := make([]float64, max(n, learningRuns))
	execute := func(i int, connection *wire.Connection) (arrived time.Time, err error) {
		state, err := ask(connection, address, body)
		if err != nil {
			return time.Time{}, err
		}
		if state.Status != "completed" {
			return time.Time{}, fmt.Errorf("the bridge did not wait for the end of a run, which is %s", state.Status)
		}
		lates[i] = state.arrived.Sub(time.Unix(0, state.Output.Ended)).Seconds()
		return state.arrived, nil
	}
	together(learningRuns, address, execute)
	before := must(servers.ProcessorTime([]int{c.Pid()}))
	seconds = together(n, address, execute)
	all := statistics.Indexes(n)
	cost = (must(servers.ProcessorTime([]int{c.Pid()})) - before) / float64(n)
	late = statistics.Mean(lates, all)
	proxied = statistics.Mean(together(n, c.Addresses["proxy"], func(_ int, connection *wire.Connection) (time.Time, error) {
		_, err := connection.Do(wire.Request(http.MethodPost, c.Addresses["proxy"], after, body))
		return time.Now(), err
	}), all)
	return seconds, late, cost, proxied
}
