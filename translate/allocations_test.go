package translate

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
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

// TestAllocations holds calls to what they take now: whoever makes them take more,
// or less, says so here. There is no network, of which one call in Caddy takes about
// twice as much again.
func TestAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector takes memory of its own")
	}
	call := Call{Caller: run.Caller{TraceID: "4bf92f3577b34da6a3ce929d0e0e4736"}, Name: "acme.skill-50", Inputs: jsonrpc.Object{Text: jsontext.Value(`{"location":"Tokyo","days":5}`)}}
	of := func(provider http.RoundTripper, runs int) int {
		bridge := newBenchBridge(t, call)
		for _, s := range bridge.Catalog().Sections() {
			s.Client.Transport = provider
			s.Client.Polling = skillsharing.Polling{Plan: polling.Fixed{Interval: time.Millisecond}}
		}
		return int(testing.AllocsPerRun(runs, func() {
			if o := bridge.Start(t.Context(), call).Wait(); o.Failure != nil {
				t.Fatal(o.Failure)
			}
		}))
	}
	immediate, one, four := of(benchProvider{}, 1000), of(&slowProvider{polls: 1}, 25), of(&slowProvider{polls: 4}, 25)
	if got, want := [2]int{immediate, (four - one) / 3}, [2]int{46, 7}; got != want {
		t.Errorf("a call that completes at once and a poll take %v allocations, want %v", got, want)
	}
}
