package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/statistics"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/wire"
)

const (
	openRate        = 2000 // requests per second
	openConnections = 64
)

// quantiles are the reported quantiles of latencies, in percent.
var quantiles = []float64{50, 99, 99.9}

// measureOpen compares latencies at a constant rate.
func measureOpen(b *bench) values {
	targets := b.sides()
	loads := b.loads(targets, bodies[0].size, openConnections)
	rounds, length := either(b, 2, 9), either(b, b.duration/2, b.duration/3)
	found := make([][][]float64, len(loads)) // by target and quantile, of each round
	for i := range found {
		found[i] = make([][]float64, len(quantiles))
	}
	for round := range rounds + 1 {
		b.say("open: round %d of %d", round, rounds)
		for _, i := range b.random.Perm(len(loads)) {
			check(context.Cause(b.Context))
			if round == 0 { // warm-up
				must(loads[i].pace(length / 4))
				continue
			}
			latencies := must(loads[i].pace(length))
			slices.Sort(latencies)
			for q, p := range quantiles {
				found[i][q] = append(found[i][q], statistics.Percentile(latencies, p).Seconds()*1e3)
			}
		}
	}
	alone := slices.IndexFunc(targets, func(t *target) bool { return t.name == upstreamAlone })
	t := table{header: []string{"ms", "p50", "p99", "p99.9"}}
	p99 := map[string]string{}
	for i, l := range loads {
		row := make([]string, 1, 1+len(quantiles))
		row[0] = l.name
		for q := range quantiles {
			e := statistics.Bootstrap(b.random, rounds, func(chosen []int) float64 {
				added := make([]float64, len(chosen))
				for k, round := range chosen {
					added[k] = found[i][q][round]
					if i != alone {
						added[k] -= found[alone][q][round]
					}
				}
				return statistics.Median(added)
			})
			if q == 1 {
				p99[l.name] = e.Format("%.2f")
			}
			verb := "%+.2f"
			if i == alone {
				verb = "%.2f"
			}
			row = append(row, e.Format(verb))
		}
		t.add(row...)
	}
	if len(targets) == 4 {
		t.add("nginx", "not installed", "", "")
	}
	rate := number(openRate)
	b.report.goal("Added p99 at "+rate+" requests a second, ms", "≤ reverse_proxy's: "+p99["reverse_proxy"], p99["bridge"])
	return values{
		"table": t.String(), "rate": rate, "connections": openConnections,
		"rounds": rounds, "length": length.Round(10 * time.Millisecond),
	}
}

// pace sends requests at a constant rate for some time. It returns the time of each answer since the
// scheduled time of its request.
func (l *load) pace(length time.Duration) ([]time.Duration, error) {
	const each = openConnections * time.Second / openRate // between two requests of a connection
	found := make([][]time.Duration, openConnections)
	start := time.Now().Add(10 * time.Millisecond)
	err := l.each(start.Add(length+wire.Patience), func(i int, c *wire.Connection) error {
		first := start.Add(each * time.Duration(i) / openConnections)
		for due := first; due.Before(start.Add(length)); due = due.Add(each) {
			time.Sleep(time.Until(due))
			if err := l.send(c); err != nil {
				return err
			}
			found[i] = append(found[i], time.Since(due))
		}
		return nil
	})
	all := slices.Concat(found...)
	if err == nil && len(all) == 0 {
		err = errors.New("no time for a single request")
	}
	return all, err
}
