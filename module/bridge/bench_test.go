package bridge_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// benchClients is how many requests are under way at a time.
const benchClients = 256

// benchOutput is an answer of the usual size, 330 bytes, of a run that has completed.
const benchOutput = `{"execution_id":"exec-a1b2c3d4","status":"completed","skill_id":"acme/now",` +
	`"timestamps":{"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:08Z","completed_at":"2026-01-02T03:04:08Z"},` +
	`"output":{"location":"Tokyo","forecasts":[{"date":"2026-01-02","high":11,"low":4},{"date":"2026-01-03","high":9,"low":3,"condition":"sunny"}]}}`

// benchBodies are requests to the bridge, about as large as the names say; the
// other targets get them too.
var benchBodies = []struct {
	name string
	size int
}{{"0.3KiB", 300}, {"4KiB", 4 << 10}, {"64KiB", 64 << 10}}

func benchBody(skill string, size int) []byte {
	var b strings.Builder
	b.WriteString(`{"jsonrpc":"2.0","id":"req-000042","method":"execute_skill","params":{"name":"` + skill + `","args":{"location":"Tokyo","days":5`)
	for i := 0; b.Len() < size-60; i++ {
		b.WriteString(`,"item_` + strconv.Itoa(i) + `":{"city":"Kyoto","days":[1,2,3],"exact":true}`)
	}
	return []byte(b.String() + "}}}")
}

// benchUpstream is a provider of two skills: now completes at once, later with
// the answer to the second request for its status.
type benchUpstream struct {
	*httptest.Server
	runs  atomic.Int64
	asked sync.Map // execution ids whose status was asked for
}

func newBenchUpstream(b *testing.B) *benchUpstream {
	b.Helper()
	u := new(benchUpstream)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/skill-sharing", u.index)
	mux.HandleFunc("GET /skills/{name}", u.descriptor)
	mux.HandleFunc("POST /run/now", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		benchAnswer(w, benchOutput)
	})
	mux.HandleFunc("POST /run/later", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		benchAnswer(w, `{"execution_id":"exec-`+strconv.FormatInt(u.runs.Add(1), 10)+`","status":"accepted"}`)
	})
	mux.HandleFunc("GET /status/{id}", func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		if _, again := u.asked.LoadAndDelete(id); again {
			benchAnswer(w, strings.Replace(benchOutput, "exec-a1b2c3d4", id, 1))
			return
		}
		u.asked.Store(id, true)
		benchAnswer(w, `{"execution_id":"`+id+`","status":"running"}`)
	})
	u.Server = httptest.NewServer(mux)
	b.Cleanup(u.Close)
	return u
}

func benchAnswer(w http.ResponseWriter, body string) {
	w.Header()["Content-Type"] = []string{"application/json"}
	_, _ = io.WriteString(w, body)
}

func (u *benchUpstream) index(w http.ResponseWriter, _ *http.Request) {
	const entry = `{"id":"acme/%[2]s","name":"Skill","capability_type":"api","description":"Does something.",` +
		`"descriptor_url":"%[1]s/skills/%[2]s","access":"public","version":"1.0.0"}`
	benchAnswer(w, `{"protocol":{"version":"1.0.0"},"provider":{"name":"Acme"},"skills":[`+
		fmt.Sprintf(entry, u.URL, "now")+","+fmt.Sprintf(entry, u.URL, "later")+"]}")
}

func (u *benchUpstream) descriptor(w http.ResponseWriter, r *http.Request) {
	benchAnswer(w, fmt.Sprintf(`{"protocol":{"version":"1.0.0"},"id":"acme/%[2]s","name":"Skill","version":"1.0.0","capability_type":"api",
		"description":"Does something.","provider":{"name":"Acme"},
		"endpoint":{"url":"%[1]s/run/%[2]s","method":"POST","status_url":"%[1]s/status/{execution_id}"},
		"inputs":[{"name":"location","type":"string","description":"A city.","required":true}],
		"output":{"content_type":"application/json"},"auth":{"type":"none"},"access":"public"}`, u.URL, r.PathValue("name")))
}

// benchTarget is something that requests can be sent to.
type benchTarget struct {
	url    string
	skill  string
	client *http.Client
}

// post sends one request, and checks that the answer is that of a completed run.
func (t *benchTarget) post(body []byte) error {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header["Content-Type"] = []string{"application/json"}
	resp, err := t.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK || !bytes.Contains(answer, []byte(`"status":"completed"`)) {
		return fmt.Errorf("%s answered %d %.300s", t.url, resp.StatusCode, answer)
	}
	return nil
}

// newBenchTargets starts an upstream, and a Caddy that has a route for each handler.
func newBenchTargets(b *testing.B) map[string]*benchTarget {
	b.Helper()
	upstream := newBenchUpstream(b)
	const route = `{"match":[{"path":["/run/%s"]}],"handle":[%s],"terminal":true}`
	routes := []string{ // the bridge is the last one to be tried
		fmt.Sprintf(route, "respond", fmt.Sprintf(`{"handler":"static_response","body":%q}`, benchOutput)),
		fmt.Sprintf(route, "now", fmt.Sprintf(`{"handler":"reverse_proxy","upstreams":[{"dial":%q}],
			"transport":{"protocol":"http","keep_alive":{"max_idle_conns_per_host":512}}}`, upstream.Listener.Addr())),
		fmt.Sprintf(route, "bridge", fmt.Sprintf(`{"handler":"skill_bridge","providers":[{"origin":%q,"namespace":"acme"}],
			"allow_http":true,"allow_networks":["127.0.0.0/8"],"poll_interval":"1ms"}`, upstream.URL)),
	}
	b.Setenv("XDG_DATA_HOME", b.TempDir())
	config := fmt.Sprintf(`{"admin":{"disabled":true,"config":{"persist":false}},"storage":{"module":"file_system","root":%q},
		"logging":{"logs":{"default":{"level":"ERROR","writer":{"output":"discard"}}}},
		"apps":{"http":{"servers":{"bench":{"listen":["127.0.0.1:0"],"automatic_https":{"disable":true},"routes":[%s]}}}}}`,
		b.TempDir(), strings.Join(routes, ","))
	if err := caddy.Load([]byte(config), true); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			b.Error(err)
		}
	})
	app, err := caddy.ActiveContext().App("http")
	if err != nil {
		b.Fatal(err)
	}
	address, err := benchAddress(app.(*caddyhttp.App).Servers["bench"])
	if err != nil {
		b.Fatal(err)
	}
	connections := &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true}
	b.Cleanup(connections.CloseIdleConnections)
	client := &http.Client{Transport: connections}
	return map[string]*benchTarget{
		"bridge":        {"http://" + address + "/run/bridge", "acme.now", client},
		"reverse_proxy": {"http://" + address + "/run/now", "acme.now", client},
		"async":         {"http://" + address + "/run/bridge", "acme.later", client},
		"respond":       {"http://" + address + "/run/respond", "acme.now", client},
		"direct":        {upstream.URL + "/run/now", "acme.now", client},
	}
}

// benchAddress is where a server listens.
func benchAddress(s *caddyhttp.Server) (string, error) {
	for _, l := range s.Listeners() {
		if address, ok := l.Addr().(*net.TCPAddr); ok {
			return address.String(), nil
		}
	}
	return "", errors.New("the server listens nowhere")
}

// BenchmarkHandler sends JSON-RPC calls over loopback HTTP to a whole Caddy, 64 at
// a time over connections that are kept. The targets are
//
//   - bridge: the handler, for a skill that completes at once, so that one request
//     to the provider is made;
//   - reverse_proxy: Caddy's, which makes the same request to the same provider,
//     with as many idle connections as the bridge keeps;
//   - async: the handler, for a skill that takes one request to start and two for
//     its status, 1 ms and more apart;
//   - respond: Caddy's static answer, the least that any handler costs;
//   - direct: the provider without Caddy, which is what measuring costs.
//
// Client, Caddy and provider share one process, its processors, its heap and its
// garbage collector. So ns/op and req/s tell how fast the whole of them is, not how
// fast Caddy would be on a machine of its own; B/op and allocs/op are of all three;
// and ratios of these figures are closer to 1 than those of the handlers are. Take
// direct off both sides first:
//
//	(bridge - direct) / (reverse_proxy - direct)
//
// is what the bridge costs as a part of what the proxy does, and (async - bridge) / 2
// what a poll costs together with the provider's part of it. Latencies can't be read
// from it at all.
//
// On a machine that others use, figures taken at different times can't be compared.
// [BenchmarkHandlerRatio] compares within moments; for the rest run it whole several
// times, rather than with -count, which repeats each target by itself:
//
//	for i in 1 2 3 4 5 6; do go test -run '^$' -bench 'Handler$' ./module; done | tee new.txt
//	benchstat -row /body -col /to new.txt
func BenchmarkHandler(b *testing.B) {
	targets := newBenchTargets(b)
	for _, body := range benchBodies {
		for _, name := range []string{"bridge", "reverse_proxy", "async", "respond", "direct"} {
			b.Run("body="+body.name+"/to="+name, func(b *testing.B) {
				target := targets[name]
				text := benchBody(target.skill, body.size)
				if err := target.post(text); err != nil { // documents are read before the clock starts
					b.Fatal(err)
				}
				b.ReportAllocs()
				b.SetParallelism(max(1, benchClients/runtime.GOMAXPROCS(0)))
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if err := target.post(text); err != nil {
							b.Error(err)
							return
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
			})
		}
	}
}

// BenchmarkHandlerRatio compares the bridge with reverse_proxy as [BenchmarkHandler]
// does, but in alternating slices of some hundred requests each, so that whatever
// else the machine does meets both alike. x-reverse_proxy is how many requests the
// bridge answers in the time in which reverse_proxy answers one; one operation is a
// slice of each.
func BenchmarkHandlerRatio(b *testing.B) {
	targets := newBenchTargets(b)
	for _, body := range benchBodies {
		b.Run("body="+body.name, func(b *testing.B) {
			text := benchBody(targets["bridge"].skill, body.size)
			order := []string{"bridge", "reverse_proxy"}
			for _, name := range order { // connections are made before the clock starts
				if _, err := targets[name].slice(text); err != nil {
					b.Fatal(err)
				}
			}
			spent := map[string]time.Duration{}
			for b.Loop() {
				for _, name := range order {
					took, err := targets[name].slice(text)
					if err != nil {
						b.Fatal(err)
					}
					spent[name] += took
				}
				order[0], order[1] = order[1], order[0] // what one leaves to the garbage collector hits both
			}
			b.ReportMetric(float64(spent["reverse_proxy"])/float64(spent["bridge"]), "x-reverse_proxy")
		})
	}
}

// slice sends some requests from each of the clients, and returns how long that took.
func (t *benchTarget) slice(body []byte) (time.Duration, error) {
	const each = 8
	var (
		clients sync.WaitGroup
		first   error
		once    sync.Once
	)
	start := time.Now()
	for range benchClients {
		clients.Go(func() {
			for range each {
				if err := t.post(body); err != nil {
					once.Do(func() { first = err })
					return
				}
			}
		})
	}
	clients.Wait()
	return time.Since(start), first
}
