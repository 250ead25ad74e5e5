package attacks_test

import (
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
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
	c := testbed.StartCaddy(t, bridge("allow_anonymous", "allow_networks 127.0.0.0/8", provider(p.URL(), "acme",
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
			a := c.With(testbed.Timeout(3*time.Second)).Execute(test.call, nil)
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
	c := testbed.StartCaddy(t, testbed.Bridge("allow_anonymous", provider(p.URL(), "acme",
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

// S55: signatures of requests without a body differ, each is of its own request, and
// they are scrubbed like secrets from whatever comes back.
func TestS55Signatures(t *testing.T) {
	t.Setenv("S_SECRET", "Sesame7Qx")
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/signed", Auth: hostile.Object{"type": "custom", "custom": hostile.Object{"instructions": "Sign it.", "parameters": []any{}}}})
	c := testbed.StartCaddy(t, testbed.Bridge("allow_anonymous", "poll_interval 1ms 1ms", provider(p.URL(), "acme",
		"credentials hmac {\n\t\t\t\tsecret {env.S_SECRET}\n\t\t\t}")))
	p.On("s/signed", hostile.Invoke, hostile.Accept(1))
	for range 3 {
		if a := c.Execute("acme.s.signed", nil); a.Outcome() != "completed" {
			t.Fatalf("%v", a)
		}
	}
	seen := map[string]string{}
	sent := slices.Concat(p.Requests("s/signed", hostile.Invoke), p.Requests("s/signed", hostile.Status))
	for _, r := range sent {
		signature := r.Header.Get("X-Signature")
		mac := hmac.New(sha256.New, []byte("Sesame7Qx"))
		mac.Write([]byte(r.Method + "\n" + r.Target + "\n" + r.Body))
		if want := hex.EncodeToString(mac.Sum(nil)); signature != want {
			t.Errorf("%s %s: signature %s, want %s", r.Method, r.Target, signature, want)
		}
		if other, ok := seen[signature]; ok && other != r.Method+r.Target {
			t.Errorf("%s%s and %s have the same signature", r.Method, r.Target, other)
		}
		seen[signature] = r.Method + r.Target
	}
	if len(seen) != 6 { // three invocations and the states of three runs
		t.Errorf("%d signatures of %d requests", len(seen), len(sent))
	}

	// What the provider says of the signatures is not passed on.
	var invoked string
	p.On("s/signed", hostile.Invoke, func(x *hostile.Exchange) {
		invoked = x.HTTP.Header.Get("X-Signature")
		hostile.Accept(0)(x)
	})
	escaped := func(text string) string {
		return strings.ReplaceAll(text, text[:1], `\u00`+hex.EncodeToString([]byte(text[:1])))
	}
	for name, echo := range map[string]func(own string) hostile.Action{
		"output": func(own string) hostile.Action { return hostile.RawOutput(quoted("own " + own + " sha256=" + invoked)) },
		"escaped output": func(own string) hostile.Action {
			return hostile.RawOutput(`["` + escaped(own) + `","` + escaped(invoked) + `"]`)
		},
		"output with more around": func(own string) hostile.Action {
			return hostile.RawOutput(quoted("see /verify/" + own + "/log: " + invoked + "was refused"))
		},
		"failure": func(own string) hostile.Action { return hostile.Fail("OWN", own+" "+invoked) },
		"error": func(own string) hostile.Action {
			return hostile.Problem(http.StatusForbidden, "PERMISSION_DENIED", own+" "+invoked)
		},
	} {
		var own string
		p.On("s/signed", hostile.Status, func(x *hostile.Exchange) {
			own = x.HTTP.Header.Get("X-Signature")
			echo(own)(x)
		})
		a := c.Execute("acme.s.signed", nil)
		if own == "" || invoked == "" || !strings.Contains(string(a.Body), "[redacted]") || strings.Contains(string(a.Body), own) || strings.Contains(string(a.Body), invoked) ||
			strings.Contains(string(a.Body), escaped(own)) {
			t.Errorf("%s: %v", name, a)
		}
	}
	p.On("s/signed", hostile.Invoke, hostile.Problem(http.StatusForbidden, "PERMISSION_DENIED", "no"))
	c.Log.MustNotShow(invoked)
}

// S55: to find a signature takes as long as to read the answer, however often it stands
// there and in which spelling. It took the square of that.
func TestS55RepeatedSignatures(t *testing.T) {
	t.Setenv("S_SECRET", "Sesame7Qx")
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/signed", Auth: hostile.Object{"type": "custom", "custom": hostile.Object{"instructions": "Sign it.", "parameters": []any{}}}})
	c := testbed.StartProcess(t, testbed.Limits{}, testbed.Bridge("allow_anonymous", "poll_interval 20ms 20ms", provider(p.URL(), "acme",
		"credentials hmac {\n\t\t\t\tsecret {env.S_SECRET}\n\t\t\t}")))
	repeat := func(x *hostile.Exchange) string {
		return `["` + strings.Repeat(`\u0061 `+x.HTTP.Header.Get("X-Signature")+`","`, 30_000) + `"]` // 2 MiB
	}
	for name, echo := range map[string]hostile.Action{
		"output": func(x *hostile.Exchange) { hostile.RawOutput(repeat(x))(x) },
		"error":  func(x *hostile.Exchange) { hostile.Problem(http.StatusForbidden, "PERMISSION_DENIED", repeat(x))(x) },
	} {
		p.On("s/signed", hostile.Invoke, hostile.Accept(0))
		p.On("s/signed", hostile.Status, echo)
		before := c.CPU()
		a := c.Execute("acme.s.signed", nil)
		spent := c.CPU() - before
		t.Logf("%s: %v", name, spent)
		if !strings.Contains(string(a.Body), "[redacted]") {
			t.Errorf("%s: %.200s", name, a)
		}
		if spent > 2*time.Second*costlier {
			t.Errorf("%s: %v of processor time", name, spent)
		}
	}
}

// S56: what the query of an endpoint fixes can't be said again by arguments, in any
// spelling that a server may take for the same name.
func TestS56FixedParameters(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		t.Run(method, func(t *testing.T) {
			p := hostile.NewProvider(t)
			const fixed = "tenant=acme&a%5B%5D=1&two+words=x&dotted.name=y&flag"
			p.Publish(hostile.Skill{ID: "s/query", Endpoint: p.URL() + "/run/s%2Fquery?" + fixed, Edit: func(d hostile.Object) {
				d["endpoint"].(hostile.Object)["method"] = method
			}})
			c := testbed.StartCaddy(t, testbed.Bridge(provider(p.URL(), "acme")))
			args := hostile.Object{"city": "Rome"}
			for _, name := range []string{"tenant", "Tenant", "TENANT", " tenant", "tenant[]", "tenant[x]", "tenant\u0000", "a", "a[]", "a[0]", "A[]", "two words", "two+words", "two_words", "dotted.name", "dotted_name", "flag", "Flag"} {
				args[name] = "evil"
			}
			if a := c.Execute("acme.s.query", args); a.Outcome() != "completed" {
				t.Errorf("%v", a)
			}
			var targets []string
			for _, r := range p.Requests("s/query", hostile.Invoke) {
				targets = append(targets, r.Target)
			}
			if len(targets) != 1 || strings.Contains(targets[0], "evil") || !strings.HasPrefix(targets[0], "/run/s%2Fquery?"+fixed+"&") || strings.Count(targets[0], "city=Rome") != 1 {
				t.Errorf("%q", targets)
			}
		})
	}
}

// S57: a key of digits is redacted where it comes back as a number, however that is
// written.
func TestS57KeysOfDigits(t *testing.T) {
	t.Setenv("S_KEY", "0123456789012345678")
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/key", Auth: hostile.APIKey("X-Key")})
	c := testbed.StartCaddy(t, testbed.Bridge("allow_anonymous", provider(p.URL(), "acme", "credentials api_key {env.S_KEY}")))
	for _, echo := range []string{
		`"0123456789012345678"`, "123456789012345678", "-123456789012345678", "1.23456789012345678e17", "123456789012345680", "1.2345678901234568e+17",
		"123456789012345678.0", "1234567890123456780E-1", `{"a":[1,{"b":123456789012345678}]}`,
	} {
		for name, action := range map[string]hostile.Action{
			"output":  hostile.RawOutput(echo),
			"details": hostile.Respond(http.StatusForbidden, `{"error":{"code":"PERMISSION_DENIED","message":"no","details":{"key":`+echo+`}}}`),
			"failure": hostile.Respond(http.StatusOK, `{"execution_id":"run-0","status":"failed","error":{"code":"OWN","message":"no","details":[`+echo+`]}}`),
		} {
			p.On("s/key", hostile.Invoke, action)
			if a := c.Execute("acme.s.key", nil); !strings.Contains(string(a.Body), "redacted") || strings.Contains(string(a.Body), "1234567890") || strings.Contains(string(a.Body), "1.23456789") {
				t.Errorf("%s %s: %v", name, echo, a)
			}
		}
	}
	p.On("s/key", hostile.Invoke, hostile.RawOutput(`[12345678901234567,1e400,0.5,"text"]`))
	if a := c.Execute("acme.s.key", nil); string(a.Run().Output) != `[12345678901234567,1e400,0.5,"text"]` {
		t.Errorf("innocent numbers: %v", a)
	}
}

// R57: of an answer that can't be used is said why, and where.
func TestR57UnusableAnswers(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/answer"})
	c := testbed.StartCaddy(t, testbed.Bridge("circuit_breaker off", provider(p.URL(), "acme")))
	for _, test := range []struct {
		action hostile.Action
		want   []string
	}{
		{hostile.Respond(http.StatusOK, "{}", "X-Large", strings.Repeat("x", 70<<10)), []string{"65536 bytes", "max_response_header"}},
		{hostile.RawOutput(`1,"status":"failed"`), []string{"same name", `/status`, "byte"}},
		{hostile.RawOutput(`["` + "\xff" + `",]`), []string{"not UTF-8", "/output/0"}},
		{hostile.RawOutput(`["\ud800",`), []string{"surrogate", "/output/0"}},
		{hostile.Respond(http.StatusOK, "??", "Content-Encoding", "br"), []string{`Content-Encoding "br"`, "gzip"}},
		{hostile.RawOutput(`[1,}`), []string{"syntax", "/output"}},
		{hostile.Respond(http.StatusOK, `{"status":"completed","output":[1`), []string{"ends too early"}},
		{hostile.Raw("HTTP/1.1 OK\r\n\r\n"), []string{"status line"}},
		{hostile.Raw("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"), []string{"Content-Length"}},
		{hostile.Raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"), []string{"Transfer-Encoding"}},
		{hostile.Respond(http.StatusOK, "no gzip at all", "Content-Encoding", "gzip"), []string{"not gzip"}},
	} {
		p.On("s/answer", hostile.Invoke, test.action)
		a := c.Execute("acme.s.answer", nil)
		for _, want := range test.want {
			if a.Outcome() != "INVALID_PROVIDER_RESPONSE" || !strings.Contains(a.Message, want) {
				t.Errorf("%q is not said: %v", want, a)
			}
		}
	}
}
