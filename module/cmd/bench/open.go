package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	openRate        = 2000 // requests per second
	openConnections = 64
)

// quantiles are those of latencies that are reported, in percent.
var quantiles = []float64{50, 99, 99.9}

// open compares latencies at a constant rate.
func (b *bench) open(ctx context.Context) error {
	s, err := b.startSide(ctx)
	if err != nil {
		return err
	}
	defer s.stop()
	var loads []*load
	defer func() {
		for _, l := range loads {
			closeAll(l.connections)
		}
	}()
	alone := 0 // where the upstream alone is among the targets
	for i, t := range s.targets {
		l, err := newLoad(t, bodies[0].size, openConnections)
		if err != nil {
			return err
		}
		if t.name == "upstream alone" {
			alone = i
		}
		loads = append(loads, l)
	}
	rounds, length := either(b, 2, 9), either(b, b.duration/2, b.duration/3)
	found := make([][][]float64, len(loads)) // by target and quantile, of each round
	for i := range found {
		found[i] = make([][]float64, len(quantiles))
	}
	for round := range rounds + 1 {
		b.say("open: round %d of %d", round, rounds)
		for _, i := range b.random.Perm(len(loads)) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if round == 0 { // for warming up
				if _, err := loads[i].pace(length / 4); err != nil {
					return err
				}
				continue
			}
			latencies, err := loads[i].pace(length)
			if err != nil {
				return err
			}
			slices.Sort(latencies)
			for q, p := range quantiles {
				found[i][q] = append(found[i][q], percentile(latencies, p).Seconds()*1e3)
			}
		}
	}
	b.report.section("Latency at a constant rate", fmt.Sprintf(`%s requests of %s a second over %d connections, whether earlier ones were answered or not. A latency counts from the time at which a request was
due, so that a request which had to wait for a stalled connection is not taken for a fast one. What is shown is how much a target adds to the upstream alone: the median of %d repetitions of %s, in
turn, with its 95 %% interval, in milliseconds. (The row of the upstream itself is what it takes, the loader's own timers included.)`, number(openRate), bodies[0].name, openConnections, rounds, length.Round(10*time.Millisecond)))
	t := table{header: []string{"ms", "p50", "p99", "p99.9"}}
	p99 := map[string]estimate{}
	for i, l := range loads {
		row := []string{l.name}
		for q := range quantiles {
			e := bootstrap(b.random, rounds, func(chosen []int) float64 {
				added := make([]float64, len(chosen))
				for k, round := range chosen {
					added[k] = found[i][q][round]
					if i != alone {
						added[k] -= found[alone][q][round]
					}
				}
				return median(added)
			})
			if q == 1 {
				p99[l.name] = e
			}
			verb := "+%.2f"
			if i == alone {
				verb = "%.2f"
			} else if e.low < 0 {
				verb = "%+.2f"
			}
			row = append(row, e.format(verb))
		}
		t.add(row...)
	}
	if !s.nginx {
		t.add("nginx", "not installed", "", "")
	}
	b.report.table(t)
	b.report.goal(fmt.Sprintf("Added p99 at %s requests a second, ms", number(openRate)), "≤ reverse_proxy's: "+p99["reverse_proxy"].format("%.2f"), p99["bridge"].format("%.2f"))
	return nil
}

// pace sends requests at a constant rate for some time, and returns how long after it
// was due each was answered.
func (l *load) pace(length time.Duration) ([]time.Duration, error) {
	const each = openConnections * time.Second / openRate // between two requests of a connection
	found, errs := make([][]time.Duration, openConnections), make([]error, openConnections)
	start := time.Now().Add(10 * time.Millisecond)
	var clients sync.WaitGroup
	for i, c := range l.connections {
		clients.Go(func() {
			if errs[i] = c.SetDeadline(start.Add(length + patience)); errs[i] != nil {
				return
			}
			first := start.Add(each * time.Duration(i) / openConnections)
			for due := first; due.Before(start.Add(length)); due = due.Add(each) {
				time.Sleep(time.Until(due))
				answer, err := c.do(l.request)
				if err == nil {
					err = l.check(answer)
				}
				if err != nil {
					errs[i] = fmt.Errorf("%s: %w", l.name, err)
					return
				}
				found[i] = append(found[i], time.Since(due))
			}
		})
	}
	clients.Wait()
	if err := firstOf(errs); err != nil {
		return nil, err
	}
	all := slices.Concat(found...)
	if len(all) == 0 {
		return nil, errors.New("no time for a single request")
	}
	return all, nil
}
