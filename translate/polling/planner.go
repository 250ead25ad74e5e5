package polling

import (
	"cmp"
	"math"
	"slices"
	"time"
)

const (
	priorWeight = 2.0   // of the distribution for an unknown skill, in observations
	perOctave   = 8     // times of the grid
	behind      = 0.004 // logarithm: from an execution time to the poll for it; also the least spread of a time
	beyond      = 4     // times the longest execution: the end of the schedule
	longEnough  = 256   // polls; a longer schedule is not refined
	loneSpan    = 0.3   // logarithm: spread of a single execution time
	shortest    = 0.001 // seconds; shorter times count as this
)

// sample is the data for a schedule.
type sample struct {
	times  []float64 // execution times in seconds, oldest first
	recent int       // number of the newest ones that are from after a possible change of the skill
	belief float64   // probability of that change
	first  float64   // latest time of the first poll; 0: any
}

// planner makes schedules, one at a time. It reuses its buffers.
type planner struct {
	buffer     []float64 // for sample.times
	sorted     []float64
	logs       []float64
	edges      []edge
	candidates []candidate
	nodes      []node
	times      []float32
	ended      []float32
}

// edge is a change of the probability density over the logarithm of time.
type edge struct{ at, slope float64 }

// candidate is a possible time of a poll.
type candidate struct {
	at, log     float64
	probability float64 // that a run has ended by this time
}

// node is a candidate or the start of the run, in the dynamic programming.
type node struct {
	at          float64
	probability float64
	moment      float64 // mean execution time of runs that have ended by this time, times their probability
	delay       float64 // mean delay of these runs if this is the first poll, times their probability
	cost        float64 // least cost from this poll on, as if it were the first one
	next        int     // node of the next poll
}

// plan makes the schedule of least cost for a history.
func (p *planner) plan(h *history, price time.Duration) *schedule {
	l := h.sample(p.buffer)
	p.buffer = l.times
	s := &schedule{price: price.Seconds()}
	if len(l.times) == 0 {
		return s
	}
	p.estimate(l)
	p.optimise(s.price, l.first)
	s.times, s.ended = p.best(s.price, beyond*p.sorted[len(p.sorted)-1])
	return s
}

// best returns the polls from the start to the end, and the probabilities that a run has
// ended by then. If the next poll is the next candidate, more candidates could be better:
// then the gap is divided evenly, with Keller's density of polls.
func (p *planner) best(price, end float64) (times, ended []float32) {
	p.times, p.ended = p.times[:0], p.ended[:0]
	last := len(p.nodes) - 1
	for j := 0; ; {
		from, next := &p.nodes[j], p.nodes[j].next
		if next == last || from.at > end {
			return slices.Clone(p.times), slices.Clone(p.ended)
		}
		to := &p.nodes[next]
		parts, gap := 1, to.at-from.at
		left := p.nodes[last].probability - (from.probability+to.probability)/2
		if next == j+1 && left > 0 && len(p.times) < longEnough {
			hazard := (to.probability - from.probability) / left / gap
			most := min(gap/shortestGap.Seconds(), longEnough)
			parts = max(1, int(min(math.Round(gap*math.Sqrt(hazard/(2*price))), most)))
		}
		for k := 1; k <= parts; k++ {
			part := float64(k) / float64(parts)
			p.times = append(p.times, float32(from.at+gap*part))
			p.ended = append(p.ended, float32(from.probability+(to.probability-from.probability)*part))
		}
		j = next
	}
}

// estimate sets the candidates and their probabilities.
func (p *planner) estimate(l sample) {
	times := l.times[len(l.times)-l.recent:]
	older := (1 - l.belief) / (float64(len(l.times)) + priorWeight)
	newer := l.belief / (float64(len(times)) + priorWeight)

	p.sort(l.times)
	end := max(horizon, beyond*p.sorted[len(p.sorted)-1])
	p.choose(end)
	p.spread(older)
	if newer > 0 {
		all := p.sorted
		p.sorted = nil
		p.sort(times)
		p.spread(newer)
		p.sorted = all
	}
	span := math.Log(end / priorStart)
	start := math.Log(priorStart)
	for i := range p.candidates {
		c := &p.candidates[i]
		c.probability += priorWeight * (older + newer) * (c.log - start) / span
	}
}

// sort sets the sorted times and their logarithms.
func (p *planner) sort(times []float64) {
	p.sorted = p.sorted[:0]
	for _, t := range times {
		p.sorted = append(p.sorted, max(t, shortest))
	}
	slices.Sort(p.sorted)
	p.logs = p.logs[:0]
	for _, t := range p.sorted {
		p.logs = append(p.logs, math.Log(t))
	}
}

// choose sets the candidates: the sorted times and a grid, up to the end.
func (p *planner) choose(end float64) {
	const step = math.Ln2 / perOctave
	first := math.Log(shortestGap.Seconds())
	p.candidates = p.candidates[:0]
	i := 0
	for k := 0; ; k++ {
		grid := first + float64(k)*step
		grid = min(grid, math.Log(end))
		for ; i < len(p.logs) && p.logs[i]+behind < grid; i++ {
			if log := p.logs[i] + behind; log > first && (i == 0 || p.logs[i] > p.logs[i-1]) {
				p.candidates = append(p.candidates, candidate{at: math.Exp(log), log: log})
			}
		}
		p.candidates = append(p.candidates, candidate{at: math.Exp(grid), log: grid})
		if grid == math.Log(end) {
			return
		}
	}
}

// spread adds the sorted times to the probabilities of the candidates. Each has the same
// weight and is spread as far as its nearest neighbours.
func (p *planner) spread(weight float64) {
	n := len(p.logs)
	neighbours := min(n-1, 2+int(math.Round(math.Pow(float64(n), 2./3)/2)))
	least := max(behind, loneSpan/float64(n*n))
	p.edges = p.edges[:0]
	from, to := 0, neighbours
	for i, log := range p.logs {
		// The window of the nearest neighbours only moves forward.
		for to+1 < n && (to < i || p.logs[to+1]-log < log-p.logs[from]) {
			from, to = from+1, to+1
		}
		reach := max(least, log-p.logs[from], p.logs[to]-log)
		slope := weight / (2 * reach)
		p.edges = append(p.edges, edge{log - reach, slope}, edge{log + reach, -slope})
	}
	slices.SortFunc(p.edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })

	var mass, slope, at float64
	i := 0
	for k := range p.candidates {
		c := &p.candidates[k]
		for ; i < len(p.edges) && p.edges[i].at <= c.log; i++ {
			mass += slope * (p.edges[i].at - at)
			slope += p.edges[i].slope
			at = p.edges[i].at
		}
		c.probability += mass + slope*(c.log-at)
	}
}

// optimise finds the next poll of least cost for each node, from the last node to the
// first.
func (p *planner) optimise(price, first float64) {
	p.nodes = append(p.nodes[:0], node{})
	for _, c := range p.candidates {
		before := p.nodes[len(p.nodes)-1]
		probability := max(c.probability, before.probability)
		moment := before.moment + (probability-before.probability)*(before.at+c.at)/2
		p.nodes = append(p.nodes, node{at: c.at, probability: probability, moment: moment, delay: c.at*probability - moment})
	}
	last := len(p.nodes) - 1
	end := &p.nodes[last]
	end.next, end.cost = last, end.delay
	earliest := last // the first node that is not too close
	for j := last - 1; j >= 0; j-- {
		from := &p.nodes[j]
		soonest := from.at + shortestGap.Seconds()*(1-1e-9)
		for earliest > j+1 && p.nodes[earliest-1].at >= soonest {
			earliest--
		}
		latest := from.at + max(longestGap.Seconds(), longestPart*from.at)
		if j == 0 && first > 0 {
			latest = min(latest, first)
		}
		latest *= 1 + 1e-9
		// Runs that end between the polls from and to have the mean delay
		// to.delay - to.at*from.probability + from.moment, times their
		// probability. The terms without to are added below.
		best, next := math.Inf(1), last
		for k := earliest; k <= last; k++ {
			to := &p.nodes[k]
			lost := to.at * from.probability
			if to.delay-lost > best || to.at > latest && k > earliest {
				break // the delay only grows with k
			}
			if cost := to.cost - lost; cost < best {
				best, next = cost, k
			}
		}
		from.next = next
		from.cost = from.delay + best + from.moment + price*(end.probability-from.probability)
	}
}
