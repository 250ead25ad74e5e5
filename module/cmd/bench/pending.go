package main

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/procfs"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/provider"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/servers"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/statistics"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/wire"
)

// pending is a kind of requests about runs that go on.
type pending struct {
	name, path string
	body       func(task string) []byte // of a request; task is the id of a task whose run goes on
	starts     bool                     // a request starts a run, or waits at the upstream itself
	begins     bool                     // the answer begins before the end of the run
	ends       bool                     // the answer ends before the end of the run
	goals      [2]string                // for the memory over HTTP/1.1 and HTTP/2; empty: none
}

// sendMessage is a request of A2A 1.0 that starts a run of provider.Hold, by method and further members of its params.
const sendMessage = `{"jsonrpc":"2.0","id":1,"method":"%s","params":{"message":{"messageId":"m","role":"ROLE_USER",` +
	`"parts":[{"data":{"location":"Tokyo","days":5}}],"metadata":{"skillId":"bench.` + provider.Hold + `"}}%s}}`

var (
	holdCall     = func(string) []byte { return call(provider.Hold, bodies[0].size) }
	inBackground = func(string) []byte {
		return fmt.Appendf(nil, sendMessage, "SendMessage", `,"configuration":{"returnImmediately":true}`)
	}

	pendingCalls = []pending{
		{name: "bridge", path: servers.BridgePath, body: holdCall, starts: true, goals: [2]string{"≤ 45", "≤ 32"}},
		{name: "reverse_proxy", path: servers.HoldPath, body: holdCall, starts: true},
	}
	pendingStreams = []pending{
		{name: "execute_skill that waits", path: servers.BridgePath, body: holdCall, starts: true},
		{
			name: "stream of a message (A2A), with its run", path: servers.AgentPath, starts: true, begins: true,
			body: func(string) []byte { return fmt.Appendf(nil, sendMessage, "SendStreamingMessage", "") },
		},
		{name: "run in the background (A2A)", path: servers.AgentPath, body: inBackground, starts: true, begins: true, ends: true},
		{
			name: "stream that subscribes to one task (A2A)", path: servers.AgentPath, begins: true,
			body: func(task string) []byte {
				return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"%s"}}`, task)
			},
		},
	}
)

// shortPending is the number of calls over HTTP/1.1 in a short run: as many as show what each of them takes.
const shortPending = 1000

// measurePending measures the memory of a call that waits for its run.
func measurePending(b *bench) values {
	return b.pendingTable("pending", pendingCalls, either(b, shortPending, 8000), either(b, 210, 20000), 2) // reverse_proxy needs two connections for each
}

// measureStreams measures the memory of open streams, beside that of calls that wait.
func measureStreams(b *bench) values {
	return b.pendingTable("streams", pendingStreams, either(b, 20, 5000), either(b, 20, 5000), 1)
}

// pendingTable measures kinds of requests: n1 requests over HTTP/1.1, each of which needs some connections, and n2 over HTTP/2.
func (b *bench) pendingTable(section string, kinds []pending, n1, n2 int, connections uint64) values {
	t := table{header: []string{"", "requests that wait", "resident memory of each, KB", "live heap of each, KB", "stacks of each, KB", "goroutines of each"}}
	// Go's runtime sets the soft limit to the hard one, here and in Caddy.
	files, few := must(must(procfs.Self()).Limits()).OpenFiles, 0
	if affordable := int(min(files-500, 1<<20) / connections); n1 > affordable { //nolint:gosec // fits
		n1, few = affordable, affordable
	}
	for k, version := range []string{"HTTP/1.1", "HTTP/2"} {
		n := []int{n1, n2}[k]
		for i := range kinds {
			p, count := &kinds[i], number(float64(n))
			b.say("%s: %s, %d requests over %s", section, p.name, n, version)
			each := b.pendingOf(n, k == 1, p)
			memory := fmt.Sprintf("%.1f", each.resident/1000)
			t.add(p.name+", "+version, count, memory, fmt.Sprintf("%.1f", each.heap/1000), fmt.Sprintf("%.1f", each.stack/1000), fmt.Sprintf("%.2f", each.goroutines))
			if p.goals[k] != "" {
				b.report.goal(fmt.Sprintf("Resident memory of a run that goes on, KB, %s over %s", count, version), p.goals[k], memory)
			}
		}
	}
	return values{"table": t.String(), "files": files, "few": few}
}

// held is what a request takes, in bytes: the heap after a garbage collection.
type held struct{ resident, heap, stack, goroutines float64 }

// pendingOf holds n requests at one target, and returns what each takes.
func (b *bench) pendingOf(n int, h2 bool, p *pending) held {
	arguments, version := []string{}, "1.1"
	if h2 {
		arguments, version = append(arguments, "-h2c"), "h2c"
	}
	u := b.StartUpstream(arguments...)
	s := u.ProtocolsSite("timeout 10m 10m", fmt.Sprintf("limits {\nruns %d %d\n}", n+100, n+100), "transport http {\nversions "+version+"\n}")
	s.Lines = strings.Replace(s.Lines, "\na2a\n", fmt.Sprintf("\na2a\nkeep 24h %d %d\n", 2*n+100, 2*n+100), 1)
	warmPath := servers.BridgePath
	if p.path == servers.HoldPath {
		s, warmPath = u.ProxySite("site", servers.HoldPath, version), servers.ProxyPath
		s.Lines += "\n" + u.ProxySite("", servers.ProxyPath, version).Lines // warm-up
	}
	c := b.StartCaddy(s)
	defer c.Stop()
	defer u.Stop()
	t := &target{name: p.name, address: c.Addresses["site"], path: p.path}
	b.warmUp(&target{name: "warming up", address: t.address, path: warmPath, skill: provider.Now})
	task, started := "", 0
	if p.path == servers.AgentPath {
		task, started = taskOf(must(wire.Once(http.MethodPost, t.address, servers.AgentPath, inBackground("")))), 1
	}
	before, _ := b.settled(c, either(b, 100*time.Millisecond, time.Second))
	goroutinesBefore, allocatedBefore := c.Goroutines(), c.Allocated()

	o := newOpenRequests(b.Context, t, p, p.body(task), n, h2)
	defer o.close()
	for i := range n {
		o.begin(i)
		if p.starts && (i%64 == 63 || i == n-1) { // at most 64 requests have not reached the upstream
			u.Reached(b.Context, started+i+1)
		}
	}
	samples := make([]float64, either(b, 2, 20))
	for i := range samples {
		b.sleep(either(b, 50*time.Millisecond, 500*time.Millisecond))
		samples[i] = c.ResidentMemory()
	}
	goroutines := c.Goroutines() - goroutinesBefore
	c.Get("/debug/pprof/heap?gc=1")
	allocated, size := c.Allocated(), float64(n)
	u.Release()
	check(o.wait())
	return held{
		(statistics.Median(samples) - before) / size, (allocated.HeapAlloc - allocatedBefore.HeapAlloc) / size,
		(allocated.StackInuse - allocatedBefore.StackInuse) / size, float64(goroutines) / size,
	}
}

// warmUp sends some requests.
func (b *bench) warmUp(t *target) {
	l := b.load(t, bodies[0].size, 4)
	check(l.sendAll(50))
	l.close()
}

// taskOf returns the id of the task in an answer to SendMessage.
func taskOf(text []byte) string {
	var answer struct {
		Result struct{ Task struct{ ID string } }
	}
	if err := json.Unmarshal(text, &answer, json.MatchCaseInsensitiveNames(true)); err != nil || answer.Result.Task.ID == "" {
		check(fmt.Errorf("an answer without a task: %.300s", text))
	}
	return answer.Result.Task.ID
}
