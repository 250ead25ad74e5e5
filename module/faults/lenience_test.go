package faults_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// R117: half of a surrogate pair or bytes that are not UTF-8 in an output, and two members of one name, do not lose a run. The agent and the operator learn of it.
func TestR117OutputsThatAreAlmostJSON(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"}, hostile.Skill{ID: "acme/slow"})
	c := testbed.StartCaddy(t, testbed.Bridge(offer(p, "acme")))
	p.On("acme/slow", hostile.Invoke, hostile.Accept(0))
	for i, test := range []struct{ text, output, warning string }{
		{`"cut \ud83d"`, "\"cut \ufffd\"", "surrogate pair"},
		{`{"n":12345678901234567890,"a":["\udc00"]}`, `{"n":12345678901234567890,"a":["�"]}`, "/output/a/0"},
		{"\"caf\xe9\"", "\"caf\ufffd\"", "not UTF-8"},
		{`1,"output":[2]`, `[2]`, "/output"},
		{`1,"foo":1,"foo":2`, `1`, "/foo"},
		{`{"a":1,"b":0.10,"a":2}`, `{"b":0.10,"a":2}`, "the last of several"},
	} {
		p.On("acme/now", hostile.Invoke, hostile.RawOutput(test.text))
		p.On("acme/slow", hostile.Status, hostile.RawOutput(test.text))
		for _, a := range []testbed.Answer{
			c.Execute("acme.now", nil), c.Execute("acme.slow", nil), c.With(testbed.Param("idempotency_key", fmt.Sprintf("7b0e6f0a-3c1d-4e5f-8a9b-%012d", i))).Execute("acme.now", nil),
		} {
			if a.Outcome() != done || string(a.Run().Output) != test.output || !strings.Contains(string(a.Body), `"warnings":[{"reason":"invalid_json"`) || !strings.Contains(string(a.Body), test.warning) {
				t.Errorf("%s: %s", test.text, a.Body)
			}
		}
		if len(c.Log.Lines("is not valid JSON, but was read", test.warning)) == 0 {
			t.Errorf("%s: no warning", test.text)
		}
	}
}

// R118: x-gzip is gzip, and any other content coding is named.
func TestR118ContentCodings(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"})
	c := testbed.StartCaddy(t, testbed.Bridge(offer(p, "acme")))
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(`{"status":"completed","output":1}`))
	_ = z.Close()
	for _, coding := range []string{"x-gzip", "X-GZIP", "identity, gzip"} {
		p.On("acme/now", hostile.Invoke, hostile.Respond(http.StatusOK, packed.String(), "Content-Encoding", coding))
		if a := c.Execute("acme.now", nil); a.Outcome() != done {
			t.Errorf("%s: %v", coding, a)
		}
	}
	for _, coding := range []string{"br", "zstd", "deflate", "gzip, br"} {
		p.On("acme/now", hostile.Invoke, hostile.Respond(http.StatusOK, packed.String(), "Content-Encoding", coding))
		if a := c.Execute("acme.now", nil); a.Outcome() != "INVALID_PROVIDER_RESPONSE" || !strings.Contains(a.Message, coding) {
			t.Errorf("%s: %v", coding, a)
		}
	}
}

// R119: a date in Retry-After is one of the provider's clock.
func TestR119RetryAfterOfAnotherClock(t *testing.T) {
	longtest.Need(t, longtest.Long)
	skews := map[string]time.Duration{"acme/earlier": -time.Hour, "acme/later": time.Hour}
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/earlier"}, hostile.Skill{ID: "acme/later"})
	c := testbed.StartCaddy(t, testbed.Bridge(offer(p, "acme")))
	var calls sync.WaitGroup
	for id, skew := range skews {
		p.On(id, hostile.Invoke, hostile.Accept(0))
		p.On(id, hostile.Status, func(x *hostile.Exchange) {
			date := func(d time.Duration) string { return time.Now().Add(skew + d).UTC().Format(http.TimeFormat) }
			hostile.Respond(http.StatusTooManyRequests, "", "Date", date(0), "Retry-After", date(2*time.Second))(x)
		}, hostile.Usual())
		calls.Go(func() {
			a := c.Execute(strings.ReplaceAll(id, "/", "."), nil)
			if polls := p.Requests(id, hostile.Status); a.Outcome() != done || len(polls) != 2 || polls[1].At.Sub(polls[0].At) < time.Second {
				t.Errorf("skew %v: %d polls: %v", skew, len(polls), a)
			}
		})
	}
	calls.Wait()
}
