package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/provider"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/servers"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/statistics"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
)

// mode is a polling strategy.
type mode struct {
	name   string
	option string  // the bridge's
	plan   planner // the agent's, with get_run; nil: the bridge polls
}

// modes are the strategies of the simulation, with times divided by provider.HTTPSpeed.
var modes = []mode{
	{"fixed 250 ms", "poll_interval 250ms 250ms", nil},
	{"back-off 25 ms to 1.25 s", "poll_interval 25ms 1250ms", nil},
	{"adaptive", "", nil},
	{"SDK waiter, by get_run", "", sdkWaiter},
}

// stream makes calls of a skill one after the other, with one polling strategy.
type stream struct {
	mode mode
	law  int

	mu            sync.Mutex
	delays, polls []float64
}

// pollingHTTP measures over HTTP what simulate simulates.
func pollingHTTP(b *bench, v values) {
	u := b.StartUpstream()
	sites := make([]servers.Site, len(modes))
	for i, m := range modes {
		sites[i] = u.BridgeSite(m.name, m.option)
	}
	c := b.StartCaddy(sites...)

	const callers = 10
	learning, counted := either(b, 1, 16), either(b, 1, 30)
	streams := make([]*stream, 0, len(provider.HTTPLaws)*len(modes))
	for _, n := range provider.HTTPLaws {
		for _, m := range modes {
			streams = append(streams, &stream{mode: m, law: n})
		}
	}
	errs := make([]error, len(streams)*callers)
	var running sync.WaitGroup
	for i := range errs {
		s := streams[i/callers]
		r := rand.New(rand.NewPCG(seed, uint64(300+i))) //nolint:gosec // no secret
		running.Go(func() {
			if err := s.calls(b.Context, c.Addresses[s.mode.name], r, learning, counted); err != nil {
				errs[i] = fmt.Errorf("%s, %s: %w", s.mode.name, provider.Laws[s.law].Name, err)
			}
		})
	}
	running.Wait()
	check(firstOf(errs))

	t := table{header: []string{"execution time"}}
	for _, m := range modes {
		t.header = append(t.header, m.name)
	}
	for i, n := range provider.HTTPLaws {
		row := make([]string, 1+len(modes))
		row[0] = provider.Laws[n].Name
		for k := range modes {
			s := streams[i*len(modes)+k]
			delay := statistics.Bootstrap(b.random, len(s.delays), func(runs []int) float64 { return statistics.Mean(s.delays, runs) })
			row[k+1] = fmt.Sprintf("%s / %.1f", delay.Format("%.0f"), statistics.Mean(s.polls, statistics.Indexes(len(s.polls))))
		}
		t.add(row...)
	}
	v["http"], v["httpSpeed"], v["callers"], v["learning"], v["counted"] = t.String(), provider.HTTPSpeed, callers, learning, counted
}

// runState has the used members of a result of execute_skill or get_run.
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
func ask(c *wire.Connection, address string, body []byte) (*runState, error) {
	if err := c.SetDeadline(time.Now().Add(2 * wire.Patience)); err != nil {
		return nil, err
	}
	text, err := c.Do(wire.Request(http.MethodPost, address, servers.BridgePath, body))
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

// withoutWaiting adds wait_ms 0 to a call.
func withoutWaiting(call []byte) []byte {
	return append(bytes.TrimSuffix(call, []byte("}}")), `,"wait_ms":0}}`...)
}

// getRun returns a request for the state of a run.
func getRun(token string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"get_run","params":{"run_token":"%s","wait_ms":0}}`, token)
}

// wait polls a run with get_run until it has ended, like an agent, with a plan.
func (s *stream) wait(ctx context.Context, c *wire.Connection, address string, state *runState, plan polling.Plan) (*runState, error) {
	polls := 0
	for state.Status == "running" {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(plan.Next(polling.Progress{Polls: polls, Remaining: polling.NoDeadline})):
		}
		polls++
		var err error
		if state, err = ask(c, address, getRun(state.RunToken)); err != nil {
			return nil, err
		}
	}
	if state.Output.Polls != float64(polls) {
		return nil, fmt.Errorf("the provider was asked %.0f times about a run that the agent has asked about %d times", state.Output.Polls, polls)
	}
	return state, nil
}

// calls makes calls one after the other. It records those after the learning ones.
func (s *stream) calls(ctx context.Context, address string, r *rand.Rand, learning, counted int) error {
	c, err := wire.Dial(address)
	if err != nil {
		return err
	}
	defer c.Close()
	text := call(provider.Timed+strconv.Itoa(s.law), bodies[0].size)
	var plan polling.Plan // the agent's
	if s.mode.plan != nil {
		text, plan, learning = withoutWaiting(text), s.mode.plan(provider.Laws[s.law], provider.HTTPSpeed, r), 0
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
