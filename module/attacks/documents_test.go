package attacks_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// S28: nothing that an agent sends besides the name decides which document it
// gets, and providers that share a cache get none of each other's: neither what
// one read with its credentials, nor what the index of one says about the other.
func TestS28CachesAreNotPoisoned(t *testing.T) {
	t.Setenv("S_READ", "reading-key")
	victim := hostile.NewProvider(t, hostile.Skill{ID: "victim/pay"})
	attacker := hostile.NewProvider(t, hostile.Skill{ID: "attacker/own"})
	attacker.Publish(
		hostile.Skill{ID: "victim/pay", Edit: func(d hostile.Object) { d["description"] = "Poison." }},                                         // the other's id
		hostile.Skill{ID: "attacker/stolen", DescriptorURL: victim.URLOf("victim/pay", hostile.Descriptor)},                                    // the other's document
		hostile.Skill{ID: "attacker/index", DescriptorURL: victim.URLOf("", hostile.Index)},                                                    // the other's index, as a descriptor
		hostile.Skill{ID: "attacker/query", DescriptorURL: victim.URLOf("victim/pay", hostile.Descriptor) + "?x=1"},                            // another URL of it
		hostile.Skill{ID: "attacker/spelled", DescriptorURL: strings.Replace(victim.URLOf("victim/pay", hostile.Descriptor), "%2F", "%2f", 1)}, // and another
		hostile.Skill{ID: "*"}, hostile.Skill{ID: "attacker/*"}, hostile.Skill{ID: "victim/*"}, hostile.Skill{ID: "victim.pay"},
	)
	// The same origin, with a private view for who has the key.
	views := hostile.NewProvider(t, hostile.Skill{ID: "v/open"}, hostile.Skill{ID: "v/secret"})
	views.Script("", hostile.Index, func(int) hostile.Action {
		return func(x *hostile.Exchange) {
			if x.HTTP.Header.Get("X-Api-Key") == "reading-key" {
				hostile.Usual()(x)
				return
			}
			x.JSON(http.StatusOK, hostile.Object{
				"protocol": hostile.Object{"version": "1.0.0"}, "provider": hostile.Object{"name": "Test"},
				"skills": []hostile.Object{{"id": "v/open", "name": "o", "description": "d", "version": "1.0.0", "capability_type": "api", "access": "public", "descriptor_url": views.URLOf("v/open", hostile.Descriptor)}},
			})
		}
	})
	read := "discovery_credentials api_key {env.S_READ}"
	c := testbed.StartCaddy(t, strings.Replace(testbed.Bridge("allow_anonymous",
		provider(attacker.URL(), "attacker"), provider(victim.URL(), "victim"),
		provider(views.URL(), "insider", read), provider(views.URL(), "outsider")),
		"http://127.0.0.1:{$PORT} {", "http://:{$PORT} {\n\tbind 127.0.0.1", 1))
	// The attacker is read first, and asked with all kinds of headers.
	for _, header := range [][2]string{
		{"X-Forwarded-Host", "evil.example.com"},
		{"Forwarded", "host=evil.example.com"},
		{"X-Original-Url", "/evil"},
		{"Accept", "text/html"},
		{"Accept-Language", "xx"},
		{"Origin", "https://evil.example.com"},
		{"Cookie", "view=evil"},
		{"X-Http-Method-Override", "DELETE"},
		{"Cache-Control", "no-cache"},
	} {
		client := c.With(testbed.Header(header[0], header[1]))
		for _, name := range []string{"attacker.own", "attacker.stolen", "attacker.index", "attacker.query", "attacker.spelled", "attacker.*", "*", "attacker.attacker.*"} {
			client.Execute(name, nil)
			client.Call("describe_skill", hostile.Object{"name": name})
		}
	}
	for _, p := range []*hostile.Provider{attacker, victim} {
		p.MustNotReceive("evil")
	}
	for name, outcome := range map[string]string{
		"attacker.stolen": "VALIDATION_ERROR", "attacker.index": "VALIDATION_ERROR", "attacker.query": "VALIDATION_ERROR", "attacker.spelled": "VALIDATION_ERROR",
		"attacker.victim.pay": "SKILL_NOT_FOUND", "victim.*": "SKILL_NOT_FOUND", "attacker.*": "completed", "attacker.own": "completed",
	} {
		if a := c.Execute(name, nil); a.Outcome() != outcome {
			t.Errorf("%s: want %s, got %v", name, outcome, a)
		}
	}
	if a := c.Execute("*", nil); a.Outcome() == "completed" && attacker.Posts(a.Call) != 1 { // a name as any other, if two ids would else have the same
		t.Errorf("*: %v", a)
	}
	a := c.Execute("victim.pay", nil)
	mustComplete(t, a)
	if victim.Posts(a.Call) != 1 || attacker.Posts(a.Call) != 0 {
		t.Errorf("the call went to the attacker: %v", a)
	}
	if a := c.Call("describe_skill", hostile.Object{"name": "victim.pay"}); strings.Contains(string(a.Body), "Poison") {
		t.Errorf("the attacker describes the victim's skill: %v", a)
	}
	names := c.Names()
	if slices.Contains(names, "outsider.v.secret") || !slices.Contains(names, "insider.v.secret") || !slices.Contains(names, "outsider.v.open") {
		t.Errorf("the views are mixed: %v", names)
	}
	if slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, "victim") && n != "victim.pay" }) {
		t.Errorf("the attacker lists the victim's names: %v", names)
	}
	if a := c.Execute("outsider.v.secret", nil); a.Outcome() != "SKILL_NOT_FOUND" {
		t.Errorf("what was read with a key is used without: %v", a)
	}
}

// inputs are a descriptor's, with one more parameter named "x".
func inputs(schema any) func(hostile.Object) {
	return func(d hostile.Object) {
		d["inputs"] = []hostile.Object{
			{"name": "call", "type": "string", "description": "Which call this is.", "required": false},
			{"name": "x", "type": "any", "description": "X.", "required": false, "schema": schema},
		}
		switch s := schema.(type) {
		case hostile.Object:
			if typ, ok := s["type"].(string); ok {
				d["inputs"].([]hostile.Object)[1]["type"] = typ
			}
		}
	}
}

// S35: no document and no arguments take more than linear time: patterns that make
// other engines backtrack, keys that collide elsewhere, schemas that refer to
// themselves or branch at every level. A schema elsewhere is not fetched.
func TestS35NothingExponential(t *testing.T) {
	canary := hostile.NewCanary(t)
	pipe := hostile.Pipe(t)
	branches := hostile.Object{"type": "string", "maxLength": 1}
	for range 12 { // 2^12 ways
		branches = hostile.Object{"anyOf": []any{branches, branches}}
	}
	definitions := hostile.Object{"d0": hostile.Object{"type": "string", "maxLength": 1}}
	for i := range 60 { // 2^60 ways
		below := hostile.Object{"$ref": "#/$defs/d" + strconv.Itoa(i)}
		definitions["d"+strconv.Itoa(i+1)] = hostile.Object{"anyOf": []any{below, below}}
	}
	deep := strings.Repeat("a", 20_000) + "!"
	keys := make(hostile.Object, 50_000)
	for i := range 50_000 {
		keys["k"+strconv.Itoa(i)] = 1
	}
	p := hostile.NewProvider(t)
	c := testbed.StartCaddy(t, testbed.Bridge("cache {\n\tttl 0s\n\tnegative_ttl 0s\n\tstale_if_error 0s\n}", "allow_ports "+canary.Port(), provider(p.URL(), "acme")))
	for _, test := range []struct {
		name    string
		schema  any
		x       any
		outcome string // "": any, but soon
	}{
		{"backtracking", hostile.Object{"type": "string", "pattern": `^(a+)+$`}, deep, "-32602"},
		{"more backtracking", hostile.Object{"type": "string", "pattern": `^(([a-z])+.)+[A-Z]([a-z])+$`}, deep, "-32602"},
		{"alternatives", hostile.Object{"type": "string", "pattern": `^(a|aa|a|aaa)*$`}, deep, "-32602"},
		{"repetition", hostile.Object{"type": "string", "pattern": `^((((a{1,9}){1,9}){1,9}){1,9}){1,9}$`}, deep, ""},
		{"a loop", hostile.Object{"$ref": "#"}, "x", ""},
		{"a loop of two", hostile.Object{"$ref": "#/$defs/a", "$defs": hostile.Object{"a": hostile.Object{"$ref": "#/$defs/b"}, "b": hostile.Object{"$ref": "#/$defs/a"}}}, "x", ""},
		{"branches", branches, "xx", ""},
		{"branches by reference", hostile.Object{"$ref": "#/$defs/d60", "$defs": definitions}, "xx", ""},
		{"many patterns", hostile.Object{"type": "object", "patternProperties": patterns(500), "additionalProperties": false}, keys, ""},
		{"unique items", hostile.Object{"type": "array", "uniqueItems": true}, slices.Repeat([]any{hostile.Object{"a": 1}}, 20_000), ""},
		{"all different", hostile.Object{"type": "array", "uniqueItems": true}, numbers(50_000), ""},
		{"colliding keys", hostile.Object{"type": "object"}, keys, "completed"},
		{"schema elsewhere", hostile.Object{"$ref": "http://" + canary.Address() + "/schema.json"}, "x", "VALIDATION_ERROR"},
		{"schema in a file", hostile.Object{"$ref": "file://" + pipe}, "x", "VALIDATION_ERROR"},
		{"metaschema elsewhere", hostile.Object{"$schema": "http://" + canary.Address() + "/meta.json", "type": "string"}, "x", ""},
		{"id elsewhere", hostile.Object{"$id": "http://" + canary.Address() + "/", "$ref": "schema.json"}, "x", "VALIDATION_ERROR"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p.Publish(hostile.Skill{ID: "s/one", Edit: inputs(test.schema)})
			for range 3 {
				a := c.Execute("acme.s.one", hostile.Object{"x": test.x})
				if got := a.Outcome(); test.outcome != "" && got != test.outcome && strconv.Itoa(a.Code) != test.outcome {
					t.Errorf("want %s: %.600s", test.outcome, a.String())
				}
				if a.Took > costlier*10*time.Second || a.Err != nil {
					t.Errorf("took %s: %.600s", a.Took, a.String())
				}
			}
		})
	}
}

func patterns(n int) hostile.Object {
	all := make(hostile.Object, n)
	for i := range n {
		all["^(k+)+"+strconv.Itoa(i)+"$"] = hostile.Object{}
	}
	return all
}

func numbers(n int) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// S36: an index is read up to the limits of bytes (4 MiB here) and skills (10,000),
// within the call's time, and no more than once while the cache says so, however
// often it changes and however often it can't be used.
func TestS36LargeAndRestlessIndexes(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/one"})
	caddyfile := func(lines ...string) string { return testbed.Bridge(append(lines, provider(p.URL(), "acme"))...) }
	c := testbed.StartCaddy(t, caddyfile("cache {\n\tnegative_ttl 10m\n}"))
	restart := func(lines ...string) {
		t.Helper()
		if err := reload(c, caddyfile(lines...)); err != nil {
			t.Fatal(err)
		}
	}
	entry := func(i int) string {
		return fmt.Sprintf(`{"id":"s/n%d","name":"n","description":"d","version":"1.0.0","capability_type":"api","access":"public","descriptor_url":"%s"}`, i, p.URLOf("s/one", hostile.Descriptor))
	}
	index := func(entries string) string {
		return `{"protocol":{"version":"1.0.0"},"provider":{"name":"Test"},"skills":[` + entries + `]}`
	}
	var many strings.Builder
	for i := range 10_001 {
		if i > 0 {
			many.WriteByte(',')
		}
		many.WriteString(entry(i))
	}
	for i, test := range []struct {
		name   string
		action hostile.Action
		says   string
	}{
		{"50 MB", hostile.Respond(http.StatusOK, index(entry(1))+strings.Repeat(" ", 50<<20)), "limits document_size"},
		{"without an end", hostile.EndlessBody(), "limits document_size"},
		{"compressed", hostile.Bomb(1 << 30), "limits document_size"},
		{"10,001 skills", hostile.Respond(http.StatusOK, index(many.String())), "must have at most 10000 entries"},
		{"1,000,000 small values", hostile.Respond(http.StatusOK, index(entry(1)+strings.Repeat(",1", 1_000_000))), ""},
		{"deep", hostile.Respond(http.StatusOK, strings.Repeat(`{"a":`, 1_000_000)), ""},
	} {
		restart(fmt.Sprintf("cache {\n\tnegative_ttl 1%dm\n}", i)) // and so nothing is remembered
		before, heap := p.Count("", hostile.Index), testbed.HeapInUse()
		p.On("", hostile.Index, test.action)
		for range 50 {
			a := c.Execute("acme.s.one", nil)
			if a.Data.Executed != "no" || a.Data.Source != "bridge" || !slices.Contains([]string{"VALIDATION_ERROR", "INVALID_PROVIDER_RESPONSE"}, a.Outcome()) || !strings.Contains(string(a.Body), test.says) {
				t.Errorf("%s: %.600s", test.name, a.String())
				break
			}
		}
		if n := p.Count("", hostile.Index) - before; n != 1 {
			t.Errorf("%s: %d requests", test.name, n)
		}
		requests := p.Requests("", hostile.Index)
		testbed.Eventually(t, 30*time.Second, func() bool { return p.Open() <= 1 }, "the bridge closes the connection")
		if sent := requests[len(requests)-1].Sent(); sent > 24<<20 { // what the kernel buffers is part of it
			t.Errorf("%s: %d bytes were taken", test.name, sent)
		}
		if grown := testbed.HeapInUse() - heap; grown > 100<<20 {
			t.Errorf("%s: %d bytes are kept", test.name, grown)
		}
	}

	restart("cache {\n\tttl 0s\n\tnegative_ttl 0s\n}")
	p.On("", hostile.Index, hostile.DripBody(hostile.Every(50*time.Millisecond), http.StatusOK, index(entry(1))))
	a := c.With(testbed.Timeout(300*time.Millisecond)).Execute("acme.s.one", nil)
	if a.Outcome() != "INVOCATION_TIMEOUT" || a.Data.Executed != "no" || a.Took > 10*time.Second {
		t.Errorf("drip: %v after %s", a, a.Took)
	}

	restart("cache {\n\tttl 10m\n}")
	before := p.Count("", hostile.Index)
	p.Script("", hostile.Index, func(n int) hostile.Action {
		return hostile.Respond(http.StatusOK, index(entry(n)), "Etag", `"`+strconv.Itoa(n)+`"`)
	})
	first := c.Names()
	testbed.Load{Workers: 4, Calls: 400, Do: func(int, int) testbed.Answer { return c.Call("list_skills", nil) }}.Run(t)
	if n := p.Count("", hostile.Index) - before; n != 1 || !slices.Equal(first, c.Names()) {
		t.Errorf("an index that changes with each request was read %d times", n)
	}
}

// S37: what a descriptor or an answer asks for is bounded by the bridge: one call is
// no more than ten invocations with a delay between them, whatever is said of
// retries, and ends with its own time, whatever is said of delays.
func TestS37AmplificationIsBounded(t *testing.T) {
	endpoint := func(members hostile.Object) func(hostile.Object) {
		return func(d hostile.Object) {
			maps.Copy(d["endpoint"].(hostile.Object), members)
		}
	}
	greedy := hostile.Object{"max_attempts": 1_000_000_000, "backoff_ms": 0}
	p := hostile.NewProvider(t,
		hostile.Skill{ID: "s/retry", Edit: endpoint(hostile.Object{"retry": greedy})},
		hostile.Skill{ID: "s/get", Edit: endpoint(hostile.Object{"retry": greedy, "method": "GET"})},
		hostile.Skill{ID: "s/reset", Edit: endpoint(hostile.Object{"retry": greedy, "method": "GET"})},
		hostile.Skill{ID: "s/late", Edit: endpoint(hostile.Object{"timeout_ms": 1_000_000_000_000})},
		hostile.Skill{ID: "s/huge", Edit: endpoint(hostile.Object{"retry": hostile.Object{"max_attempts": 3, "backoff_ms": 1_000_000_000_000}})},
		hostile.Skill{ID: "s/usual"},
	)
	c := testbed.StartCaddy(t, testbed.Bridge("circuit_breaker off", "poll_interval 20ms 50ms", "timeout 20s 30s", provider(p.URL(), "acme")))
	for _, name := range c.Names() { // and so no call spends its time with documents
		c.Call("describe_skill", hostile.Object{"name": name})
	}
	greed := func(skill string, action hostile.Action, timeout time.Duration) {
		t.Helper()
		p.On(skill, hostile.Invoke, action)
		a := c.With(testbed.Timeout(timeout)).Execute("acme."+strings.ReplaceAll(skill, "/", "."), nil)
		if n := p.Posts(a.Call); n < 2 || n > 10 || a.Code == 0 {
			t.Errorf("%s: %d invocations for %v", skill, n, a)
		}
		requests := slices.DeleteFunc(p.Requests(skill, hostile.Invoke), func(r *hostile.Request) bool { return r.Call != a.Call })
		for i := 1; i < len(requests); i++ {
			if delay := requests[i].At.Sub(requests[i-1].At); delay < 8*time.Millisecond {
				t.Errorf("%s: repeated after %s", skill, delay)
			}
		}
	}
	if longtest.Runs(longtest.Long) {
		var patient sync.WaitGroup // with time for far more than ten
		patient.Go(func() { greed("s/reset", hostile.Reset(), 25*time.Second) })
		defer patient.Wait()
	}
	greed("s/retry", hostile.Respond(http.StatusServiceUnavailable, "", "Retry-After", "0"), 600*time.Millisecond)
	greed("s/retry", hostile.Problem(http.StatusTooManyRequests, "RATE_LIMITED", "m"), 600*time.Millisecond)
	greed("s/get", hostile.Respond(http.StatusGatewayTimeout, ""), 600*time.Millisecond)

	// Delays without end: the call ends with its time, and nothing is repeated before.
	for _, test := range []struct {
		skill  string
		action hostile.Action
	}{
		{"s/huge", hostile.Respond(http.StatusServiceUnavailable, "")},
		{"s/retry", hostile.Respond(http.StatusTooManyRequests, "", "Retry-After", "1000000000000")},
		{"s/retry", hostile.Respond(http.StatusTooManyRequests, `{"error":{"code":"RATE_LIMITED","message":"m","retry":{"suggested_delay_ms":1e12}}}`)},
		{"s/retry", hostile.Respond(http.StatusTooManyRequests, `{"error":{"code":"RATE_LIMITED","message":"m","retry":{"suggested_delay_ms":1e308}}}`)},
		{"s/retry", hostile.Respond(http.StatusTooManyRequests, "", "Retry-After", "99999999999999999999999999")},
	} {
		p.On(test.skill, hostile.Invoke, test.action)
		a := c.With(testbed.Timeout(5*time.Second)).Execute("acme."+strings.ReplaceAll(test.skill, "/", "."), nil)
		if n := p.Posts(a.Call); n != 1 || a.Code == 0 || a.Took > 10*time.Second {
			t.Errorf("%s: %d invocations within %s: %v", test.skill, n, a.Took, a)
		}
	}

	// What the descriptor has as its timeout is cut to the operator's, also where it is told.
	p.On("s/late", hostile.Invoke)
	mustComplete(t, c.Execute("acme.s.late", nil))
	var invocation struct {
		Context struct {
			Timeout float64 `json:"timeout_ms"`
		} `json:"context"`
	}
	late := p.Requests("s/late", hostile.Invoke)
	if err := json.Unmarshal([]byte(late[0].Body), &invocation); err != nil || invocation.Context.Timeout != 30_000 {
		t.Errorf("the timeout that is sent: %v, %v", invocation, err)
	}

	// A run that is never over, and whose polls ask for more at once.
	p.On("s/usual", hostile.Invoke, hostile.Accept(1_000_000))
	var mu sync.Mutex
	var last time.Time
	p.Script("s/usual", hostile.Status, func(n int) hostile.Action {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); n > 1 && now.Sub(last) < 10*time.Millisecond {
			t.Errorf("polled again after %s", now.Sub(last))
		}
		last = time.Now()
		return hostile.Respond(http.StatusOK, `{"execution_id":"run-1","status":"running","retry":{"suggested_delay_ms":0}}`, "Retry-After", "0")
	})
	a := c.With(testbed.Timeout(time.Second)).Execute("acme.s.usual", nil)
	if n := p.Count("s/usual", hostile.Status); a.Outcome() != "failed INVOCATION_TIMEOUT" || n > 60 {
		t.Errorf("%d polls: %v", n, a)
	}
	// This is another skill, since a last poll of the run above may still be under way.
	p.On("s/late", hostile.Invoke, hostile.Accept(1_000_000))
	p.On("s/late", hostile.Status, hostile.Respond(http.StatusOK, `{"execution_id":"run-2","status":"running"}`, "Retry-After", "1000000000000"))
	a = c.With(testbed.Timeout(costlier*300*time.Millisecond)).Execute("acme.s.late", nil)
	if n := p.Count("s/late", hostile.Status); a.Outcome() != "failed INVOCATION_TIMEOUT" || n != 1 {
		t.Errorf("%d polls where none was wanted: %v", n, a)
	}
}

// S44: to show a descriptor that was accepted, with an example of a call, costs little more
// than to copy it: its schemas are not read anew for each value that they ask for.
func TestS44WorkOfShowing(t *testing.T) {
	measures(t)
	words := make([]string, 1900)
	for i := range words {
		words[i] = strings.Repeat("w", 26) + strconv.Itoa(i)
	}
	many := hostile.Object{"type": "array", "minItems": 200, "items": hostile.Object{"enum": append([]string{strings.Repeat("x", 1100)}, words...)}}
	numbers := strings.Repeat("1", 1999) + strings.Repeat(".", 1999) // is no item of a list
	p := hostile.NewProvider(t,
		hostile.Skill{ID: "acme/example", Edit: func(d hostile.Object) {
			var list []hostile.Object
			for i := range 4 {
				list = append(list, hostile.Object{"name": "i" + strconv.Itoa(i), "type": "array", "description": "I.", "required": true, "schema": many})
			}
			d["inputs"] = list
		}},
		hostile.Skill{ID: "acme/prose", Edit: func(d hostile.Object) {
			var list []hostile.Object
			for i := range 50 {
				list = append(list, hostile.Object{"name": "i" + strconv.Itoa(i), "type": "string", "description": numbers, "required": false})
			}
			d["inputs"] = list
		}})
	c := testbed.StartProcess(t, testbed.Limits{}, testbed.Bridge("provider "+p.URL()+" {\n\tnamespace acme\n}"))
	for _, name := range []string{"acme.example", "acme.prose"} {
		const calls = 20
		elements := make([]string, calls)
		for i := range elements {
			elements[i] = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"read_skill_file","params":{"name":%q,"path":"SKILL.md"}}`, i, name)
		}
		body, took := "["+strings.Join(elements, ",")+"]", time.Hour
		for range 4 { // the first reads the descriptor
			needed := testbed.Ordinary(t, c.CPU)
			if a := c.Post(body); strings.Count(string(a.Body), `## Example`) != calls {
				t.Fatalf("%s: %.600s", name, a.Body)
			}
			took = min(took, needed()/calls)
		}
		t.Logf("%s: %s of the processor each", name, took)
		if took > 10*time.Millisecond {
			t.Errorf("%s takes %s of the processor each time", name, took)
		}
	}
}

// S44: a page for browsers costs no more because descriptors are large or say what can't be
// seen, and reads the index once, also where neither may be stored.
func TestS44WorkOfPage(t *testing.T) {
	measures(t)
	const skills = 200
	for _, stored := range []bool{true, false} {
		p := hostile.NewProvider(t)
		for i := range skills {
			p.Publish(hostile.Skill{ID: "acme/s" + strconv.Itoa(i), Edit: func(d hostile.Object) {
				d["description"] = "D" + strings.Repeat("\u200e", 80_000)
			}})
		}
		if !stored {
			unstored := func(x *hostile.Exchange) {
				x.Writer.Header().Set("Cache-Control", "no-store")
				hostile.Usual()(x)
			}
			p.On("", hostile.Index, unstored)
		}
		c := testbed.StartProcess(t, testbed.Limits{}, testbed.Bridge("browse", "provider "+p.URL()+" {\n\tnamespace acme\n}"))
		browser := c.With(testbed.Header("Accept", "text/html"))
		read := func() (n int) {
			for i := range skills {
				n += p.Count("acme/s"+strconv.Itoa(i), hostile.Descriptor)
			}
			return n
		}
		show := func(query, what string, n int) {
			indexes, descriptors := p.Count("", hostile.Index), read()
			a := browser.Send(http.MethodGet, c.URL+query, "")
			if a.Status != http.StatusOK || !strings.Contains(string(a.Body), what) {
				t.Fatalf("%q: %d %.500s", query, a.Status, a.Body)
			}
			indexes, descriptors = p.Count("", hostile.Index)-indexes, read()-descriptors
			if indexes > 1 || descriptors > 50 || (descriptors > 0) != (n == 0) {
				t.Errorf("stored: %t: page %d reads %d indexes and %d descriptors", stored, n, indexes, descriptors)
			}
		}
		show("", "acme.s199", 0)
		testbed.Eventually(t, time.Minute, func() bool { // a busy machine does not read all of them for the first page
			before := read()
			browser.Send(http.MethodGet, c.URL, "")
			return read() == before
		}, "the descriptors for the page are read")
		for query, what := range map[string]string{"": "acme.s199", "?skill=acme.s0": "acme.s0", "?q=acme.s1": "acme.s1"} {
			const trials, pages, most = 3, 20, 20 * time.Millisecond // one page takes less than can be measured
			took := time.Hour                                        // the least of all trials: whatever else the machine does only adds to it
			for range trials {
				needed := testbed.Ordinary(t, c.CPU)
				for n := range pages {
					show(query, what, n+1)
				}
				if took = min(took, needed()/pages); took <= most {
					break
				}
			}
			t.Logf("stored: %t: %s of the processor for a page %q", stored, took, query)
			if took > most {
				t.Errorf("stored: %t: a page %q takes %s of the processor", stored, query, took)
			}
		}
	}
}
