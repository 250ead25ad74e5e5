package attacks_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/internal/hostile"
)

// hollow answers with compressed bytes of which nothing ever comes out, for as long as
// somebody reads them, and counts them.
func hollow(sent *atomic.Int64) hostile.Action {
	var member bytes.Buffer
	w := gzip.NewWriter(&member)
	_ = w.Close() // to memory
	members := bytes.Repeat(member.Bytes(), 1<<10)
	return func(x *hostile.Exchange) {
		x.Writer.Header().Set("Content-Type", "application/json")
		x.Writer.Header().Set("Content-Encoding", "gzip")
		for {
			n, err := x.Writer.Write(members)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	}
}

// S50: of a compressed body of which nothing comes out, no more is read than of one
// that is as large as it looks, whatever it is the answer to.
func TestS50HollowBodies(t *testing.T) {
	t.Setenv("S_SECRET", "Sesame7Qx")
	p := hostile.NewProvider(t)
	p.Publish(hostile.Skill{ID: "s/plain"}, hostile.Skill{ID: "s/token", Auth: hostile.OAuth2(p.TokenURL())})
	c := hostile.StartCaddy(t, bridge("allow_anonymous", "allow_networks 127.0.0.0/8", provider(p.URL(), "acme",
		"credentials oauth2 {\n\t\t\t\tclient_id me\n\t\t\t\tclient_secret {env.S_SECRET}\n\t\t\t}")))
	const most = 8 << 20 // with what sockets hold
	for name, test := range map[string]struct {
		skill string // of the part
		part  hostile.Part
		call  string
	}{
		"index":      {"", hostile.Index, "acme.s.plain"},
		"descriptor": {"s/plain", hostile.Descriptor, "acme.s.plain"},
		"answer":     {"s/plain", hostile.Invoke, "acme.s.plain"},
		"status":     {"s/plain", hostile.Status, "acme.s.plain"},
		"result":     {"s/plain", hostile.Result, "acme.s.plain"},
		"token":      {"", hostile.Token, "acme.s.token"},
	} {
		t.Run(name, func(t *testing.T) {
			var sent atomic.Int64
			switch test.part {
			case hostile.Status:
				p.On("s/plain", hostile.Invoke, hostile.Accept(0))
			case hostile.Result:
				p.On("s/plain", hostile.Invoke, hostile.AcceptForResult(0))
			}
			p.On(test.skill, test.part, hollow(&sent))
			defer func() {
				p.On(test.skill, test.part, hostile.Usual())
				p.On("s/plain", hostile.Invoke, hostile.Usual())
			}()
			start := time.Now()
			a := c.With(hostile.Timeout(3*time.Second)).Execute(test.call, nil)
			if a.Outcome() == "completed" || a.Outcome() == "INVOCATION_TIMEOUT" {
				t.Errorf("%v after %s", a, time.Since(start))
			}
			if test.part != hostile.Token && !strings.Contains(a.Message, "larger than its content") {
				t.Errorf("the message names no reason: %v", a)
			}
			if n := sent.Load(); n > most {
				t.Errorf("%d bytes were sent", n)
			}
		})
	}
}

// S60: a provider that accepts no token has its token endpoint asked twice, not once for
// each call, and the agent is told when the next token is fetched.
func TestS60RejectedTokens(t *testing.T) {
	t.Setenv("S_SECRET", "Sesame7Qx")
	p := hostile.NewProvider(t)
	p.Publish(hostile.Skill{ID: "s/token", Auth: hostile.OAuth2(p.TokenURL())})
	p.On("s/token", hostile.Invoke, hostile.Respond(http.StatusUnauthorized, ""))
	p.Script("", hostile.Token, func(n int) hostile.Action { return hostile.Issue("token-"+strconv.Itoa(n), time.Hour) })
	c := hostile.StartCaddy(t, hostile.Bridge("allow_anonymous", provider(p.URL(), "acme",
		"credentials oauth2 {\n\t\t\t\tclient_id me\n\t\t\t\tclient_secret {env.S_SECRET}\n\t\t\t}")))
	for i := range 20 {
		a := c.Execute("acme.s.token", nil)
		if a.Outcome() != "AUTH_REQUIRED" {
			t.Errorf("%v", a)
		}
		if i > 0 && (!strings.Contains(a.Message, "at the earliest") || a.Data.Retry == nil) {
			t.Errorf("the agent is not told when: %v", a)
		}
	}
	if n := p.Count("", hostile.Token); n != 2 {
		t.Errorf("%d token requests", n)
	}
	p.On("s/token", hostile.Invoke, hostile.Usual())
	if a := c.Execute("acme.s.token", nil); a.Outcome() != "completed" {
		t.Errorf("once tokens are accepted: %v", a)
	}
}
