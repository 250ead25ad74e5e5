package faults_test

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/internal/guards"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// R5 and R6: whatever ends a connection after the invocation was read, it is not
// repeated, even where the provider consents to repetitions: an answer says that
// it may have been executed.
func TestR05BrokenAfterReading(t *testing.T) {
	testbed.CheckLeaks(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo", Edit: consent(5, 1)})
	for name, action := range map[string]hostile.Action{
		"reset":                        hostile.Reset(),
		"closed":                       hostile.Close(),
		"reset in the body":            hostile.ResetMidBody(),
		"closed in the body":           hostile.Truncate(),
		"closed in a chunk":            hostile.TruncateChunked(),
		"closed in the header":         hostile.Raw("HTTP/1.1 200 OK\r\nContent-Ty"),
		"closed after an early answer": hostile.Interim(3, hostile.Close()),
	} {
		for _, reused := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, connection reused: %t", name, reused), func(t *testing.T) {
				lines := []string{"circuit_breaker off"}
				if !reused {
					lines = append(lines, withoutKeepAlive)
				}
				c := testbed.StartCaddy(t, withProvider(p, lines...))
				p.Script("acme/echo", hostile.Invoke, func(n int) hostile.Action {
					if n%2 == 1 {
						return hostile.Usual() // and so there is a connection to be used again
					}
					return action
				})
				for range 10 {
					want{outcome: "completed"}.check(t, c.Execute("acme.echo", nil))
					a := c.Execute("acme.echo", nil)
					want{"ENDPOINT_UNREACHABLE", "invoke", "maybe", "none", "bridge"}.check(t, a)
					checkOnce(t, p, a)
				}
			})
		}
	}
	checkDuplicates(t, p)
}

// R5: a GET is repeated by package net/http where nobody keeps it from doing so,
// and by the bridge only if the provider consents.
func TestR05OtherMethods(t *testing.T) {
	testbed.CheckLeaks(t)
	for name, test := range map[string]struct {
		method  string
		consent bool
		posts   int
	}{
		"GET":               {http.MethodGet, false, 1},
		"DELETE":            {http.MethodDelete, false, 1},
		"PUT":               {http.MethodPut, false, 1},
		"GET with consent":  {http.MethodGet, true, 2},
		"PUT with consent":  {http.MethodPut, true, 2},
		"POST with consent": {http.MethodPost, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo", Edit: func(d hostile.Object) {
				endpoint("method", test.method)(d)
				if test.consent {
					consent(2, 1)(d)
				}
			}})
			p.On("acme/echo", hostile.Invoke, hostile.Usual(), hostile.Reset())
			c := testbed.StartCaddy(t, withProvider(p))
			want{outcome: "completed"}.check(t, c.Execute("acme.echo", nil))
			a := c.Execute("acme.echo", nil)
			want{"ENDPOINT_UNREACHABLE", "invoke", "maybe", "none", "bridge"}.check(t, a)
			if n := p.Posts(a.Call); n != test.posts {
				t.Errorf("%d invocations, not %d", n, test.posts)
			}
		})
	}
}

// R6: a provider that closes connections as soon as it has answered. Whoever wants
// to use one again may be too late: then the call is made on another connection
// if nothing was written, and not repeated if something was.
func TestR06IdleConnectionRace(t *testing.T) {
	testbed.CheckLeaks(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	c := testbed.StartCaddy(t, withProvider(p, "circuit_breaker off"))
	p.On("acme/echo", hostile.Invoke, hostile.ThenClose(hostile.Usual()))
	r := testbed.Load{
		Workers: 8, Calls: 400,
		Do: func(int, int) testbed.Answer { return c.Execute("acme.echo", nil) },
		Done: func(_, _ int, a testbed.Answer) {
			switch n := p.Posts(a.Call); {
			case n > 1, n == 0 && a.Outcome() == "completed":
				t.Errorf("%d invocations of one call: %s", n, a)
			case n == 0:
				want{outcome: "ENDPOINT_UNREACHABLE", phase: "invoke", source: "bridge"}.check(t, a)
			case a.Outcome() != "completed":
				want{"ENDPOINT_UNREACHABLE", "invoke", "maybe", "none", "bridge"}.check(t, a)
			}
		},
	}.Run(t)
	checkDuplicates(t, p)
	if r.Outcomes["completed"] < r.Total/2 {
		t.Errorf("most calls fail: %s", r)
	}
	t.Log(r)
}

// R7: a header that makes package net/http repeat a request by itself does not
// come from an agent to a provider; and where the provider chose it for its API
// key, it does not have that effect.
func TestR07IdempotencyKey(t *testing.T) {
	testbed.CheckLeaks(t)
	for _, header := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"}, hostile.Skill{ID: "acme/keyed", Auth: hostile.APIKey(header)})
		for skill, sent := range map[string]bool{"echo": false, "keyed": true} {
			t.Run(header+" "+skill, func(t *testing.T) {
				p.Script("acme/"+skill, hostile.Invoke, func(n int) hostile.Action {
					if n%2 == 1 {
						return hostile.Usual()
					}
					return hostile.Reset()
				})
				c := testbed.StartCaddy(t, testbed.Bridge("provider "+p.URL()+" {", "\tnamespace acme", "\tcredentials api_key the-key", "}", "allow_anonymous"))
				const own = "9f2c1c52-6a3e-4b7d-8f0a-"
				p.MustNotReceive(own)
				calls := 0
				execute := func() testbed.Answer { // each has a key of its own, since a repeated key would be one run
					calls++
					return c.With(testbed.Header(header, fmt.Sprintf("%q", fmt.Sprintf("%s%012d", own, calls)))).Execute("acme."+skill, nil)
				}
				for range 5 {
					want{outcome: "completed"}.check(t, execute())
					a := execute()
					want{"ENDPOINT_UNREACHABLE", "invoke", "maybe", "none", "bridge"}.check(t, a)
					checkOnce(t, p, a)
				}
				for _, r := range p.Requests("acme/"+skill, hostile.Invoke) {
					if (r.Header.Get(header) != "") != sent {
						t.Errorf("%s: %v", header, r.Header)
					}
				}
			})
		}
		checkDuplicates(t, p)
	}
}

// R8: an invocation that is never answered ends at the smallest of the deadlines
// of agent, descriptor and operator, which is what the provider was told; the
// request is cancelled then.
func TestR08Hanging(t *testing.T) {
	const short, long = 400, 60_000
	testbed.CheckLeaks(t)
	for name, test := range map[string]struct {
		agent, descriptor int
		operator          string
	}{
		"agent":               {agent: short, descriptor: long},
		"descriptor":          {descriptor: short},
		"operator's default":  {operator: "timeout 400ms"},
		"operator's maximum":  {agent: long, operator: "timeout 300ms 400ms"},
		"of the descriptor's": {descriptor: long, operator: "timeout 300ms 400ms"},
	} {
		t.Run(name, func(t *testing.T) {
			p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo", Edit: func(d hostile.Object) {
				consent(5, 1)(d)
				if test.descriptor > 0 {
					endpoint("timeout_ms", test.descriptor)(d)
				}
			}})
			p.On("acme/echo", hostile.Invoke, hostile.Hang())
			c := testbed.StartCaddy(t, withProvider(p, test.operator))
			c.Call("describe_skill", hostile.Object{"name": "acme.echo"}) // so that its documents take no time
			client := c.Client
			if test.agent > 0 {
				client = c.With(testbed.Param("timeout_ms", test.agent))
			}
			a := client.Execute("acme.echo", nil)
			want{"INVOCATION_TIMEOUT", "invoke", "maybe", "none", "bridge"}.check(t, a)
			checkOnce(t, p, a)
			if string(a.Data.Details) != `{"timeout_ms":400}` || a.Took < short*time.Millisecond || a.Took > patience {
				t.Errorf("after %s: %s", a.Took, a)
			}
			if body := p.Requests("acme/echo", hostile.Invoke)[0].Body; !strings.Contains(body, `"timeout_ms":400}`) {
				t.Errorf("the provider was told otherwise: %s", body)
			}
			testbed.Eventually(t, patience, func() bool { return p.Hanging() == 0 }, "the request is cancelled")
		})
	}
}

// R16: an answer that comes byte by byte, or stops in the middle, ends with the
// call's time.
func TestR16SlowAnswer(t *testing.T) {
	testbed.CheckLeaks(t)
	body := `{"execution_id":"run-1","status":"completed","output":"` + strings.Repeat("a", 1000) + `"}`
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	c := testbed.StartCaddy(t, withProvider(p))
	client := c.With(testbed.Timeout(500 * time.Millisecond))
	want{outcome: "completed"}.check(t, c.Execute("acme.echo", nil))
	for name, action := range map[string]hostile.Action{
		"body by bytes":   hostile.DripBody(hostile.Every(5*time.Millisecond), http.StatusOK, body),
		"header by bytes": hostile.DripHeaders(hostile.Every(5*time.Millisecond), http.StatusOK, body),
		"half a body":     hostile.HangMidBody(),
	} {
		t.Run(name, func(t *testing.T) {
			p.On("acme/echo", hostile.Invoke, action)
			a := client.Execute("acme.echo", nil)
			want{"INVOCATION_TIMEOUT", "invoke", "maybe", "none", "bridge"}.check(t, a)
			checkOnce(t, p, a)
			if a.Took > patience {
				t.Errorf("took %s", a.Took)
			}
			testbed.Eventually(t, patience, func() bool { return p.Hanging() == 0 }, "the request is cancelled")
		})
	}

	// An answer that comes slowly, but comes, is one.
	p.On("acme/echo", hostile.Invoke, hostile.DripBody(hostile.Every(time.Millisecond), http.StatusOK, `{"execution_id":"r","status":"completed","output":1}`))
	want{outcome: "completed"}.check(t, c.Execute("acme.echo", nil))
}

// R16: a body that stands still is given up long before the call's time, as a
// connection that was dropped: an invocation is not repeated, and a poll is.
func TestR16StalledBody(t *testing.T) {
	testbed.CheckLeaks(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo", Edit: consent(5, 1)})
	testbed.Guard(t, func(g *guards.Guards) { g.Reading.BodyTimeout = 100 * time.Millisecond })
	c := testbed.StartCaddy(t, withProvider(p, "timeout 10m"))
	p.On("acme/echo", hostile.Invoke, hostile.HangMidBody())
	a := c.Execute("acme.echo", nil)
	want{"ENDPOINT_UNREACHABLE", "invoke", "maybe", "none", "bridge"}.check(t, a)
	checkOnce(t, p, a)

	p.On("acme/echo", hostile.Invoke, hostile.Accept(0))
	p.On("acme/echo", hostile.Status, hostile.HangMidBody(), hostile.HangMidBody(), hostile.Usual())
	a = c.Execute("acme.echo", nil)
	want{outcome: "completed"}.check(t, a)
	checkOnce(t, p, a)
	testbed.Eventually(t, patience, func() bool { return p.Hanging() == 0 }, "the requests are cancelled")
}

// R17: an answer that is too large, compressed or not, with a length or without,
// in its body or in its header, is INVALID_PROVIDER_RESPONSE, and little more
// than the limit is read of it.
func TestR17TooLarge(t *testing.T) {
	const limit = 64 << 10
	testbed.CheckLeaks(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo", Edit: consent(5, 1)})
	c := testbed.StartCaddy(t, withProvider(p, "max_response_size 64KiB", withoutKeepAlive))
	want{outcome: "completed"}.check(t, c.Execute("acme.echo", nil))
	// What nobody has read lies in the buffers of the kernel: here, in few of them.
	p.OnConnection(func(_ int, conn net.Conn) bool { return conn.(*net.TCPConn).SetWriteBuffer(16<<10) == nil })
	for name, action := range map[string]hostile.Action{
		"endless body":     hostile.EndlessBody(),
		"endless header":   hostile.EndlessHeaders(),
		"long body":        hostile.RawOutput(`"` + strings.Repeat("a", 16<<20) + `"`),
		"bomb":             hostile.Bomb(100 << 20),
		"one byte too far": exactly(limit + 1),
	} {
		t.Run(name, func(t *testing.T) {
			p.On("acme/echo", hostile.Invoke, action)
			a := c.Execute("acme.echo", nil)
			want{"INVALID_PROVIDER_RESPONSE", "invoke", "maybe", "none", "bridge"}.check(t, a)
			checkOnce(t, p, a)
			requests := p.Requests("acme/echo", hostile.Invoke)
			request := requests[len(requests)-1]
			testbed.Eventually(t, patience, func() bool { return p.Open() == 0 }, "the connection is closed")
			if n := request.Sent(); n > limit+2<<20 {
				t.Errorf("%d bytes were taken", n)
			}
		})
	}
	p.On("acme/echo", hostile.Invoke, exactly(limit))
	want{outcome: "completed"}.check(t, c.Execute("acme.echo", nil))
}

// exactly completes a run with an answer of so many bytes.
func exactly(n int) hostile.Action {
	const start, end = `{"execution_id":"run-1","status":"completed","output":"`, `"}`
	return hostile.Respond(http.StatusOK, start+strings.Repeat("a", n-len(start)-len(end))+end)
}

// unusable are bodies that are no InvocationResponse, whatever they look like.
var unusable = map[string]string{
	"nothing":              "",
	"no JSON":              "<html>Sign in to this network</html>",
	"half":                 `{"execution_id":"run-0","status":"completed","output":{"a":`,
	"two values":           `{"execution_id":"run-0","status":"completed"} {}`,
	"null":                 `null`,
	"a list":               `[{"execution_id":"run-0","status":"completed","output":1}]`,
	"a text":               `"completed"`,
	"no status":            `{"execution_id":"run-0","output":1}`,
	"status as a number":   `{"execution_id":"run-0","status":200}`,
	"unknown status":       `{"execution_id":"run-0","status":"sleeping"}`,
	"status in capitals":   `{"execution_id":"run-0","status":"COMPLETED"}`,
	"two statuses":         `{"execution_id":"run-0","status":"completed","status":"failed"}`,
	"two spellings of one": `{"execution_id":"run-0","status":"completed","st\u0061tus":"failed"}`,
	"two ids":              `{"execution_id":"run-0","execution_id":"run-1","status":"completed","output":1}`,
	"bad UTF-8 in the id":  `{"execution_id":"run-` + "\xff" + `","status":"completed","output":1}`,
	"control character":    `{"execution_id":"run-0","status":"completed","output":"` + "\x00" + `"}`,
	"not a number":         `{"execution_id":"run-0","status":"completed","output":NaN}`,
	"comment":              `{"execution_id":"run-0","status":"completed" /* done */}`,
	"10,000 deep":          `{"execution_id":"run-0","status":"completed","output":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`,
	"10,000 deep, open":    strings.Repeat(`{"output":`, 10_000),
}

// R18: answers that are not JSON as it should be, or too deep, are
// INVALID_PROVIDER_RESPONSE wherever they are met. Nothing panics, and what the
// agent reads is JSON.
func TestR18InvalidAnswers(t *testing.T) {
	testbed.CheckLeaks(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo", Edit: consent(5, 1)})
	c := testbed.StartCaddy(t, withProvider(p))
	for name, body := range unusable {
		t.Run(name, func(t *testing.T) {
			answer := hostile.Respond(http.StatusOK, body, "Content-Type", "application/json")
			p.On("acme/echo", hostile.Invoke, answer)
			a := c.Execute("acme.echo", nil)
			want{"INVALID_PROVIDER_RESPONSE", "invoke", "maybe", "none", "bridge"}.check(t, a)
			checkOnce(t, p, a)

			p.On("acme/echo", hostile.Invoke, hostile.Accept(0))
			p.On("acme/echo", hostile.Status, answer)
			before := p.Count("acme/echo", hostile.Status)
			a = c.Execute("acme.echo", nil)
			want{"INVALID_PROVIDER_RESPONSE", "poll", "yes", "follow_run", "bridge"}.check(t, a)
			checkOnce(t, p, a)
			if n := p.Count("acme/echo", hostile.Status) - before; n != 1 || a.Data.ExecutionID == "" {
				t.Errorf("%d polls: %s", n, a)
			}
		})
	}
	checkNoPanic(t, c.Log)
}

// R18: documents that are not JSON as it should be are VALIDATION_ERROR: the
// provider's mistake, for which there is another code than for the agent's.
func TestR18InvalidDocuments(t *testing.T) {
	testbed.CheckLeaks(t)
	for _, name := range []string{"nothing", "no JSON", "half", "two values", "null", "a list", "10,000 deep", "10,000 deep, open", "two statuses", "bad UTF-8"} {
		answer := hostile.Respond(http.StatusOK, unusable[name], "Content-Type", "application/json")
		for part, of := range map[hostile.Part]struct{ phase, next string }{hostile.Index: {"discovery", "ask_operator"}, hostile.Descriptor: {"descriptor", "other_skill"}} {
			t.Run(fmt.Sprintf("%s as %s", name, part), func(t *testing.T) {
				p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
				c := testbed.StartCaddy(t, withProvider(p))
				id := "acme/echo"
				if part == hostile.Index {
					id = ""
				}
				p.On(id, part, answer)
				a := c.Execute("acme.echo", nil)
				want{"VALIDATION_ERROR", of.phase, "no", of.next, "bridge"}.check(t, a)
				if a.Code != -32055 || p.Posts(a.Call) != 0 {
					t.Errorf("%d invocations: %s", p.Posts(a.Call), a)
				}
				checkNoPanic(t, c.Log)
			})
		}
	}
}

// R18: nesting is bounded long before a parser's own limits: 512 levels of an
// answer, 100 of a document, unless the operator says otherwise.
func TestR18Depth(t *testing.T) {
	testbed.CheckLeaks(t)
	p := hostile.NewProvider(t)
	deep := func(id string, depth int) hostile.Skill {
		return hostile.Skill{ID: id, Edit: func(descriptor hostile.Object) {
			nested := any("deep")
			for range depth {
				nested = []any{nested}
			}
			descriptor["extra"] = nested
		}}
	}
	p.Publish(deep("acme/document", 90), deep("acme/deep-document", 200), deep("acme/answer", 0), deep("acme/deep-answer", 0))
	p.On("acme/answer", hostile.Invoke, hostile.NestedOutput(500))
	p.On("acme/deep-answer", hostile.Invoke, hostile.NestedOutput(600))
	c := testbed.StartCaddy(t, withProvider(p))
	for name, w := range map[string]want{
		"acme.document":      {outcome: "completed"},
		"acme.deep-document": {"VALIDATION_ERROR", "descriptor", "no", "other_skill", "bridge"},
		"acme.answer":        {outcome: "completed"},
		"acme.deep-answer":   {"INVALID_PROVIDER_RESPONSE", "invoke", "maybe", "none", "bridge"},
	} {
		w.check(t, c.Execute(name, nil))
	}
}

// R19: a redirect of an invocation, a poll, a result or a token request is not
// followed: nothing reaches the place where it leads. That of a document is, but
// without the credential.
func TestR19Redirects(t *testing.T) {
	const key = "a-key-for-its-own-host"
	testbed.CheckLeaks(t)
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			elsewhere := hostile.NewCanary(t)
			away := hostile.Redirect(status, "http://"+elsewhere.Address()+"/")
			p := hostile.NewProvider(t,
				hostile.Skill{ID: "acme/echo", Auth: hostile.APIKey("X-Key"), Edit: consent(5, 1)},
				hostile.Skill{ID: "acme/tokens"},
			)
			p.Publish(hostile.Skill{ID: "acme/tokens", Auth: hostile.OAuth2(p.TokenURL())})
			c := testbed.StartCaddy(t, withProvider(p, "allow_ports "+elsewhere.Port(), "allow_anonymous",
				"skill pay "+p.URLOf("acme/echo", hostile.Descriptor)+" {", "\tcredentials api_key "+key, "}",
				"skill tokens "+p.URLOf("acme/tokens", hostile.Descriptor)+" {",
				"\tcredentials oauth2 {", "\t\tclient_id bridge", "\t\tclient_secret "+key, "\t}", "}",
			))

			p.On("acme/echo", hostile.Invoke, away)
			a := c.Execute("pay", nil)
			want{"INVALID_PROVIDER_RESPONSE", "invoke", "maybe", "none", "bridge"}.check(t, a)
			checkOnce(t, p, a)

			p.On("acme/echo", hostile.Invoke, hostile.AcceptForResult(0))
			p.On("acme/echo", hostile.Status, away)
			a = c.Execute("pay", nil)
			want{"INVALID_PROVIDER_RESPONSE", "poll", "yes", "follow_run", "bridge"}.check(t, a)
			checkOnce(t, p, a)

			p.On("acme/echo", hostile.Status)
			p.On("acme/echo", hostile.Result, away)
			a = c.Execute("pay", nil)
			want{"INVALID_PROVIDER_RESPONSE", "result", "yes", "follow_run", "bridge"}.check(t, a)
			checkOnce(t, p, a)
			if polls, results := p.Count("acme/echo", hostile.Status), p.Count("acme/echo", hostile.Result); polls != 2 || results != 1 {
				t.Errorf("%d polls and %d requests for the result", polls, results)
			}

			p.On("", hostile.Token, away)
			a = c.Execute("tokens", nil)
			want{"AUTH_REQUIRED", "auth", "no", "ask_operator", ""}.check(t, a)
			if p.Posts(a.Call) != 0 || p.Count("", hostile.Token) != 1 {
				t.Errorf("%d invocations, %d requests for a token", p.Posts(a.Call), p.Count("", hostile.Token))
			}
		})
	}
}

// R19: documents may be redirected, but never take the credential to another host.
func TestR19RedirectedDocuments(t *testing.T) {
	const key = "a-key-for-its-own-host"
	testbed.CheckLeaks(t)
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			other := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
			p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
			other.MustNotReceive(key)
			p.On("", hostile.Index, hostile.Redirect(status, other.URLOf("", hostile.Index)))
			c := testbed.StartCaddy(t, testbed.Bridge(
				"provider "+p.URL()+" {", "\tnamespace acme", "\tdiscovery_credentials api_key "+key, "}", "allow_anonymous", "allow_ports "+other.Port()))
			want{outcome: "completed"}.check(t, c.Execute("acme.echo", nil))
			if len(p.Received(key)) == 0 || other.Count("", hostile.Index) != 1 {
				t.Errorf("%d requests with the key, %d redirected", len(p.Received(key)), other.Count("", hostile.Index))
			}
		})
	}
}

// Answers that are no HTTP, or of another protocol than was asked for, or that
// never get to the point.
func TestNoHTTP(t *testing.T) {
	testbed.CheckLeaks(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo", Edit: consent(5, 1)})
	c := testbed.StartCaddy(t, withProvider(p))
	for name, action := range map[string]hostile.Action{
		"garbage":             hostile.Garbage(),
		"switched protocols":  hostile.SwitchProtocols(),
		"endless interim":     hostile.Interim(-1, hostile.Usual()),
		"negative length":     hostile.Raw("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
		"two lengths":         hostile.Raw("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}"),
		"status of one digit": hostile.Raw("HTTP/1.1 2 OK\r\nContent-Length: 0\r\n\r\n"),
		// Says that it closes the connection: the next case must not find it half closed.
		"no gzip": hostile.Raw("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Encoding: gzip\r\nContent-Length: 20\r\n\r\nthis is no gzip data"),
	} {
		t.Run(name, func(t *testing.T) {
			p.On("acme/echo", hostile.Invoke, action)
			a := c.Execute("acme.echo", nil)
			want{outcome: "INVALID_PROVIDER_RESPONSE", phase: "invoke", executed: "maybe", next: "none"}.check(t, a)
			checkOnce(t, p, a)
		})
	}
	p.On("acme/echo", hostile.Invoke)
	want{outcome: "completed"}.check(t, c.Execute("acme.echo", nil))
	checkNoPanic(t, c.Log)
}
