package faults_test

import (
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// network is a way to an address that is long and loses packets.
type network struct {
	target string
	delay  time.Duration // of one direction
	loss   float64       // of what is sent; TCP sends it again when it has not been acknowledged for a while
	again  time.Duration // that while

	address, port string // of its near end
}

// start begins to carry connections, until the test ends.
func (n *network) start(t *testing.T) *network {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n.address = listener.Addr().String()
	_, n.port, _ = net.SplitHostPort(n.address)
	var work sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	ended := false
	keep := func(c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		open = append(open, c)
		if ended {
			_ = c.Close()
		}
	}
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		ended = true
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		work.Wait()
	})
	work.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			keep(client)
			work.Go(func() {
				time.Sleep(2 * n.delay) // until the client's SYN is acknowledged
				server, err := net.Dial("tcp", n.target)
				if err != nil {
					_ = client.Close()
					return
				}
				keep(server)
				work.Go(func() { n.carry(server, client) })
				n.carry(client, server)
			})
		}
	})
	return n
}

// segment is something on its way.
type segment struct {
	data []byte
	due  time.Time
}

// carry sends what comes from one connection to the other, in its order.
func (n *network) carry(to, from net.Conn) {
	way := make(chan segment, 1024)
	var work sync.WaitGroup
	work.Go(func() {
		defer to.Close() // who ends one direction here ends both
		for s := range way {
			time.Sleep(time.Until(s.due))
			_, _ = to.Write(s.data) // whoever is gone is gone
		}
	})
	for {
		data := make([]byte, 1400)
		k, err := from.Read(data)
		if err != nil {
			break
		}
		due := time.Now().Add(n.delay)
		if rand.Float64() < n.loss {
			due = due.Add(n.again)
		}
		way <- segment{data[:k], due}
	}
	close(way)
	work.Wait()
}

// R43: 200 ms to the provider and back, and every tenth segment is lost. All calls
// succeed, none is made twice, and no run is asked for more often than on a good
// network; an agent learns of a run's end within the schedule and two ways there
// and back. With less time, the way is shorter.
func TestR43BadNetwork(t *testing.T) {
	longtest.Need(t, longtest.Long)
	testbed.CheckLeaks(t)
	const polls = 4
	n, calls := &network{delay: 10 * time.Millisecond, loss: 0.1, again: 50 * time.Millisecond}, 60
	if longtest.Runs(longtest.Minutes) {
		n, calls = &network{delay: 100 * time.Millisecond, loss: 0.1, again: 200 * time.Millisecond}, 400
	}
	p := hostile.NewProvider(t)
	n.target = strings.TrimPrefix(p.URL(), "http://")
	n.start(t)
	far := func(part hostile.Part) string {
		return strings.Replace(p.URLOf("acme/slow", part), n.target, n.address, 1)
	}
	p.Publish(hostile.Skill{
		ID: "acme/slow", Endpoint: far(hostile.Invoke), StatusURL: far(hostile.Status) + "/{execution_id}", ResultURL: far(hostile.Result) + "/{execution_id}",
	})
	p.On("acme/slow", hostile.Invoke, hostile.AcceptForResult(polls-1))
	c := testbed.StartCaddy(t, testbed.Bridge("provider "+p.URL()+" {", "\tnamespace acme", "}", "allow_ports "+n.port, "poll_interval 50ms 100ms"))
	took := make([]time.Duration, calls)
	r := testbed.Load{Workers: 10, Calls: calls, Do: func(_, call int) testbed.Answer {
		a := c.Execute("acme.slow", nil)
		took[call] = a.Took
		return a
	}}.Run(t)
	r.Only(t, "completed")
	checkDuplicates(t, p)
	for part, count := range map[hostile.Part]int{hostile.Invoke: calls, hostile.Status: calls * polls, hostile.Result: calls} {
		if got := p.Count("acme/slow", part); got != count {
			t.Errorf("%d requests of %s, not %d", got, part, count)
		}
	}
	// The invocation, the polls and the result each take one way there and back, and
	// a connection one more; the schedule has less than 50+75+100+100 ms and a tenth.
	trip := 2 * n.delay
	schedule := 360*time.Millisecond + (polls+2+1)*trip
	slices.Sort(took)
	if late := took[calls-1-calls/100] - schedule; late > 2*trip+4*n.again+2*time.Second {
		t.Errorf("some calls come %s after they could: %s", late, r)
	}
	t.Log(r)
}

// Nothing is wrong with a network that is only slow, as long as there is time.
func TestR43DeadlineOnASlowNetwork(t *testing.T) {
	testbed.CheckLeaks(t)
	p := hostile.NewProvider(t)
	n := (&network{target: strings.TrimPrefix(p.URL(), "http://"), delay: 400 * time.Millisecond}).start(t)
	p.Publish(hostile.Skill{ID: "acme/echo", Endpoint: strings.Replace(p.URLOf("acme/echo", hostile.Invoke), n.target, n.address, 1)})
	c := testbed.StartCaddy(t, withProvider(p, "allow_ports "+n.port))
	c.Call("describe_skill", hostile.Object{"name": "acme.echo"}) // so that its documents take no time
	a := c.With(testbed.Timeout(200*time.Millisecond)).Execute("acme.echo", nil)
	want{"INVOCATION_TIMEOUT", "invoke", "maybe", "none", "bridge"}.check(t, a)
	want{outcome: "completed"}.check(t, c.Execute("acme.echo", nil))
}

// R58: where an address does not fit into an answer over UDP, it is asked for over TCP.
func TestR58TruncatedNames(t *testing.T) {
	testbed.CheckLeaks(t)
	names := hostile.NewNameServer(t)
	names.Set("long.example.test", hostile.Truncated(hostile.Addresses("127.0.0.1")))
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/x"}).As("long.example.test")
	c := testbed.StartCaddy(t, withProvider(p, names.Transport()))
	if a := c.Execute("acme.x", nil); a.Outcome() != "completed" {
		t.Error(a)
	}
}
