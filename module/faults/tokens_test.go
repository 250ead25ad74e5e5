package faults_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// protected is a provider with a skill behind its own token endpoint.
func protected(t *testing.T) *hostile.Provider {
	t.Helper()
	p := hostile.NewProvider(t)
	p.Publish(hostile.Skill{ID: "acme/token", Auth: hostile.OAuth2(p.TokenURL())})
	return p
}

// numbered issues tokens that differ.
func numbered(lifetime time.Duration) func(n int) hostile.Action {
	return func(n int) hostile.Action { return hostile.Issue(token(n), lifetime) }
}

func token(n int) string { return fmt.Sprintf("token-%d", n) }

// tokens are those that the requests for a part of the skill carried, with how often.
func tokens(p *hostile.Provider, part hostile.Part) map[string]int {
	sent := map[string]int{}
	for _, r := range p.Requests("acme/token", part) {
		sent[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]++
	}
	return sent
}

// crowding measures how many requests are in an action at a time, at most.
type crowding struct{ now, most atomic.Int64 }

// in holds a request up for a moment, in which others are counted, before the
// action: once that has begun, the client may send the next.
func (c *crowding) in(action hostile.Action) hostile.Action {
	return func(x *hostile.Exchange) {
		n := c.now.Add(1)
		for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
		}
		hostile.Every(3 * time.Millisecond)(x.Gone())
		c.now.Add(-1)
		action(x)
	}
}

// R30: however many calls need a token that is slow to come, it is asked for once
// for each provider, and all calls get it.
func TestR30SlowTokenEndpoint(t *testing.T) {
	leavesNothing(t)
	const calls = 500
	p := protected(t)
	q := hostile.NewProvider(t, hostile.Skill{ID: "beta/token", Auth: hostile.OAuth2(p.TokenURL())})
	gate := hostile.NewGate(t)
	p.On("", hostile.Token, gate.Then(hostile.Usual()))
	credentials := "credentials oauth2 {\n\t\tclient_id bridge\n\t\tclient_secret a-secret\n\t\ttoken_url " + p.TokenURL() + "\n\t}"
	c := testbed.StartCaddy(t, testbed.Bridge("allow_anonymous", offer(p, "acme", credentials), offer(q, "beta", credentials)))
	ctx, written := arrivals(t.Context())
	client := c.With(testbed.Context(ctx))
	stop := testbed.Load{Workers: calls, Calls: calls, Do: func(_, call int) testbed.Answer {
		return client.Execute([]string{"acme.token", "beta.token"}[call%2], nil)
	}}.Start(t)
	testbed.Eventually(t, patience, func() bool { return written.Load() == calls && gate.Waiting() == 2 }, "the calls wait for two tokens")
	gate.Open()
	stop().Only(t, done)
	if n := p.Count("", hostile.Token); n != 2 {
		t.Errorf("%d token requests for two providers, want 2", n)
	}
	onceEach(t, p)
	onceEach(t, q)
}

// R30: a token endpoint that is down, in trouble or unwilling is never asked more
// than once at a time, and nothing is invoked without a token. What it did decides
// the error: without an answer, or with a 5xx, it is unreachable; a refusal is
// AUTH_REQUIRED, which is remembered for a moment.
func TestR30FailingTokenEndpoint(t *testing.T) {
	leavesNothing(t)
	const calls = 500
	for name, tc := range map[string]struct {
		action  hostile.Action // nil: it is down
		outcome string
		once    bool // it is asked only once while that is remembered
	}{
		"refuses connections":       {nil, unreachable, false},
		"resets":                    {hostile.Reset(), unreachable, false},
		"in trouble":                {hostile.Respond(http.StatusInternalServerError, ""), unreachable, false},
		"busy":                      {hostile.Respond(http.StatusTooManyRequests, ""), unreachable, false},
		"refuses the client":        {hostile.Respond(http.StatusUnauthorized, `{"error":"invalid_client"}`), "AUTH_REQUIRED", true},
		"refuses the scope":         {hostile.Respond(http.StatusBadRequest, `{"error":"invalid_scope"}`), "AUTH_REQUIRED", true},
		"is not there":              {hostile.Respond(http.StatusNotFound, ""), "AUTH_REQUIRED", true},
		"answers with another type": {hostile.Respond(http.StatusOK, `{"access_token":"x","token_type":"mac"}`), "AUTH_REQUIRED", false},
	} {
		t.Run(name, func(t *testing.T) {
			issuer := hostile.NewProvider(t) // a host of its own, so that it alone can be down
			p := hostile.NewProvider(t, hostile.Skill{ID: "acme/token", Auth: hostile.OAuth2(issuer.TokenURL())})
			var crowd crowding
			if tc.action == nil {
				issuer.Down()
			} else {
				issuer.On("", hostile.Token, crowd.in(tc.action))
			}
			c := testbed.StartCaddy(t, testbed.Bridge("allow_anonymous", "circuit_breaker off", offer(p, "acme",
				"credentials oauth2 {\n\t\tclient_id bridge\n\t\tclient_secret a-secret\n\t\ttoken_url "+issuer.TokenURL()+"\n\t}")))
			report := testbed.Load{Workers: 50, Calls: calls, Do: func(int, int) testbed.Answer { return c.Execute("acme.token", nil) }, Done: func(_, _ int, a testbed.Answer) {
				if a.Data.Executed != "no" || a.Data.Phase != "auth" {
					t.Errorf("%v", a)
				}
			}}.Run(t)
			report.Only(t, tc.outcome)
			if n := crowd.most.Load(); n > 1 {
				t.Errorf("%d token requests at a time", n)
			}
			if n := issuer.Count("", hostile.Token); n == 0 && tc.action != nil || tc.once && n > 1+int(report.Elapsed/(5*time.Second)) || n > calls { // a refusal is remembered for 5 s
				t.Errorf("%d token requests", n)
			}
			if warned := c.Log.Lines(`"level":"warn"`, issuer.TokenURL(), `"phase":"auth"`); len(warned) == 0 {
				t.Error("no warning names the token endpoint")
			} else if code := "invalid_client"; name == "refuses the client" && !strings.Contains(warned[0], code) {
				t.Errorf("why is not in %s", warned[0])
			}
			if n := p.Count("acme/token", hostile.Invoke); n != 0 {
				t.Errorf("%d invocations without a token", n)
			}
		})
	}
}

// R30: a token is used for as long as it is valid, though its endpoint has failed
// to replace it ahead of time; afterwards there is none.
func TestR30TokenOutlivesItsEndpoint(t *testing.T) {
	longtest.Need(t, longtest.Long)
	leavesNothing(t)
	const lifetime = 2 * time.Second
	p := protected(t)
	p.On("", hostile.Token, hostile.Issue(token(1), lifetime), hostile.Respond(http.StatusServiceUnavailable, ""))
	c := testbed.StartCaddy(t, testbed.Bridge("allow_anonymous", "circuit_breaker off", offer(p, "acme", oauth2("a-secret"))))
	start := time.Now()
	for calls := 0; ; calls++ {
		a := c.Execute("acme.token", nil)
		if a.Outcome() == done {
			continue
		}
		if age := time.Since(start); age < lifetime || a.Outcome() != unreachable {
			t.Errorf("%s after the token was issued, call %d: %v", age, calls, a)
		}
		break
	}
	if sent := tokens(p, hostile.Invoke); len(sent) != 1 || sent[token(1)] < 2 {
		t.Errorf("the tokens sent were %v", sent)
	}
}

// R31: a token that the provider no longer takes is replaced once and the request
// that it refused repeated once, be it the invocation (401 says that it was not
// executed) or a poll, for which nothing is invoked again.
func TestR31Unauthorized(t *testing.T) {
	leavesNothing(t)
	refuse := hostile.Respond(http.StatusUnauthorized, "")
	for name, tc := range map[string]struct {
		invoke, status []hostile.Action
		outcome        string
		invoked, asked map[string]int // with which token, how often
	}{
		"invocation once": {
			invoke: []hostile.Action{refuse, hostile.Usual()}, outcome: done,
			invoked: map[string]int{token(1): 1, token(2): 1},
		},
		"invocation always": {
			invoke: []hostile.Action{refuse}, outcome: "AUTH_REQUIRED",
			invoked: map[string]int{token(1): 1, token(2): 1},
		},
		"poll once": {
			invoke: []hostile.Action{hostile.Accept(0)}, status: []hostile.Action{refuse, hostile.Usual()}, outcome: done,
			invoked: map[string]int{token(1): 1}, asked: map[string]int{token(1): 1, token(2): 1},
		},
		"poll always": {
			invoke: []hostile.Action{hostile.Accept(0)}, status: []hostile.Action{refuse}, outcome: "AUTH_REQUIRED",
			invoked: map[string]int{token(1): 1}, asked: map[string]int{token(1): 1, token(2): 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := protected(t)
			p.Script("", hostile.Token, numbered(time.Hour))
			p.On("acme/token", hostile.Invoke, tc.invoke...)
			p.On("acme/token", hostile.Status, tc.status...)
			c := testbed.StartCaddy(t, testbed.Bridge(polling, "allow_anonymous", offer(p, "acme", oauth2("a-secret"))))
			a := c.Execute("acme.token", nil)
			if a.Outcome() != tc.outcome {
				t.Error(a)
			}
			if runs := p.Accepted(a.Call); len(runs) == 1 && a.Code != 0 && (a.Data.ExecutionID != runs[0] || a.Data.Executed != "yes") {
				t.Errorf("the run is %s: %v", runs[0], a)
			}
			if got := tokens(p, hostile.Invoke); !maps.Equal(got, tc.invoked) {
				t.Errorf("invoked with %v, want %v", got, tc.invoked)
			}
			if got := tokens(p, hostile.Status); !maps.Equal(got, tc.asked) {
				t.Errorf("polled with %v, want %v", got, tc.asked)
			}
			if n := p.Count("", hostile.Token); n != 2 {
				t.Errorf("%d token requests, want 2", n)
			}
			onceEach(t, p)
		})
	}
}

// R31: a run that takes longer than its token lives is followed with the next one.
func TestR31TokenExpiresWhilePolling(t *testing.T) {
	leavesNothing(t)
	p := protected(t)
	p.Script("", hostile.Token, numbered(time.Second))
	p.On("acme/token", hostile.Invoke, hostile.Accept(0))
	p.On("acme/token", hostile.Status, func(x *hostile.Exchange) {
		if x.Request.Header.Get("Authorization") == "Bearer "+token(1) {
			hostile.State("running")(x)
			return
		}
		hostile.Usual()(x)
	})
	c := testbed.StartCaddy(t, testbed.Bridge(polling, "allow_anonymous", offer(p, "acme", oauth2("a-secret"))))
	a := c.Execute("acme.token", nil)
	if a.Outcome() != done || p.Posts(a.Call) != 1 || tokens(p, hostile.Status)[token(1)] == 0 {
		t.Errorf("%v; %d posts, polled with %v", a, p.Posts(a.Call), tokens(p, hostile.Status))
	}
}

// R32: a provider whose clock is wrong does not change how long calls, tokens and
// documents last; only a document that seems to be older than it may become is
// asked for each time (RFC 9111, section 4.2.3). (What a jump of the bridge's own clock could change, Go's
// monotonic clock rules out for deadlines and waits; tokens live by the wall
// clock, and one that is kept too long is replaced as R31 shows.)
func TestR32SkewedProvider(t *testing.T) {
	leavesNothing(t)
	for name, tc := range map[string]struct {
		skew    time.Duration
		fetched int // how often each document is, at least
	}{
		"5 minutes slow": {-5 * time.Minute, 1},
		"5 minutes fast": {5 * time.Minute, 1},
		"an hour slow":   {-time.Hour, 3},
		"an hour fast":   {time.Hour, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := protected(t)
			skewed := func(action hostile.Action) hostile.Action {
				return func(x *hostile.Exchange) {
					x.Writer.Header().Set("Date", time.Now().Add(tc.skew).UTC().Format(http.TimeFormat))
					action(x)
				}
			}
			stamps := func(state string, members hostile.Object) hostile.Action {
				return func(x *hostile.Exchange) {
					moment := time.Now().Add(tc.skew).UTC().Format(time.RFC3339)
					body := hostile.Object{"timestamps": hostile.Object{"created_at": moment, "updated_at": moment, "completed_at": moment}}
					maps.Copy(body, members)
					x.JSON(http.StatusOK, x.Body(state, body))
				}
			}
			fresh := func(action hostile.Action) hostile.Action {
				return func(x *hostile.Exchange) {
					now := time.Now().Add(tc.skew).UTC()
					x.Writer.Header().Set("Expires", now.Add(10*time.Minute).Format(http.TimeFormat))
					skewed(action)(x)
				}
			}
			p.On("", hostile.Index, fresh(hostile.Usual()))
			p.On("acme/token", hostile.Descriptor, fresh(hostile.Usual()))
			p.On("", hostile.Token, skewed(hostile.Issue(token(1), time.Hour)))
			p.On("acme/token", hostile.Invoke, skewed(stamps("accepted", hostile.Object{"execution_id": "run-1"})))
			running, completed := stamps("running", nil), stamps("completed", hostile.Object{"output": "fine"})
			p.Script("acme/token", hostile.Status, func(n int) hostile.Action {
				if n%3 != 0 {
					return skewed(running)
				}
				return skewed(completed)
			})
			c := testbed.StartCaddy(t, testbed.Bridge(polling, "allow_anonymous", offer(p, "acme", oauth2("a-secret"))))
			for range 3 {
				if a := c.Execute("acme.token", nil); a.Outcome() != done {
					t.Fatal(a)
				}
			}
			if n := p.Count("", hostile.Token); n != 1 {
				t.Errorf("%d token requests, want 1", n)
			}
			if n := p.Count("", hostile.Index); n < tc.fetched || tc.fetched == 1 && n > 1 {
				t.Errorf("%d requests for the index, want %d", n, tc.fetched)
			}
			if n := p.Count("acme/token", hostile.Descriptor); n < tc.fetched || tc.fetched == 1 && n > 1 {
				t.Errorf("%d requests for the descriptor, want %d", n, tc.fetched)
			}
			if n := p.Count("acme/token", hostile.Status); n != 9 {
				t.Errorf("%d polls, want 9", n)
			}
		})
	}
}

// R56: how long a token endpoint wants to be left alone is what the agent is told, and
// until then it is not asked, whatever it said that with.
func TestR56TokenEndpointAsksToWait(t *testing.T) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			issuer := hostile.NewProvider(t)
			p := hostile.NewProvider(t, hostile.Skill{ID: "acme/token", Auth: hostile.OAuth2(issuer.TokenURL())})
			issuer.On("", hostile.Token, hostile.Respond(status, "", "Retry-After", "300"))
			c := testbed.StartCaddy(t, testbed.Bridge("allow_anonymous", "circuit_breaker off", offer(p, "acme",
				"credentials oauth2 {\n\t\tclient_id bridge\n\t\tclient_secret a-secret\n\t\ttoken_url "+issuer.TokenURL()+"\n\t}")))
			for range 5 {
				a := c.Execute("acme.token", nil)
				if r := a.Data.Retry; a.Outcome() != unreachable || r == nil || r.SuggestedDelayMS < 200_000 || r.SuggestedDelayMS > 300_000 {
					t.Errorf("%v", a)
				}
			}
			if n := issuer.Count("", hostile.Token); n != 1 {
				t.Errorf("%d token requests", n)
			}
		})
	}
}

// R120: token endpoints differ in how they write what is optional, and in the type they serve it with. None of that keeps the bridge from a token,
// or from the error code.
func TestR120TokenAnswers(t *testing.T) {
	leavesNothing(t)
	all := []string{"application/json", "text/plain", "text/html; charset=utf-8"}
	media := func(n int) []string { return all[n%3 : n%3+1] }
	if longtest.Runs(longtest.Long) {
		media = func(int) []string { return all }
	}
	n := 0
	for body, wanted := range map[string]string{
		`{"access_token":"t","token_type":"Bearer","expires_in":3599.87}`:           done,
		`{"access_token":"t","expires_in":""}`:                                      done,
		`{"access_token":"t","token_type":null,"expires_in":null,"scope":["a"]}`:    done,
		`{"access_token":"t","expires_in":"-1","refresh_token":false,"error":null}`: done,
		"\ufeff" + `{"access_token":"t","expires_in":1e400}`:                        done,
		"access_token=t&token_type=bearer&expires_in=x":                             done,
		`{"error":"invalid_client"}`:                                                "(invalid_client). Ask the operator of the bridge to check client_id and client_secret, and try auth_style params",
		"\ufeff" + `{"error":"invalid_scope","expires_in":""}`:                      "(invalid_scope)",
		"error=unauthorized_client":                                                 "(unauthorized_client)",
		`{"access_token":"t","token_type":"DPoP"}`:                                  "whose type is not Bearer but DPoP",
		`<html>?access_token=t&error=invalid_client</html>`:                         "is not a token response",
	} {
		n++
		for _, media := range media(n) {
			p := protected(t)
			p.On("", hostile.Token, hostile.Respond(http.StatusOK, body, "Content-Type", media))
			c := testbed.StartCaddy(t, testbed.Bridge("allow_anonymous", offer(p, "acme", oauth2("a-secret"))))
			a := c.Execute("acme.token", nil)
			if got := a.Outcome(); got != wanted && !strings.Contains(a.String(), wanted) {
				t.Errorf("%s as %s: %s", body, media, a)
			} else if wanted == done && tokens(p, hostile.Invoke)["t"] != 1 {
				t.Errorf("%s as %s: %v", body, media, tokens(p, hostile.Invoke))
			}
			c.Stop()
		}
	}
}
