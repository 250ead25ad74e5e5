package attacks_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// S22: what a provider sends beyond its one answer is dropped, and the connection
// with it, over 1,000 repeats of each kind: the next call is not answered with it,
// and no other provider's ever is. (1,000 for the commonest, 100 for each of the
// others unless slow tests are asked for, and fewer unless long ones are. Within HTTP/1.1, a host that sends an answer at
// the very moment at which it is asked for another one has answered; the calls that
// it can so answer wrongly are its own, which it can answer as it likes anyway.)
func TestS22ResponsesNobodyAskedFor(t *testing.T) {
	const poison = "Poison7Qx"
	repeats, most := 15, 100
	switch {
	case longtest.Runs(longtest.Minutes):
		repeats, most = 1000, 1000
	case longtest.Runs(longtest.Long):
		repeats, most = 100, 1000
	}
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/next"}, hostile.Skill{ID: "s/attacker"})
	other := hostile.NewProvider(t, hostile.Skill{ID: "s/other"})
	other.Lean()
	c := testbed.StartCaddy(t, testbed.Bridge("circuit_breaker off", provider(p.URL(), "acme"), provider(other.URL(), "other")))
	c.Log.Lean()
	second := hostile.Wire(http.StatusOK, `{"execution_id":"run-0","status":"completed","output":"`+poison+`"}`)
	proper := hostile.Wire(http.StatusOK, `{"execution_id":"run-0","status":"completed","output":1}`)
	interim := "HTTP/1.1 103 Early Hints\r\nLink: </" + poison + ">\r\n\r\n"
	for _, test := range []struct {
		name    string
		action  hostile.Action
		repeats int
		outcome string
	}{
		{"two responses", hostile.TwoResponses(poison), most, "completed"},
		{"body on 204", hostile.RawOpen("HTTP/1.1 204 No Content\r\n\r\n" + second), repeats, "INVALID_PROVIDER_RESPONSE"},
		{"length on 204", hostile.RawOpen("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nfalse" + second), repeats, "INVALID_PROVIDER_RESPONSE"},
		{"body on 304", hostile.RawOpen("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nfalse" + second), repeats, "INVALID_PROVIDER_RESPONSE"},
		{"length and chunked", hostile.RawOpen("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + second), repeats, "INVALID_PROVIDER_RESPONSE"},
		{"two lengths", hostile.RawOpen("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 200\r\n\r\n{}" + second), repeats, "INVALID_PROVIDER_RESPONSE"},
		{"after the last chunk", hostile.RawOpen("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + second), repeats, "INVALID_PROVIDER_RESPONSE"},
		{"switched protocols", hostile.SwitchProtocols(), repeats, "INVALID_PROVIDER_RESPONSE"},
		{"interim answers", hostile.RawOpen(strings.Repeat(interim, 5) + proper + second), repeats, "completed"},
		// Each of these is read up to the limit of header bytes.
		{"flood of interim answers", hostile.Interim(-1, hostile.Usual()), 20, "INVALID_PROVIDER_RESPONSE"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p.On("s/attacker", hostile.Invoke, test.action)
			others := testbed.Load{Workers: 2, For: time.Minute, Pace: time.Millisecond, Do: func(int, int) testbed.Answer {
				a := c.Execute("other.s.other", nil)
				if output := string(a.Run().Output); !strings.Contains(output, quoted(a.Call)) {
					t.Errorf("a call of another provider: %v", a)
				}
				return a
			}}.Start(t)
			for range test.repeats {
				a := c.Execute("acme.s.attacker", nil)
				if a.Outcome() != test.outcome || strings.Contains(string(a.Body), poison) {
					t.Fatalf("the attacking answer: %v", a)
				}
				testbed.Eventually(t, 30*time.Second, func() bool { return p.Open() == 0 }, "the connection is dropped")
				if a = c.Execute("acme.s.next", nil); !strings.Contains(string(a.Run().Output), quoted(a.Call)) {
					t.Fatalf("the next call: %v", a)
				}
			}
			others().Only(t, "completed")
		})
	}
}

// S23: no header of a provider reaches the agent, and too many are an error.
func TestS23NoHeaderOfTheProvider(t *testing.T) {
	names := []string{
		"Set-Cookie", "Server-Timing", "Content-Security-Policy", "Location", "Www-Authenticate", "X-Powered-By", "Access-Control-Allow-Origin", "Link",
		"Clear-Site-Data", "Refresh", "Alt-Svc", "Strict-Transport-Security", "Retry-After", "Etag", "Trailer", "Set-Cookie2", "Server", "Via",
	}
	const mark = "FromProvider7Qx"
	header := make([]string, 0, 2*len(names))
	for _, name := range names {
		header = append(header, name, mark)
	}
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/headers"})
	body := `{"execution_id":"run-0","status":"completed","output":1}`
	c := testbed.StartCaddy(t, testbed.Bridge("circuit_breaker off", provider(p.URL(), "acme")))
	// What is sent raw says that the connection ends, or the next call might be sent on
	// it in the moment between the answer and the FIN.
	for name, test := range map[string]struct {
		action  hostile.Action
		outcome string
	}{
		"completed":     {hostile.Respond(http.StatusOK, body, header...), "completed"},
		"unauthorized":  {hostile.Respond(http.StatusUnauthorized, "{}", header...), "AUTH_REQUIRED"},
		"failed":        {hostile.Respond(http.StatusInternalServerError, "oops", header...), "INVALID_PROVIDER_RESPONSE"},
		"redirect":      {hostile.Respond(http.StatusFound, "", header...), "INVALID_PROVIDER_RESPONSE"},
		"trailers":      {hostile.Raw("HTTP/1.1 200 OK\r\nConnection: close\r\nTrailer: Set-Cookie\r\nTransfer-Encoding: chunked\r\n\r\n" + strconv.FormatInt(int64(len(body)), 16) + "\r\n" + body + "\r\n0\r\nSet-Cookie: " + mark + "\r\n\r\n"), "completed"},
		"early":         {hostile.Raw("HTTP/1.1 103 Early Hints\r\nLink: <" + mark + ">\r\nSet-Cookie: " + mark + "\r\n\r\n" + hostile.Wire(http.StatusOK, body, "Connection", "close")), "completed"},
		"large headers": {hostile.Respond(http.StatusOK, body, "X-Large", strings.Repeat("x", 70<<10)), "INVALID_PROVIDER_RESPONSE"},
		"many headers":  {hostile.EndlessHeaders(), "INVALID_PROVIDER_RESPONSE"},
	} {
		p.On("s/headers", hostile.Invoke, test.action)
		a := c.Execute("acme.s.headers", nil)
		if a.Outcome() != test.outcome || a.Status != http.StatusOK {
			t.Errorf("%s: %v", name, a)
		}
		for name, values := range a.Header {
			if !slices.Contains([]string{"Content-Type", "Content-Length", "Cache-Control", "X-Content-Type-Options", "Date", "Server", "Via"}, name) || strings.Contains(strings.Join(values, ""), mark) {
				t.Errorf("the agent gets %s: %q", name, values)
			}
		}
		if a.Header.Get("Content-Type") != "application/json" || a.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers %v", name, a.Header)
		}
	}
}

// S24: in what a provider says about a failure, secrets are replaced, a message is
// one line of bounded length, and details are bounded, and marked as the
// provider's. Its words are otherwise its own: they are passed on as JSON, which
// nothing renders.
func TestS24WordsOfTheProvider(t *testing.T) {
	t.Setenv("S_KEY", awkward(keyMark))
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/key", Auth: hostile.APIKey("X-Key")})
	c := testbed.StartCaddy(t, testbed.Bridge("allow_anonymous", provider(p.URL(), "acme", "credentials api_key {env.S_KEY}")))
	c.Log.MustNotShow(keyMark)
	const control = "line\r\nbreak\x1b[31m\u2028\u202ehidden\ufeff<script>alert(1)</script>"
	long := control + strings.Repeat(awkward(keyMark), 20_000)
	for name, action := range map[string]hostile.Action{
		"unified error": func(x *hostile.Exchange) {
			x.JSON(http.StatusForbidden, hostile.Object{"error": hostile.Object{"code": "PERMISSION_DENIED", "message": long, "details": hostile.Object{"text": long}}})
		},
		"failed run": func(x *hostile.Exchange) {
			x.JSON(http.StatusOK, x.Body("failed", hostile.Object{"error": hostile.Object{"code": long, "message": long, "details": []string{long}, "retry": hostile.Object{"note": long}}}))
		},
		"small details": func(x *hostile.Exchange) {
			x.JSON(http.StatusOK, x.Body("failed", hostile.Object{"error": hostile.Object{"code": "OWN", "message": control, "details": hostile.Object{"key": awkward(keyMark)}}}))
		},
		"status":     func(x *hostile.Exchange) { x.JSON(http.StatusOK, x.Body(long, nil)) },
		"plain":      hostile.Respond(http.StatusInternalServerError, "<html>"+long, "Content-Type", "text/html"),
		"rejection":  hostile.Respond(http.StatusBadRequest, quoted(long)),
		"rejection ": hostile.Respond(http.StatusBadRequest, quoted(awkward(keyMark))),
	} {
		p.On("s/key", hostile.Invoke, action)
		a := c.Execute("acme.s.key", nil)
		run := a.Run()
		if strings.Contains(string(a.Body), keyMark) {
			t.Errorf("%s: the key is shown", name)
		}
		message := a.Message + run.Error.Message + run.Summary
		if strings.ContainsAny(message, "\r\n\x1b\u2028\u202e\ufeff") || len(a.Message) > 4000 || len(run.Error.Message) > 4000 || len(run.Summary) > 4000 {
			t.Errorf("%s: the message of %d bytes %.200q", name, len(message), message)
		}
		if len(a.Body) > 100<<10 {
			t.Errorf("%s: an answer of %d bytes", name, len(a.Body))
		}
		if len(run.Error.Type) > 300 {
			t.Errorf("%s: a type of %d bytes", name, len(run.Error.Type))
		}
		if d := a.Data.Details; len(d) > 0 && strings.Contains(string(d), "redacted") && !strings.Contains(string(a.Body), `"details_source":"provider"`) {
			t.Errorf("%s: the provider's details are not marked as such: %v", name, a)
		}
	}
	for _, line := range c.Log.Lines("call failed") {
		if len(line) > 4000 {
			t.Errorf("a log line of %d bytes", len(line))
		}
	}
}

// S40: what agents and providers choose stays within its line of the log, also as
// Caddy's format for people shows it.
func TestS40LogInjection(t *testing.T) {
	const evil = "x\r\n{\"level\":\"error\",\"msg\":\"injected\"}\n\x1b[31m\x1b]0;title\x07\u2028injected\u0000"
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/echo", Edit: func(d hostile.Object) { d["description"] = evil }})
	p.On("s/echo", hostile.Result, hostile.Fail(evil, evil)) // of an answer that says completed without an output
	for name, format := range map[string]string{"json": "json", "console": "console {\n\t\t\tlevel_format upper\n\t\t}"} {
		t.Run(name, func(t *testing.T) {
			c := testbed.StartCaddy(t, "{\n\tlog {\n\t\tlevel DEBUG\n\t\tformat "+format+"\n\t}\n}\n"+
				strings.Replace(testbed.Bridge("circuit_breaker off", provider(p.URL(), "acme")), "\tskill_bridge", "\tlog\n\tskill_bridge", 1))
			for _, action := range []hostile.Action{
				hostile.Usual(), hostile.Fail(evil, evil), hostile.CompleteAs(evil), hostile.State(evil),
				func(x *hostile.Exchange) {
					x.JSON(http.StatusOK, x.Body("completed", hostile.Object{"skill_id": evil}))
				},
				hostile.Problem(http.StatusForbidden, "PERMISSION_DENIED", evil), hostile.Redirect(http.StatusFound, "/\x1b[31minjected"),
				hostile.Raw("HTTP/1.1 \x1b[31minjected\r\n\r\n"), hostile.Raw("HTTP/1.1 200 \x1b[31minjected\r\nX: \x1b[31m\r\n\r\nx"),
			} {
				p.On("s/echo", hostile.Invoke, action)
				c.Execute("acme.s.echo", nil)
			}
			for _, name := range []string{evil, "acme." + evil, "acme.s.echo" + evil, "acme/" + evil} {
				c.Execute(name, nil)
				c.Call("describe_skill", hostile.Object{"name": name})
				c.Call(name, hostile.Object{"name": name})
				c.Call("list_skills", hostile.Object{"namespace": name, "cursor": name})
			}
			for _, header := range []string{"Traceparent", "Tracestate", "User-Agent", "X-Request-Id"} {
				c.With(testbed.Header(header, "00-\x1b[31minjected-\tx")).Execute("acme.s.echo", nil)
			}
			c.With(testbed.Header("Traceparent", "00-injectedinjectedinjectedinjected-injectedinjected-01")).Execute("acme.s.echo", nil)
			text := c.Log.Text()
			if at := strings.IndexAny(text, "\x1b\x07\x00\r"); at >= 0 {
				t.Errorf("a control character in the log: %q", text[max(0, at-200):at+100])
			}
			start := `{"level":`
			if name == "console" {
				start = time.Now().Format("2006/")
			}
			injected := 0
			for line := range strings.Lines(text) {
				if strings.Contains(line, "injected") {
					injected++
				}
				if !strings.HasPrefix(line, start) && !strings.HasPrefix(line, time.Now().UTC().Format("2006/")) || strings.Contains(line, `"msg":"injected"`) {
					t.Errorf("a line that begins or says otherwise: %q", line)
				}
			}
			if injected == 0 {
				t.Error("nothing of all this was logged")
			}
			c.Stop()
		})
	}
}
