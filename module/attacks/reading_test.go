package attacks_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/internal/guards"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// many is a provider of skills, all of whose descriptors are answered alike.
func many(t *testing.T, namespace string, n int, descriptor hostile.Action) *hostile.Provider {
	t.Helper()
	p := hostile.NewProvider(t)
	for i := range n {
		id := namespace + "/s" + strconv.Itoa(i)
		p.Publish(hostile.Skill{ID: id})
		p.On(id, hostile.Descriptor, descriptor)
	}
	return p
}

// peak watches how many requests hang at a provider, until it is asked for the most.
func peak(p *hostile.Provider) (most func() int) {
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for tick := time.NewTicker(time.Millisecond); ; {
			select {
			case <-tick.C:
				n = max(n, p.Hanging())
			case <-stop:
				tick.Stop()
				done <- n
				return
			}
		}
	}()
	return func() int { close(stop); return <-done }
}

// S46: a call that ends before the document that it wants has been read keeps its place
// until it has: no more documents are read at a time than calls may be in progress,
// whether the calls end by themselves or their clients go.
func TestS46PlacesAreHeldForDocuments(t *testing.T) {
	for name, leave := range map[string]func(c *testbed.Client) *testbed.Client{
		"timeout_ms: 1": func(c *testbed.Client) *testbed.Client { return c.With(testbed.Timeout(time.Millisecond)) },
		"client gone": func(c *testbed.Client) *testbed.Client {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			t.Cleanup(cancel)
			return c.With(testbed.Context(ctx), testbed.Fresh())
		},
	} {
		t.Run(name, func(t *testing.T) {
			const skills, places = 20, 2
			p := many(t, "acme", skills, hostile.Hang())
			c := testbed.StartCaddy(t, testbed.Bridge("limits {\n\truns 4 "+strconv.Itoa(places)+"\n}", provider(p.URL(), "acme")))
			if n := len(c.Names()); n != skills { // the index is known
				t.Fatalf("%d names", n)
			}
			most := peak(p)
			refused := 0
			first := 0 // as many as it takes: on a slow machine, a call may have ended before it wants its document
			for ; first < skills/2 && p.Hanging() < places; first++ {
				leave(c.Client).Execute("acme.s"+strconv.Itoa(first), nil)
			}
			rest := c.With(testbed.Timeout(2 * time.Second)) // of which they need nothing
			for i := first; i < skills; i++ {
				if a := rest.Execute("acme.s"+strconv.Itoa(i), nil); a.Outcome() == "RATE_LIMITED" {
					if !strings.Contains(string(a.Data.Details), `"runs_per_provider"`) {
						t.Errorf("%v", a)
					}
					refused++
				}
			}
			if n := most(); n > places {
				t.Errorf("%d documents were read at a time for %d places", n, places)
			}
			if refused != skills-first {
				t.Errorf("%d of %d calls were refused", refused, skills-first)
			}
			p.Disconnect() // which ends the reading
			testbed.Eventually(t, 30*time.Second, func() bool {
				return c.With(testbed.Timeout(time.Second)).Execute("acme.s0", nil).Outcome() != "RATE_LIMITED"
			}, "the places are free again")
			c.Stop()
		})
	}
}

// S46: of one source, so many descriptors are read at a time, and fewer at one
// host. Calls that want more wait, and are told the limit if their time ends meanwhile;
// what nobody waits for any more gives way. Other sources are not concerned.
func TestS46DescriptorsAtATime(t *testing.T) {
	const skills, reads, atOneHost = 40, 12, 3
	p := many(t, "acme", skills, hostile.Hang())
	for _, id := range []string{"acme/ok", "acme/later"} {
		p.Publish(hostile.Skill{ID: id})
		p.On(id, hostile.Descriptor, hostile.Usual())
	}
	q := many(t, "other", skills, hostile.Usual())
	testbed.Guard(t, func(g *guards.Guards) { g.Reading.Reads = reads })
	c := testbed.StartCaddy(t, testbed.Bridge("circuit_breaker off",
		provider(p.URL(), "acme"), provider(q.URL(), "other")))
	if n := len(c.Names()); n != 2*skills+2 {
		t.Fatalf("%d names", n)
	}
	most := peak(p)
	hasty := c.With(testbed.Timeout(time.Millisecond))
	for i := 2 * atOneHost; i < skills; i++ {
		hasty.Execute("acme.s"+strconv.Itoa(i), nil)
	}
	// What is left behind gives way, though it would hang for 10 s.
	soon := c.With(testbed.Timeout(5 * time.Second))
	mustComplete(t, soon.Execute("acme.ok", nil))

	// While it is waited for, it does not.
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	waiting := c.With(testbed.Context(ctx))
	var calls sync.WaitGroup
	for i := range atOneHost {
		calls.Go(func() { waiting.Execute("acme.s"+strconv.Itoa(i), nil) })
	}
	testbed.Eventually(t, 30*time.Second, func() bool { // of what was left behind, none may hang any more
		read := 0
		for i := range atOneHost {
			read += p.Count("acme/s"+strconv.Itoa(i), hostile.Descriptor)
		}
		return read == atOneHost
	}, "so many are read")
	later := began(func() { mustComplete(t, soon.Execute("acme.later", nil)) }) // once these are left
	impatient := c.With(testbed.Timeout(3 * time.Second))                       // long enough to reach the limit on a busy machine
	var told sync.WaitGroup
	for i := atOneHost; i < 2*atOneHost; i++ {
		told.Go(func() {
			a := impatient.Execute("acme.s"+strconv.Itoa(i), nil)
			if a.Outcome() != "RATE_LIMITED" || a.Data.Source != "bridge" || a.Data.Executed != "no" || a.Data.Next != "retry" || a.Data.Retry == nil ||
				!strings.Contains(string(a.Data.Details), `"limit":"reads","max":12`) || !strings.Contains(a.Message, "the limit is 12 at a time") {
				t.Errorf("%v", a)
			}
		})
	}
	for i := range skills {
		mustComplete(t, c.Execute("other.s"+strconv.Itoa(i), nil))
	}
	told.Wait()
	leave()
	calls.Wait()
	<-later
	if n := most(); n > 2*atOneHost { // the provider notices a little later that one was given up
		t.Errorf("%d descriptors were read at a time", n)
	}
}

// S46: in a registry, hosts that hang keep nothing from being read at another one, and
// no more than limits reads are read at a time all the same: whether many publishers
// have a host each, all have the same, or one has any number of names.
func TestS46HostsThatHang(t *testing.T) {
	const reads = 64
	for name, test := range map[string]struct {
		of     func(i int) (publisher, host int)
		hang   int  // at a time, at least
		inTurn bool // the next ten are asked for when the first of those before hang
	}{
		"one host":                    {func(i int) (int, int) { return i, 0 }, 16, false},
		"20 hosts and publishers":     {func(i int) (int, int) { return i % 20, i % 20 }, 31, false},
		"20 hosts, one after another": {func(i int) (int, int) { return i / 10, i / 10 }, 36, true},
		"any host, of one publisher":  {func(i int) (int, int) { return 0, i }, 16, false},
	} {
		t.Run(name, func(t *testing.T) {
			host := hostile.NewProvider(t)
			list := hostile.NewProvider(t)
			names := hostile.NewNameServer(t)
			var calls []string
			publish := func(publisher, skill, at string) string {
				names.Set(at, hostile.Addresses("127.0.0.1"))
				id := publisher + "/" + skill
				host.Publish(hostile.Skill{ID: id})
				list.Publish(hostile.Skill{ID: id, DescriptorURL: strings.Replace(host.URLOf(id, hostile.Descriptor), "127.0.0.1", at, 1)})
				return "reg." + publisher + "." + skill
			}
			for i := range 3 * reads {
				publisher, at := test.of(i)
				id := "evil" + strconv.Itoa(publisher)
				calls = append(calls, publish(id, strconv.Itoa(i), "h"+strconv.Itoa(at)+".evil.test"))
				host.On(id+"/"+strconv.Itoa(i), hostile.Descriptor, hostile.Hang())
			}
			good := publish("good", "own", "good.test")
			c := testbed.StartCaddy(t, testbed.Bridge("circuit_breaker off", "allow_ports "+host.Port(), names.Transport(), "registry "+newRegistry(t, list).URL+" {\n\tnamespace reg\n}"))
			if n := len(c.Names()); n != len(calls)+1 {
				t.Fatalf("%d names", n)
			}
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			waiting := c.With(testbed.Context(ctx))
			most := peak(host)
			var hanging sync.WaitGroup
			for i, name := range calls {
				if test.inTurn && i%10 == 0 {
					testbed.Eventually(t, 30*time.Second, func() bool { return host.Hanging() >= i/10 }, "those before hang")
				}
				hanging.Go(func() { waiting.Execute(name, nil) })
			}
			testbed.Eventually(t, 30*time.Second, func() bool { return host.Hanging() >= test.hang }, "hosts hang")
			mustComplete(t, c.With(testbed.Timeout(4*time.Second)).Execute(good, nil)) // those that hang take 10 s
			if n := most(); n > reads {
				t.Errorf("%d descriptors were read at a time", n)
			}
			leave()
			hanging.Wait()
			c.Stop()
		})
	}
}

// S46: descriptors of the largest size that come slowly, or not to their ends, take no
// more memory than a few of them.
func TestS46MemoryOfDocuments(t *testing.T) {
	const size, skills = 4 << 20, 60
	t.Parallel()
	patience := 2 * time.Second
	if longtest.Runs(longtest.Long) {
		patience = 5 * time.Second
	}
	gate := hostile.NewGate(t)
	p := many(t, "acme", skills, standing(gate, size-100))
	c := testbed.StartProcess(t, testbed.Limits{}, testbed.Bridge("circuit_breaker off", provider(p.URL(), "acme")))
	if n := len(c.Names()); n != skills {
		t.Fatalf("%d names", n)
	}
	before := c.RSS()
	var calls sync.WaitGroup
	for i := range skills {
		calls.Go(func() { c.With(testbed.Timeout(patience)).Execute("acme.s"+strconv.Itoa(i), nil) })
	}
	asked := func() (n int) {
		for i := range skills {
			n += p.Count("acme/s"+strconv.Itoa(i), hostile.Descriptor)
		}
		return n
	}
	testbed.Eventually(t, 30*time.Second, func() bool { return asked() >= 16 }, "as many as one host may have read at a time are asked for")
	var most int64
	for ended := began(calls.Wait); ; time.Sleep(20 * time.Millisecond) {
		most = max(most, c.RSS()-before)
		select {
		case <-ended:
			t.Logf("%d MiB more", most>>20)
			if most > 16*size*costlier {
				t.Errorf("%d descriptors take %d MiB", skills, most>>20)
			}
			return
		default:
		}
	}
}

// S46: an index has a place of its own: it is read, also if it is large, while as many
// descriptors as may be read at a time, all of them large, don't come to their ends.
func TestS46IndexBesideDescriptors(t *testing.T) {
	const reads, size = 2, 128 << 10
	gate := hostile.NewGate(t)
	p := many(t, "acme", 1000, hostile.Usual()) // an index of 250 KB
	names := hostile.NewNameServer(t)
	for i := range reads { // hosts and publishers of their own, so that each may take a place
		id, host := "p"+strconv.Itoa(i)+"/large", "h"+strconv.Itoa(i)+".test"
		names.Set(host, hostile.Addresses("127.0.0.1"))
		p.Publish(hostile.Skill{ID: id, DescriptorURL: strings.Replace(p.URLOf(id, hostile.Descriptor), "127.0.0.1", host, 1)})
		p.On(id, hostile.Descriptor, standing(gate, size))
	}
	testbed.Guard(t, func(g *guards.Guards) { g.Reading.Reads = reads })
	c := testbed.StartCaddy(t, testbed.Bridge("circuit_breaker off", "allow_ports "+p.Port(), names.Transport(), "cache {\n\tttl 0\n\tnegative_ttl 0\n\tstale_if_error 0\n}",
		provider(p.URL(), "acme")))
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	waiting := c.With(testbed.Context(ctx))
	var calls sync.WaitGroup
	for i := range reads {
		calls.Go(func() { waiting.Execute("acme.p"+strconv.Itoa(i)+".large", nil) })
	}
	testbed.Eventually(t, 30*time.Second, func() bool { return gate.Waiting() == reads }, "the descriptors stand still")
	before := p.Count("", hostile.Index)
	for range 5 { // at the latest when the descriptors have their places
		if a := c.Call("list_skills", nil); a.Result == nil {
			t.Fatalf("%.600s", a.String())
		}
	}
	if n := p.Count("", hostile.Index) - before; n != 5 || gate.Waiting() != reads {
		t.Errorf("the index was read %d times, while %d descriptors stood still", n, gate.Waiting())
	}
	leave()
	calls.Wait()
}

// standing is the beginning of a descriptor, of which no more comes until the gate opens.
func standing(gate *hostile.Gate, size int) hostile.Action {
	return func(x *hostile.Exchange) {
		hostile.Handle(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(strings.Repeat(" ", size)))
			_ = http.NewResponseController(w).Flush()
			gate.Then(func(*hostile.Exchange) {})(x)
		})(x)
	}
}

// began calls a function, and returns what is closed when it has returned.
func began(f func()) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f()
	}()
	return ended
}

// S60: documents that name a third party's URLs have it asked a bounded number of times
// for what is no descriptor, however many skills there are, and however often the page
// is loaded or they are called: for nothing, for redirects to itself, for descriptors
// of other skills, and with failures that are not remembered.
func TestS60ThirdParty(t *testing.T) {
	const skills, failures, inFlight = 300, 20, 8
	for name, action := range map[string]hostile.Action{
		"not found":     hostile.Respond(http.StatusNotFound, ""),
		"no descriptor": hostile.Respond(http.StatusOK, "{}", "Content-Type", "application/json"),
		"broken":        hostile.Reset(),
		"redirects":     func(x *hostile.Exchange) { hostile.Redirect(http.StatusFound, x.HTTP.URL.String()+"&again")(x) },
		"of another":    hostile.Usual(),
	} {
		t.Run(name, func(t *testing.T) {
			third := hostile.NewProvider(t, hostile.Skill{ID: "third/own"})
			third.On("third/own", hostile.Descriptor, action)
			p := hostile.NewProvider(t)
			for i := range skills {
				p.Publish(hostile.Skill{ID: "evil/s" + strconv.Itoa(i), DescriptorURL: third.URLOf("third/own", hostile.Descriptor) + "?n=" + strconv.Itoa(i)})
			}
			testbed.Guard(t, func(g *guards.Guards) { g.Reading.FailedReads, g.Reading.Reads = failures, inFlight })
			// The breaker would leave alone who is broken.
			c := testbed.StartCaddy(t, testbed.Bridge("browse", "circuit_breaker off", "allow_ports "+third.Port(), "cache {\n\tnegative_ttl 0\n}",
				provider(p.URL(), "evil")))
			start := time.Now()
			for range 2 {
				if a := c.With(testbed.Header("Accept", "text/html")).Send(http.MethodGet, c.URL, ""); a.Status != http.StatusOK || !strings.Contains(string(a.Body), "evil.s0") {
					t.Fatalf("%v", a)
				}
			}
			var calls sync.WaitGroup
			for worker := range inFlight {
				calls.Go(func() {
					for i := worker; i < skills; i += inFlight {
						if a := c.Execute("evil.s"+strconv.Itoa(i), nil); a.Outcome() == "RATE_LIMITED" {
							if a.Data.Source != "bridge" || a.Data.Next != "retry" || a.Data.Retry == nil || a.Data.Retry.SuggestedDelayMS <= 0 ||
								!strings.Contains(a.Message, "the limit is 20 a minute") || !strings.Contains(string(a.Data.Details), `"failed_reads"`) {
								t.Errorf("%v", a)
							}
						}
					}
				})
			}
			calls.Wait()
			// First requests for URLs, and further ones; and what comes of the time.
			most := 4*failures + failures + int(2*time.Since(start).Minutes()*failures) + 2
			if n := len(third.All()); n < failures || n > most {
				t.Errorf("the third party was asked %d times, want %d to %d", n, failures, most)
			}
			c.Stop()
		})
	}
}

// S60: dead entries of one publisher in a registry, however many and however often they
// are called, don't take away another's skill at the same host: neither one that was
// never read, nor one that has failed once. The host is asked a bounded number of times.
func TestS60OtherPublisher(t *testing.T) {
	const dead, reads, failures = 1000, 8, 10
	host := hostile.NewProvider(t, hostile.Skill{ID: "good/own"}, hostile.Skill{ID: "good/back"})
	host.On("good/back", hostile.Descriptor, hostile.Respond(http.StatusNotFound, ""), hostile.Usual())
	p := hostile.NewProvider(t)
	for _, id := range []string{"good/own", "good/back"} {
		p.Publish(hostile.Skill{ID: id, DescriptorURL: host.URLOf(id, hostile.Descriptor)})
	}
	for i := range dead {
		p.Publish(hostile.Skill{ID: "evil/s" + strconv.Itoa(i), DescriptorURL: host.URL() + "/nothing/" + strconv.Itoa(i)})
	}
	testbed.Guard(t, func(g *guards.Guards) { g.Reading.FailedReads, g.Reading.Reads = failures, reads })
	c := testbed.StartCaddy(t, testbed.Bridge("circuit_breaker off", "allow_ports "+host.Port(), "cache {\n\tnegative_ttl 0\n}",
		provider(p.URL(), "reg")))
	if a := c.Execute("reg.good.back", nil); a.Outcome() != "SKILL_NOT_FOUND" {
		t.Errorf("%v", a)
	}
	start, refused := time.Now(), 0
	for range 2 {
		for i := range dead {
			if c.Execute("reg.evil.s"+strconv.Itoa(i), nil).Outcome() == "RATE_LIMITED" {
				refused++
			}
		}
	}
	if n, most := len(host.All()), 2*failures+4*failures+int(2*time.Since(start).Minutes()*failures)+2; n > most || refused < dead {
		t.Errorf("the host was asked %d times, want %d at most; %d calls were refused", n, most, refused)
	}
	mustComplete(t, c.Execute("reg.good.own", nil))
	mustComplete(t, c.Execute("reg.good.back", nil))
}

// S60: of several URLs on the way to a descriptor, only the one that failed is left alone:
// once the others lead to something else, it is read at once.
func TestS60RedirectedElsewhere(t *testing.T) {
	third := hostile.NewProvider(t, hostile.Skill{ID: "acme/x"}, hostile.Skill{ID: "acme/next"})
	other := hostile.NewProvider(t, hostile.Skill{ID: "acme/x"}, hostile.Skill{ID: "acme/gone"})
	p := hostile.NewProvider(t)
	p.Publish(hostile.Skill{ID: "acme/x", DescriptorURL: third.URLOf("acme/x", hostile.Descriptor)})
	lead := func(to string) {
		third.On("acme/x", hostile.Descriptor, hostile.Redirect(http.StatusFound, third.URLOf("acme/next", hostile.Descriptor)))
		third.On("acme/next", hostile.Descriptor, hostile.Redirect(http.StatusFound, to))
	}
	c := testbed.StartCaddy(t, testbed.Bridge("circuit_breaker off", "allow_ports "+third.Port()+" "+other.Port(), "cache {\n\tttl 0\n\tnegative_ttl 0\n\tstale_if_error 0\n}", provider(p.URL(), "acme")))
	for name, bad := range map[string]string{
		"gone":                     other.URLOf("acme/gone", hostile.Descriptor),
		"gone at the source's own": p.URL() + "/gone",
		"forbidden":                "http://127.0.0.1:1/",
	} {
		other.On("acme/gone", hostile.Descriptor, hostile.Respond(http.StatusNotFound, ""))
		for range 12 { // after so many failures, a URL is left alone for minutes
			lead(bad)
			if a := c.Execute("acme.x", nil); a.Outcome() == "completed" {
				t.Errorf("%s: %v", name, a)
			}
		}
		if n := other.Count("acme/gone", hostile.Descriptor); n > 3 {
			t.Errorf("what has failed was asked for %d times", n)
		}
		lead(other.URLOf("acme/x", hostile.Descriptor))
		if a := c.Execute("acme.x", nil); a.Outcome() != "completed" {
			t.Errorf("%s, and then elsewhere: %v", name, a)
		}
	}
}

// S60: a provider whose descriptors are on another host, and fine, meets no limit.
func TestS60DescriptorsElsewhere(t *testing.T) {
	const skills = 100
	host := many(t, "acme", skills, hostile.Usual())
	p := hostile.NewProvider(t)
	for i := range skills {
		id := "acme/s" + strconv.Itoa(i)
		p.Publish(hostile.Skill{ID: id, DescriptorURL: host.URLOf(id, hostile.Descriptor)})
	}
	testbed.Guard(t, func(g *guards.Guards) { g.Reading.FailedReads, g.Reading.Reads = 1, 2 })
	c := testbed.StartCaddy(t, testbed.Bridge("browse", "allow_ports "+host.Port(), provider(p.URL(), "acme")))
	for i := range skills {
		mustComplete(t, c.Execute("acme.s"+strconv.Itoa(i), nil))
	}
	if n := host.Count("acme/s0", hostile.Descriptor); n != 1 {
		t.Errorf("a descriptor was read %d times", n)
	}
}
