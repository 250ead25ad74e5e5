package translate

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
	"github.com/skill-bridge/caddy-skill-bridge/translate/quota"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// raceDetector is set where it runs: it takes memory of its own.
var raceDetector bool

// slowProvider is a benchProvider whose runs go on for some polls.
type slowProvider struct {
	polls int64
	asked atomic.Int64
}

func (p *slowProvider) RoundTrip(r *http.Request) (*http.Response, error) {
	var status string
	switch {
	case r.URL.Path == "/run":
		p.asked.Store(0)
		status = "accepted"
	case strings.HasPrefix(r.URL.Path, "/status/") && p.asked.Add(1) < p.polls:
		status = "running"
	default:
		return benchProvider{}.RoundTrip(r)
	}
	if r.Body != nil {
		_ = r.Body.Close() // it is in memory
	}
	body := []byte(`{"execution_id":"exec-a1b2c3d4","status":"` + status + `"}`)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body))}, nil
}

// TestAllocations bounds what calls take: a few more or less do not matter, but whoever doubles them says so here. There is no network, of which one
// call in Caddy takes about twice as much again.
func TestAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector takes memory of its own")
	}
	call := Call{Caller: run.Caller{TraceID: "4bf92f3577b34da6a3ce929d0e0e4736"}, Name: "acme.skill-50", Inputs: jsonrpc.Object{Text: jsontext.Value(`{"location":"Tokyo","days":5}`)}}
	of := func(bridge *Bridge, provider http.RoundTripper, runs int) int {
		for _, s := range bridge.Catalog().Sections() {
			s.Client.Transport = provider
			s.Client.Polling = skillsharing.Polling{Plan: polling.Backoff{Initial: time.Millisecond}}
		}
		return int(testing.AllocsPerRun(runs, func() {
			if o := bridge.Start(t.Context(), call).Wait(); o.Failure != nil {
				t.Fatal(o.Failure)
			}
		}))
	}
	immediate, one, four := of(newBenchBridge(t, call), benchProvider{}, 1000), of(newBenchBridge(t, call), &slowProvider{polls: 1}, 25), of(newBenchBridge(t, call), &slowProvider{polls: 4}, 25)
	limited := newBenchBridge(t, call)
	limited.config.Quotas = quota.New(&quota.Rules{List: []quota.Rule{
		{Principal: "*", Skills: "*", Rate: quota.Amount{Count: 1e9, Per: time.Millisecond}, Concurrent: 10}, {Principal: "*", Skills: call.Name, Runs: quota.Amount{Count: 1e9, Per: time.Hour}},
	}}, quota.NewCounters(nil))
	if more := of(limited, benchProvider{}, 1000) - immediate; more > 3 {
		t.Errorf("quotas take %d allocations", more)
	}
	if poll := (four - one) / 3; immediate > 40 || poll > 12 {
		t.Errorf("a call that completes at once takes %d allocations, and a poll %d", immediate, poll)
	}
}

// TestAllocationsOfLists: a list of sources whose indexes are fresh takes few allocations for each of them, since they are read one after
// another, without goroutines.
func TestAllocationsOfLists(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector takes memory of its own")
	}
	of := func(n int) float64 {
		sources := make([]catalog.Source, n)
		for i := range sources {
			host := fmt.Sprintf("%d.example.com", i)
			sources[i] = catalog.Source{Namespace: fmt.Sprintf("s%d", i), URL: &url.URL{Scheme: "https", Host: host}, Transport: benchProvider{1}, Partition: host}
		}
		bridge := newBenchBridgeTo(t, sources)
		list := func() {
			if l := bridge.List(t.Context(), Query{ByName: true, Limit: 1}); len(l.Unavailable) > 0 || l.FreshUntil.IsZero() {
				t.Fatal(l.Unavailable)
			}
		}
		list()
		return testing.AllocsPerRun(50, list)
	}
	if each := (of(40) - of(20)) / 20; each > 6 {
		t.Errorf("%v allocations for each source, want at most 6", each)
	}
}
