package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
)

// polling compares ways to find out that a run has ended.
func (b *bench) polling(ctx context.Context) error {
	b.say("polling: simulation")
	b.simulate()
	b.say("polling: over HTTP")
	return b.pollingHTTP(ctx)
}

// waiter polls as the waiters of Amazon's SDKs do, with the delays that they have
// unless an operation says otherwise: at once, and then after a random time of at
// least two seconds and at most that times two to the number of polls, up to two
// minutes (https://smithy.io/2.0/additional-specs/waiters.html#waiter-retries). All
// that may be so many times as fast.
type waiter struct {
	random *rand.Rand
	faster int
}

func (w waiter) Next(p polling.Progress) time.Duration {
	least, most := 2*time.Second/time.Duration(w.faster), 2*time.Minute/time.Duration(w.faster)
	if p.Polls == 0 {
		return 0
	}
	longest := most
	if p.Polls < 7 { // the seventh would be longer
		longest = least << (p.Polls - 1)
	}
	return least + time.Duration(w.random.Float64()*float64(longest-least))
}

// cost is what following a run to its end takes: how much later than it the answer
// comes, in seconds, and how many polls. Or their means.
type cost struct{ delay, polls float64 }

// follow follows a run that takes d, with polls that are answered at once.
func follow(plan polling.Plan, d time.Duration) cost {
	var now time.Duration
	for polls := 1; ; polls++ {
		now += plan.Next(polling.Progress{Elapsed: now, Polls: polls - 1, Remaining: polling.NoDeadline})
		if now >= d {
			return cost{(now - d).Seconds(), float64(polls)}
		}
	}
}

// simulated are the means over many runs. Of a plan that learns there are several,
// each with a history of its own.
func simulated(plan func() polling.Plan, l law, faster float64, histories, runs int, r *rand.Rand) (mean cost) {
	for range histories {
		p := plan()
		for range runs {
			c := follow(p, seconds(l.draw(r)/faster))
			mean.delay += c.delay / float64(histories*runs)
			mean.polls += c.polls / float64(histories*runs)
		}
	}
	return mean
}

// taught returns a function that makes plans which have learned of 128 executions.
func taught(price time.Duration, l law, faster float64, r *rand.Rand) func() polling.Plan {
	return func() polling.Plan {
		var due func()
		learner := polling.NewBook(polling.Config{
			Price: price, Random: r.Float64, Now: func() time.Time { return time.Time{} },
			Run: func(f func()) { due = f }, // once is enough, at the end
		}).Learner(polling.Key{Skill: l.name})
		for range 128 {
			d := seconds(l.draw(r) / faster)
			learner.Done(polling.Completion{Execution: d, Ended: d, Polls: 2})
		}
		due()
		return learner
	}
}

func constant(p polling.Plan) func() polling.Plan { return func() polling.Plan { return p } }

// simulate compares plans over the nine laws.
func (b *bench) simulate() {
	histories, runs := either(b, 2, 20), either(b, 200, 5000)
	b.report.section("Polling: how late the end of a run is noticed", `Simulated, with polls that are answered at once, over nine laws of execution times: the mean delay between the end of a run and the poll that finds it, in milliseconds, and after the
slash the mean number of polls. The bridge has learned of 128 executions, and weighs polls at its default price (20 ms: so much later may an end be noticed if that saves one poll).
Back-off begins with 100 ms and grows by half up to 5 s. The waiter is that of Amazon's SDKs with the usual delays (2 s to 120 s, [Smithy: waiters](https://smithy.io/2.0/additional-specs/waiters.html)).
The last row has geometric means of the ratios to back-off.`)
	names := []string{"every second", "back-off", "SDK waiter", "bridge"}
	t := table{header: append([]string{"execution time"}, names...)}
	var ratios [4]cost // logarithms
	for i, l := range nine {
		r := rand.New(rand.NewPCG(b.seed, uint64(i))) //nolint:gosec // no secret
		plans := []func() polling.Plan{
			constant(polling.Fixed{Interval: time.Second, Random: r.Float64}),
			constant(polling.Backoff{Initial: 100 * time.Millisecond, Longest: 5 * time.Second, Random: r.Float64}),
			constant(waiter{r, 1}),
			taught(polling.DefaultPrice, l, 1, r),
		}
		row, costs := []string{l.name}, make([]cost, len(plans))
		for k, plan := range plans {
			costs[k] = simulated(plan, l, 1, histories, runs, r)
			row = append(row, costs[k].String())
		}
		for k, c := range costs {
			ratios[k].delay += math.Log(c.delay/costs[1].delay) / float64(len(nine))
			ratios[k].polls += math.Log(c.polls/costs[1].polls) / float64(len(nine))
		}
		t.add(row...)
	}
	last := make([]string, 0, 1+len(ratios))
	last = append(last, "ratio to back-off: delay / polls")
	for _, c := range ratios {
		last = append(last, fmt.Sprintf("%.2f / %.2f", math.Exp(c.delay), math.Exp(c.polls)))
	}
	t.add(last...)
	b.report.table(t)
	b.report.goal("Polling, delay and polls as ratios to back-off, simulated", "≤ 0.35, 1.05", fmt.Sprintf("%.2f, %.2f", math.Exp(ratios[3].delay), math.Exp(ratios[3].polls)))

	// With interval p, the number of polls is 1/(1-exp(-p/mean)) in the mean.
	l, mean := nine[3], 2.0
	r := rand.New(rand.NewPCG(b.seed, 100)) //nolint:gosec // no secret
	c := simulated(taught(polling.DefaultPrice, l, 1, r), l, 1, 2*histories, runs, r)
	interval := -mean * math.Log(1-1/c.polls)
	best := interval*c.polls - mean
	b.report.note(fmt.Sprintf("Where the time a run has taken says nothing about the time it will still take (%s), equal intervals are best. At as many polls (%.2f) they would be %.0f ms, for a mean delay of %.0f ms; the bridge takes %.0f ms, %.2f times that.",
		l.name, c.polls, interval*1e3, best*1e3, c.delay*1e3, c.delay/best))
	b.report.goal("Polling, exponential law: delay as a ratio to the best equal intervals", "≤ 1.15", fmt.Sprintf("%.2f", c.delay/best))
}

func (c cost) String() string { return fmt.Sprintf("%.0f / %.1f", c.delay*1e3, c.polls) }

// mode is a way to poll.
type mode struct {
	name   string
	option string                                        // of the bridge, which polls so; empty: the agent does, with get_run
	plan   func(l law, r *rand.Rand) func() polling.Plan // the same in the simulation, or the agent's own
}

// modes poll as in the simulation, and as much more often as runs are quicker.
var modes = []mode{
	{"fixed 250 ms", "poll fixed 250ms", func(_ law, r *rand.Rand) func() polling.Plan {
		return constant(polling.Fixed{Interval: time.Second / quicker, Random: r.Float64})
	}},
	{"back-off 25 ms to 1.25 s", "poll backoff 25ms 1250ms", func(_ law, r *rand.Rand) func() polling.Plan {
		return constant(polling.Backoff{Initial: 100 * time.Millisecond / quicker, Longest: 5 * time.Second / quicker, Random: r.Float64})
	}},
	{"adaptive", "poll adaptive 5ms", func(l law, r *rand.Rand) func() polling.Plan {
		return taught(polling.DefaultPrice/quicker, l, quicker, r)
	}},
	{"SDK waiter, by get_run", "", func(_ law, r *rand.Rand) func() polling.Plan {
		return constant(waiter{r, quicker})
	}},
}

// byAgent reports whether it is the agent who polls.
func (m *mode) byAgent() bool { return m.option == "" }

// manyPolls is an option with which all ways to poll together are not too many for the provider.
const manyPolls = "limits {\npolls 100000\n}"

// stream is one caller after the other of a skill, with one way to poll.
type stream struct {
	mode mode
	law  int

	mu            sync.Mutex
	delays, polls []float64
}

// pollingHTTP measures what simulate simulates.
func (b *bench) pollingHTTP(ctx context.Context) error {
	u, err := b.startUpstream(ctx)
	if err != nil {
		return err
	}
	defer u.stop()
	var sites []site
	for _, m := range modes {
		sites = append(sites, u.bridgeSite(m.name, m.option, manyPolls))
	}
	c, err := b.startCaddy(ctx, sites...)
	if err != nil {
		return err
	}
	defer c.stop()

	const callers = 10
	learning, counted := either(b, 3, 16), either(b, 2, 30)
	var streams []*stream
	var running sync.WaitGroup
	errs := make([]error, len(onTheWire)*len(modes)*callers)
	for _, n := range onTheWire {
		for _, m := range modes {
			streams = append(streams, &stream{mode: m, law: n})
		}
	}
	for i := range errs {
		s := streams[i/callers]
		r := rand.New(rand.NewPCG(b.seed, uint64(300+i))) //nolint:gosec // no secret
		running.Go(func() {
			if err := s.calls(ctx, c.addresses[s.mode.name], r, learning, counted); err != nil {
				errs[i] = fmt.Errorf("%s, %s: %w", s.mode.name, nine[s.law].name, err)
			}
		})
	}
	running.Wait()
	if err := firstOf(errs); err != nil {
		return err
	}

	b.report.section("Polling over HTTP", fmt.Sprintf(`The same for three of the laws, through Caddy and with a real provider, which tells when its runs began and ended. The delay is from the end of a run by the provider's clock to the arrival of the answer at
the agent. So that it does not take hours, everything is %d times as fast as above: execution times, intervals, and the price of a poll (but the 20 ms that the bridge leaves a provider
alone after each answer). %d callers for each law and way to poll, all at the same time; the first %d calls of each are for learning, and the next %d count. Each cell is the mean delay in milliseconds with
its 95 %% interval / the mean number of polls, and below what the simulation makes of the same.
In the last column it is the agent who polls, not the bridge: it calls execute_skill with `+"`wait_ms: 0`"+`, which is answered when the run is accepted, and then get_run with its run token and `+"`wait_ms: 0`"+` by the plan
of the waiter above, until it gets the output. A poll is a get_run there, for each of which the bridge asks the provider once (the two counts are compared, and a difference ends the program). There is nothing to
learn for it: its calls all count, as many of each caller as in the other columns. The limit `+"`polls`"+` is raised, since all of them ask the same provider.`, quicker, callers, learning, counted))
	t := table{header: []string{"execution time"}}
	for _, m := range modes {
		t.header = append(t.header, m.name)
	}
	for i, n := range onTheWire {
		row, below := []string{nine[n].name + ", " + strconv.Itoa(quicker) + " × as fast"}, []string{"simulated"}
		for k, m := range modes {
			s := streams[i*len(modes)+k]
			delay := bootstrap(b.random, len(s.delays), func(runs []int) float64 { return meanOf(s.delays, runs) })
			row = append(row, fmt.Sprintf("%s / %.1f", delay.format("%.0f"), meanOf(s.polls, indexes(len(s.polls)))))
			r := rand.New(rand.NewPCG(b.seed, uint64(200+n))) //nolint:gosec // no secret
			below = append(below, simulated(m.plan(nine[n], r), nine[n], quicker, either(b, 1, 20), either(b, 200, 2000), r).String())
		}
		t.add(row...)
		t.add(below...)
	}
	b.report.table(t)
	return nil
}

// runState is what is looked at in the result of execute_skill or get_run.
type runState struct {
	Status   string `json:"status"`
	RunToken string `json:"run_token"`
	Output   struct {
		Ended int64   `json:"ended"`
		Polls float64 `json:"polls"`
	} `json:"output"`

	arrived time.Time
}

// ask makes one call.
func ask(c *connection, address string, body []byte) (*runState, error) {
	if err := c.SetDeadline(time.Now().Add(2 * patience)); err != nil {
		return nil, err
	}
	text, err := c.do(request(http.MethodPost, address, bridgePath, body))
	if err != nil {
		return nil, err
	}
	state := &runState{arrived: time.Now()}
	answer := struct {
		Result *runState `json:"result"`
	}{state}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Result == nil ||
		(state.Status != "completed" || state.Output.Ended == 0) && (state.Status != "running" || state.RunToken == "") {
		return nil, fmt.Errorf("a wrong answer: %.300s", text)
	}
	return state, nil
}

// withoutWaiting has a call answered without waiting for the run's end.
func withoutWaiting(call []byte) []byte {
	return append(bytes.TrimSuffix(call, []byte("}}")), `,"wait_ms":0}}`...)
}

// getRun is a request for the state of a run.
func getRun(token string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"get_run","params":{"run_token":"%s","wait_ms":0}}`, token)
}

// wait does what an agent does who is told of a run that goes on: it asks until the
// run has ended, by its plan.
func (s *stream) wait(ctx context.Context, c *connection, address string, state *runState, plan polling.Plan) (*runState, error) {
	polls := 0
	for state.Status == "running" {
		if err := sleep(ctx, plan.Next(polling.Progress{Polls: polls, Remaining: polling.NoDeadline})); err != nil {
			return nil, err
		}
		token := state.RunToken
		polls++
		var err error
		if state, err = ask(c, address, getRun(token)); err != nil {
			return nil, err
		}
	}
	if state.Output.Polls != float64(polls) {
		return nil, fmt.Errorf("the provider was asked %.0f times about a run that the agent has asked about %d times", state.Output.Polls, polls)
	}
	return state, nil
}

// calls makes calls one after the other, and notes those that count.
func (s *stream) calls(ctx context.Context, address string, r *rand.Rand, learning, counted int) error {
	c, err := dial(address)
	if err != nil {
		return err
	}
	defer c.Close()
	text := call(skillLaw+strconv.Itoa(s.law), bodies[0].size)
	var plan polling.Plan // of the agent
	if s.mode.byAgent() {
		text, plan, learning = withoutWaiting(text), s.mode.plan(nine[s.law], r)(), 0
	}
	for n := range learning + counted {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		state, err := ask(c, address, text)
		if err == nil && plan != nil {
			state, err = s.wait(ctx, c, address, state, plan)
		}
		if err != nil {
			return err
		}
		if state.Status != "completed" {
			return fmt.Errorf("the bridge did not wait for the end of a run, which is %s", state.Status)
		}
		if n < learning {
			continue
		}
		s.mu.Lock()
		s.delays = append(s.delays, float64(state.arrived.UnixNano()-state.Output.Ended)/1e6)
		s.polls = append(s.polls, state.Output.Polls)
		s.mu.Unlock()
	}
	return nil
}
