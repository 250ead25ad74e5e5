package faults_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// onAllPorts returns the Caddyfile of withAgents for four sites: without TLS and with it, and each of them without and with the
// handler encode. Their bridges have the same name, so that they share their tasks.
func onAllPorts(ca *hostile.CA, p *hostile.Provider, lines ...string) string {
	certificate, key := ca.ServerCertificate()
	plain := strings.Replace(withAgents(p, lines...), "skill_bridge {\n", "skill_bridge {\n\t\tname agents\n", 1)
	encoded := strings.Replace(plain, "{\n", "{\n\tencode gzip zstd\n", 1)
	secure := func(site, port string) string {
		return strings.Replace(site, "http://127.0.0.1:{$PORT} {\n", "https://127.0.0.1:{$"+port+"} {\n\ttls "+certificate+" "+key+"\n", 1)
	}
	return plain + strings.Replace(encoded, "{$PORT}", "{$PORT_ENCODED}", 1) + secure(plain, "PORT_TLS") + secure(encoded, "PORT_TLS_ENCODED")
}

// A transport is a way to reach the sites of onAllPorts.
type transport struct{ name, proto, url string }

// transports returns all of them, and the clients of one user that use them and accept compressed answers.
func transports(t *testing.T, ca *hostile.CA, c *testbed.Process) (all []transport, clients []*testbed.Client) {
	t.Helper()
	for _, name := range []string{"HTTP/1.1", "TLS HTTP/1.1", "TLS HTTP/2.0"} {
		for _, encode := range []bool{false, true} {
			tr := transport{name: name, proto: name[strings.Index(name, "HTTP"):], url: "http://127.0.0.1:"}
			port := "PORT"
			if strings.HasPrefix(name, "TLS") {
				tr.url, port = "https://127.0.0.1:", port+"_TLS"
			}
			if encode {
				tr.name, port = name+" encode", port+"_ENCODED"
			}
			tr.url += c.Port(port)
			own := &http.Transport{TLSClientConfig: ca.ClientConfig(), Protocols: new(http.Protocols), DisableKeepAlives: tr.proto == "HTTP/1.1"}
			own.Protocols.SetHTTP1(tr.proto == "HTTP/1.1")
			own.Protocols.SetHTTP2(tr.proto == "HTTP/2.0")
			t.Cleanup(own.CloseIdleConnections)
			client := agentOf(c.Client, "ann").With(testbed.Header("Accept-Encoding", "gzip, zstd"))
			client.URL, client.HTTP = tr.url+"/a2a", &http.Client{Transport: own}
			all, clients = append(all, tr), append(clients, client)
		}
	}
	return all, clients
}

// check fails the test if a stream has another protocol or other headers.
func (tr transport) check(t *testing.T, s *testbed.Stream) {
	t.Helper()
	r := s.Response
	if r.Proto != tr.proto || r.StatusCode != http.StatusOK {
		t.Errorf("%s %d", r.Proto, r.StatusCode)
	}
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no", "Content-Encoding": "", "Content-Length": "",
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// An agentVersion has what the methods that stream are called in a version of A2A, and the events of a task that completes.
type agentVersion struct {
	version, send, subscribe string
	begun                    []string // the events before the skill is invoked
	accepted                 string   // the event when the provider has accepted the run
	now                      []string // the events when a client subscribes to the run
	ended                    []string
}

var agentVersions = []agentVersion{
	{"1.0", "SendStreamingMessage", "SubscribeToTask", []string{"task SUBMITTED"}, "WORKING", []string{"task WORKING"}, []string{"artifact", "COMPLETED"}},
	{"0.3", "message/stream", "tasks/resubscribe", []string{"task submitted"}, "working", []string{"task working"}, []string{"artifact", "completed final"}},
	{"0.1", "tasks/sendSubscribe", "tasks/resubscribe", nil, "working", nil, []string{"artifact", "completed final"}},
}

// params returns the params of a message that invokes a skill, with a new call id and with the id of its task, where the client
// chooses it.
func (v agentVersion) params(skill string) (params hostile.Object, id, call string) {
	params, call = testbed.Message(skill, false)
	if v.version == "1.0" {
		return params, "", call
	}
	message := params["message"].(hostile.Object)
	part := hostile.Object{"kind": "data", "type": "data", "data": message["parts"].([]hostile.Object)[0]["data"]}
	message["role"], message["parts"] = "user", []hostile.Object{part}
	params = hostile.Object{"message": message}
	if v.version == "0.1" {
		id = "task-of-a-client-" + call
		params["id"] = id
	}
	return params, id, call
}

// R69: over each transport, each event of a stream reaches the client before the next one happens: the provider waits until
// the client has read it.
func TestR69EventsArriveAtOnce(t *testing.T) {
	t.Parallel()
	ca, p := hostile.NewCA(t), hostile.NewProvider(t)
	var skills []hostile.Skill
	for i := range 6 * len(agentVersions) {
		skills = append(skills, hostile.Skill{ID: fmt.Sprintf("acme/skill%d", i)})
	}
	p.Publish(skills...)
	c := testbed.StartProcess(t, testbed.Limits{}, onAllPorts(ca, p))
	all, clients := transports(t, ca, c)
	for i, tr := range all {
		for j, v := range agentVersions {
			t.Run(tr.name+" "+v.version, func(t *testing.T) {
				t.Parallel()
				skill := fmt.Sprint("skill", i*len(agentVersions)+j)
				invoked, ended := hostile.NewGate(t), hostile.NewGate(t)
				p.On("acme/"+skill, hostile.Invoke, invoked.Then(hostile.Accept(0)))
				p.On("acme/"+skill, hostile.Status, ended.Then(hostile.Usual()))
				ann := clients[i].With(testbed.Header("A2A-Version", v.version))
				params, id, call := v.params("acme." + skill)
				begin := func(method string, params hostile.Object) *testbed.Stream {
					start := time.Now()
					s := ann.Stream(method, params)
					if took := time.Since(start); took > 10*time.Second { // a client may wait no longer for a header
						t.Errorf("the header came after %s", took)
					}
					tr.check(t, s)
					return s
				}
				sent := begin(v.send, params)
				next := func(s *testbed.Stream, want ...string) {
					for _, want := range want {
						e, _ := s.Next(patience)
						if e.String() != want || e.ID == "" {
							t.Fatalf("event %s: %s, want %s", e.ID, e, want)
						}
						if e.Task != nil {
							id = e.Task.ID
						}
					}
				}
				next(sent, v.begun...)
				invoked.Open()
				next(sent, v.accepted)
				subscribed := begin(v.subscribe, hostile.Object{"id": id})
				next(subscribed, v.now...)
				ended.Open()
				for _, s := range []*testbed.Stream{sent, subscribed} {
					next(s, v.ended...)
					if rest := s.Rest(patience); len(rest) > 0 || s.Broken() {
						t.Errorf("then %q, broken %t", rest, s.Broken())
					}
				}
				if n := p.Posts(call); n != 1 {
					t.Errorf("%d invocations", n)
				}
			})
		}
	}
}

// R69: the readers of one task over all transports get the same events in the same order, of an old and a new configuration,
// and none is lost or sent twice.
func TestR69ReadersOfAllTransports(t *testing.T) {
	t.Parallel()
	ca := hostile.NewCA(t)
	p, gate := later(t)
	c := testbed.StartProcess(t, testbed.Limits{}, onAllPorts(ca, p))
	all, clients := transports(t, ca, c)
	begun := clients[0].Invoke("acme.later", true)
	id := begun.Task().ID
	testbed.Eventually(t, patience, func() bool { return clients[0].GetTask(id).Task().State() == "WORKING" }, "the run was accepted")
	readers := map[string][]*testbed.Stream{} // by version
	subscribe := func() {
		for i, tr := range all {
			for _, v := range agentVersions[:2] { // 0.1 has ids of its own
				s := clients[i].With(testbed.Header("A2A-Version", v.version)).Stream(v.subscribe, hostile.Object{"id": id})
				tr.check(t, s)
				if e, _ := s.Next(patience); e.String() != v.now[0] {
					t.Errorf("%s: the first event is %s", tr.name, e)
				}
				readers[v.version] = append(readers[v.version], s)
			}
		}
	}
	subscribe()
	if err := c.Reload(onAllPorts(ca, p, "description another")); err != nil {
		t.Fatal(err)
	}
	subscribe()
	gate.Open()
	for _, v := range agentVersions[:2] {
		var first []string
		for i, s := range readers[v.version] {
			var texts, steps []string
			for e, ok := s.Next(patience); ok; e, ok = s.Next(patience) {
				texts, steps = append(texts, e.ID+" "+e.Text), append(steps, e.String())
			}
			if i == 0 {
				first = texts
			}
			if !slices.Equal(steps, v.ended) || !slices.Equal(texts, first) || s.Broken() {
				t.Errorf("%s, reader %d, broken %t: %q, reader 0: %q", v.version, i, s.Broken(), texts, first)
			}
		}
	}
	checkOnce(t, p, begun)
	checkNoPanic(t, c.Log)
}

// R69: streams whose clients leave, over any transport, leave nothing behind.
func TestR69ClientsLeave(t *testing.T) {
	const each = 10
	ca := hostile.NewCA(t)
	p, _ := later(t)
	c := testbed.StartProcess(t, testbed.Limits{}, onAllPorts(ca, p))
	all, clients := transports(t, ca, c)
	id := clients[0].Invoke("acme.later", true).Task().ID
	testbed.Eventually(t, patience, func() bool { return clients[0].GetTask(id).Task().State() == "WORKING" }, "the run was accepted")
	admin := c.With(testbed.Fresh())
	get := func(path, before string) (n int) {
		_, text, _ := strings.Cut(string(admin.Send(http.MethodGet, c.Admin()+path, "").Body), before)
		if _, err := fmt.Sscan(text, &n); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return n
	}
	goroutines := func() int { return get("/debug/pprof/goroutine?debug=1", "total ") }
	open := func() int { return get("/metrics", "\ncaddy_skill_bridge_streams ") }
	for i, tr := range all {
		t.Run(tr.name, func(t *testing.T) {
			client := clients[i]
			leave := func(n int) {
				var streams []*testbed.Stream
				for range n {
					s := client.Stream("SubscribeToTask", hostile.Object{"id": id})
					if e, _ := s.Next(patience); e.String() != "task WORKING" {
						t.Fatalf("the first event is %s", e)
					}
					streams = append(streams, s)
				}
				if got := open(); got != n {
					t.Errorf("%d streams are open, want %d", got, n)
				}
				for _, s := range streams {
					s.Close()
				}
				testbed.Eventually(t, patience, func() bool { return open() == 0 }, "the streams have ended")
				client.HTTP.CloseIdleConnections()
			}
			leave(1)
			before := goroutines()
			leave(each)
			testbed.Eventually(t, patience, func() bool { return goroutines() < before+each/2 }, "their goroutines have ended")
		})
	}
	params, _ := testbed.Message("acme.later", false) // its run goes on
	s := clients[0].Stream("SendStreamingMessage", params)
	first, _ := s.Next(patience)
	if e, _ := s.Next(patience); e.String() != "WORKING" {
		t.Fatalf("the events are %s, %s", first, e)
	}
	s.Close()
	testbed.Eventually(t, patience, func() bool { return open() == 0 }, "the stream has ended")
	if a := clients[0].GetTask(first.Task.ID); a.Task().State() != "WORKING" {
		t.Error(a)
	}
}
