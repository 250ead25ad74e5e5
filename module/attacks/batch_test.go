package attacks_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/skill-bridge/caddy-skill-bridge/module/internal/guards"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// large is an output of that size, which can't be compressed well.
func large(size int) string {
	raw := make([]byte, size)
	source := rand.NewChaCha8([32]byte{47})
	_, _ = source.Read(raw) // never fails
	return base64.RawURLEncoding.EncodeToString(raw)[:size]
}

// producing completes each run with an output. Where it is announced, the answer has
// a Content-Length.
func producing(output string, announced bool) hostile.Action {
	return func(x *hostile.Exchange) {
		run := x.Request.Execution
		if run == "" {
			run = "run-" + x.Request.Call
		}
		head, tail := `{"execution_id":"`+run+`","status":"completed","output":"`, `"}`
		x.Writer.Header().Set("Content-Type", "application/json")
		if announced {
			x.Writer.Header().Set("Content-Length", strconv.Itoa(len(head)+len(output)+len(tail)))
		}
		for _, part := range []string{head, output, tail} {
			_, _ = io.WriteString(x.Writer, part) // the bridge may have had enough
		}
	}
}

// element is one answer of a batch.
type element struct {
	ID     int `json:"id"`
	Result *struct {
		Status string         `json:"status"`
		Output jsontext.Value `json:"output"`
	} `json:"result"`
	Error struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    struct {
			testbed.Data
			RunToken string `json:"run_token"`
		} `json:"data"`
	} `json:"error"`
}

// elementsOf reads the answer to a batch, of which it keeps no outputs, and how long it is.
func elementsOf(t *testing.T, body io.Reader) (list []element, size int64) {
	t.Helper()
	d := jsontext.NewDecoder(body)
	if _, err := d.ReadToken(); err != nil {
		t.Fatal(err)
	}
	for d.PeekKind() != ']' {
		text, err := d.ReadValue()
		if err != nil {
			t.Fatal(err)
		}
		var e element
		if err := json.Unmarshal(text, &e); err != nil {
			t.Fatal(err)
		}
		if e.Result != nil {
			e.Result.Output = nil
		}
		if e.ID != len(list) {
			t.Errorf("answer %d is to call %d", len(list), e.ID)
		}
		list = append(list, e)
	}
	if _, err := d.ReadToken(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.ReadToken(); err != io.EOF {
		t.Errorf("after the answer: %v", err)
	}
	return list, d.InputOffset()
}

// highWater is the most memory that a process has occupied.
func highWater(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	kib, err := strconv.ParseInt(string(regexp.MustCompile(`VmHWM:\s*(\d+)`).FindSubmatch(text)[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// S47: however large the outputs of the calls of a batch are, its answer is not
// larger than 20 MiB, and neither is what is kept of it. A call whose
// output does not fit any more is answered with an error that names the limit, says
// that the run was executed, and with which its output can be had.
func TestS47BatchOfLargeOutputs(t *testing.T) {
	const most, size = 20 << 20, 9 << 20
	calls := 25 // more than there may be memory for
	switch {
	case raced:
		calls = 3 // are still more than there is room for
	case longtest.Runs(longtest.Long):
		calls = 50
	}
	output := large(size)
	for name, prepare := range map[string]func(*hostile.Provider){
		"at once":           func(p *hostile.Provider) { p.On("acme/x", hostile.Invoke, producing(output, true)) },
		"of unknown length": func(p *hostile.Provider) { p.On("acme/x", hostile.Invoke, producing(output, false)) },
		"in the end":        func(p *hostile.Provider) { p.On("acme/x", hostile.Invoke, hostile.Accept(1<<30)) },
		"from a result URL": func(p *hostile.Provider) { p.On("acme/x", hostile.Invoke, hostile.AcceptForResult(0)) },
	} {
		t.Run(name, func(t *testing.T) {
			provider := hostile.NewProvider(t, hostile.Skill{ID: "acme/x"}, hostile.Skill{ID: "acme/y"})
			provider.Lean()
			if name == "in the end" {
				provider.On("acme/x", hostile.Status, producing(output, true))
			}
			provider.On("acme/x", hostile.Result, producing(output, true))
			prepare(provider)
			p := testbed.StartProcess(t, testbed.Limits{}, testbed.Bridge("timeout 2m", "provider "+provider.URL()+" {\n\tnamespace acme\n}"))
			mustComplete(t, p.Execute("acme.y", nil))
			before := highWater(t, p.PID())
			response, err := p.HTTP.Post(p.URL, "application/json", strings.NewReader(testbed.Batch(calls, "acme.x")))
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			list, length := elementsOf(t, response.Body)
			completed := 0
			var token string
			for _, e := range list {
				if e.Result != nil && e.Result.Status == "completed" {
					completed++
					continue
				}
				d := e.Error.Data
				if e.Error.Code != -32057 || string(d.Details) != fmt.Sprintf(`{"limit":"answer_size","max":%d}`, most) || d.Executed != "yes" ||
					d.Next != "follow_run" || d.ExecutionID == "" || d.RunToken == "" || d.Source != "bridge" || !strings.Contains(e.Error.Message, "There is no room for this answer (at most ") {
					t.Errorf("%+v", e)
				}
				token = d.RunToken
			}
			if len(list) != calls || completed == 0 || length > most {
				t.Errorf("%d answers of %d bytes, %d of them completed", len(list), length, completed)
			}
			grown := highWater(t, p.PID()) - before
			t.Logf("%d MiB, of which %d runs, %d MiB more memory", length>>20, completed, grown>>20)
			if grown > 10*most*costlier {
				t.Errorf("a process has grown by %d MiB", grown>>20)
			}
			provider.On("acme/x", hostile.Status, producing("later", true))
			mustComplete(t, p.Call("get_run", hostile.Object{"run_token": token}))
		})
	}
}

// S47: what can't be had any more is not promised: the error of a run that has no
// URL to be asked about at says that it was executed, and that nothing helps.
func TestS47OutputThatIsLost(t *testing.T) {
	p := inHouse(t, hostile.Skill{ID: "acme/x", Edit: func(d hostile.Object) {
		delete(d["endpoint"].(hostile.Object), "status_url")
		delete(d["endpoint"].(hostile.Object), "result_url")
	}}, hostile.Skill{ID: "acme/late"}, hostile.Skill{ID: "acme/small"})
	p.On("acme/x", hostile.Invoke, producing(large(50<<10), true))
	late := `{"output":"` + large(50<<10) + `","status":"completed","execution_id":"e"}`
	p.On("acme/late", hostile.Invoke, hostile.Respond(http.StatusOK, late, "Content-Length", strconv.Itoa(len(late))))
	testbed.Guard(t, func(g *guards.Guards) { g.AnswerSize = 0 })
	c := testbed.StartCaddy(t, bridge("allow_networks "+house, "max_response_size 64KiB", provider(p.URL(), "acme")))
	for skill, executed := range map[string]string{"acme.x": "yes", "acme.late": "maybe"} {
		requests := testbed.Batch(5, skill)
		requests = requests[:len(requests)-1] + `,{"jsonrpc":"2.0","id":5,"method":"execute_skill","params":{"name":"acme.small"}}]`
		refused := 0
		list, _ := elementsOf(t, strings.NewReader(string(c.Post(requests).Body)))
		for _, e := range list {
			d := e.Error.Data
			switch {
			case e.Result != nil && e.Result.Status == "completed":
			case e.ID == 5, e.Error.Code != -32057, d.Executed != executed, d.Next != "none", d.RunToken != "", string(d.Details) != `{"limit":"answer_size","max":131072}`:
				t.Errorf("%+v", e)
			default:
				refused++
			}
		}
		if len(list) != 6 || refused != 4 {
			t.Errorf("%s: %d answers, %d of them refused, want 6, 4", skill, len(list), refused)
		}
	}
}

// S47: other methods have no larger answers than calls.
func TestS47BatchOfLargeDescriptions(t *testing.T) {
	skills := make([]hostile.Skill, 35)
	for i := range skills {
		skills[i] = hostile.Skill{ID: "acme/s" + strconv.Itoa(i), EditEntry: func(e hostile.Object) { e["description"] = large(1000) }}
	}
	skills[0].Edit = func(d hostile.Object) {
		var inputs []any
		for i := range 3 { // each answer has all of them, so that ten answers have no room, however few are made at a time
			inputs = append(inputs, hostile.Object{"name": "i" + strconv.Itoa(i), "type": "string", "description": large(6 << 10), "required": false})
		}
		d["inputs"] = inputs
	}
	p := inHouse(t, skills...)
	testbed.Guard(t, func(g *guards.Guards) { g.AnswerSize = 0 })
	c := testbed.StartCaddy(t, bridge("allow_networks "+house, "max_response_size 64KiB", provider(p.URL(), "acme")))
	for _, request := range []string{
		`"method":"list_skills","params":{"detail":"summary"}`,
		`"method":"describe_skill","params":{"name":"acme.s0","detail":"full"}`,
		`"method":"read_skill_file","params":{"name":"acme.s0","path":"descriptor.json"}`,
	} {
		elements := make([]string, 10)
		for i := range elements {
			elements[i] = `{"jsonrpc":"2.0","id":` + strconv.Itoa(i) + `,` + request + `}`
		}
		a := c.Post("[" + strings.Join(elements, ",") + "]")
		list, length := elementsOf(t, strings.NewReader(string(a.Body)))
		fine := 0
		for _, e := range list {
			d := e.Error.Data
			switch {
			case e.Result != nil:
				fine++
			case e.Error.Code != -32057, d.Executed != "no", d.Next != "retry", d.Retry == nil, string(d.Details) != `{"limit":"answer_size","max":131072}`:
				t.Errorf("%s: %+v", request, e)
			}
		}
		if len(list) != 10 || fine == 0 || fine == 10 || length > 128<<10 {
			t.Errorf("%s: %d answers of %d bytes, %d of them fine", request, len(list), length, fine)
		}
	}
}

// S47: the answers of a batch are written in the order of its calls as they come,
// where there is much to write; where there is little, in one piece.
func TestS47BatchIsWrittenAsItEnds(t *testing.T) {
	const size = 1 << 20
	p := inHouse(t, hostile.Skill{ID: "acme/x"}, hostile.Skill{ID: "acme/slow"})
	p.On("acme/x", hostile.Invoke, producing(large(size), false))
	gate := hostile.NewGate(t)
	p.On("acme/slow", hostile.Invoke, gate.Then(producing(large(size), false)))
	c := testbed.StartCaddy(t, bridge("allow_networks "+house, provider(p.URL(), "acme")))
	requests := strings.Replace(testbed.Batch(6, "acme.x"), `"name":"acme.x","args":{"call":"`, `"name":"acme.slow","args":{"call":"slow-`, 3)
	requests = strings.Replace(requests, `"name":"acme.slow"`, `"name":"acme.x"`, 2) // the third is slow
	ctx, giveUp := context.WithTimeout(t.Context(), 20*time.Second)
	defer giveUp()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, strings.NewReader(requests))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.HTTP.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.ContentLength != -1 {
		t.Errorf("a large answer has a length before it has ended: %d", response.ContentLength)
	}
	var start bytes.Buffer
	d := jsontext.NewDecoder(io.TeeReader(response.Body, &start))
	_, err = d.ReadToken()
	for range 2 { // to their last bytes
		if err == nil {
			err = d.SkipValue()
		}
	}
	if err != nil || gate.Waiting() != 1 {
		t.Fatalf("%v, %d wait", err, gate.Waiting())
	}
	gate.Open()
	list, _ := elementsOf(t, io.MultiReader(&start, response.Body))
	for _, e := range list {
		if e.Result == nil || e.Result.Status != "completed" {
			t.Errorf("%+v", e)
		}
	}
	if len(list) != 6 {
		t.Errorf("%d answers", len(list))
	}
	p.On("acme/x", hostile.Invoke)
	a := c.Post(testbed.Batch(3, "acme.x"))
	if a.Header.Get("Content-Length") != strconv.Itoa(len(a.Body)) {
		t.Errorf("a small answer has the length %q", a.Header.Get("Content-Length"))
	}
}

// S47: a client that does not read its answer is left after 30 s without progress,
// whatever stands between the bridge and the connection, and the log says so.
func TestS47ClientThatDoesNotRead(t *testing.T) {
	const size = 9 << 20
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/x"})
	p.Lean()
	p.On("acme/x", hostile.Invoke, producing(large(size), true))
	testbed.Guard(t, func(g *guards.Guards) { // it also bounds how long the provider may pause
		g.Reading.BodyTimeout = 500 * time.Millisecond
		if raced {
			g.Reading.BodyTimeout = 4 * time.Second
		}
	})
	c := testbed.StartCaddy(t, "{\n\tskip_install_trust\n\tservers {\n\t\tprotocols h1 h2 h2c\n\t}\n}\n"+testbed.Site(
		"log", "encode gzip zstd", "@x header X-X x", "intercept {\n\t@500 status 500\n\thandle_response @500 {\n\t\trespond {rp.status_text} 500\n\t}\n}",
		"skill_bridge /rpc {", "\tallow_http", "\tallow_networks 127.0.0.0/8", "\tprovider "+p.URL()+" {\n\t\tnamespace acme\n\t}", "}"))
	single := strings.Trim(testbed.Batch(1, "acme.x"), "[]")
	for _, test := range []struct {
		name, body, header string
		http2              bool
	}{
		{"single", single, "", false},
		{"single, compressed", single, "Accept-Encoding: gzip\r\n", false},
		{"batch", testbed.Batch(10, "acme.x"), "", false},
		{"batch, compressed", testbed.Batch(10, "acme.x"), "Accept-Encoding: zstd\r\n", false},
		{"single over HTTP/2", single, "", true},
		{"batch over HTTP/2", testbed.Batch(10, "acme.x"), "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", c.Port("PORT")))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			left := func() int { return len(c.Log.Lines("the client did not read its answer", `"level":"info"`)) }
			before := left()
			if test.http2 {
				startHTTP2(t, conn, c, test.body)
			} else {
				_, err = io.WriteString(conn, post(test.header+"Content-Length: "+strconv.Itoa(len(test.body))+"\r\n", test.body))
				if err != nil {
					t.Fatal(err)
				}
			}
			testbed.Eventually(t, 30*time.Second, func() bool { return left() == before+1 }, "the client is left")
			// All that it can still read is the beginning.
			if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if test.http2 {
				if !isReset(conn) {
					t.Error("the stream is not reset")
				}
				return
			}
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if n, err := io.Copy(io.Discard, response.Body); err == nil || n >= size*3/4 {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
	}
	for _, line := range c.Log.Lines("the client did not read its answer") {
		if !strings.Contains(line, `"execution_id":"run-call-`) {
			t.Errorf("no run is named: %s", line)
		}
	}
}

// S47: many who wait for the large output of one run, and do not read it, have no more
// of it kept than there is memory for. The others are told how to have it, and there is room
// again when those who do not read are gone.
func TestS47AnswersOfMany(t *testing.T) {
	const clients, most = 10, 2 // of 9 MiB in 20 MiB: one caller alone has half of 40 MiB
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/x"})
	p.Lean()
	gate := hostile.NewGate(t)
	p.On("acme/x", hostile.Invoke, hostile.Accept(0))
	p.On("acme/x", hostile.Status, gate.Then(producing(large(9<<20), true)))
	c := testbed.StartCaddy(t, testbed.Bridge("provider "+p.URL()+" {\n\tnamespace acme\n}", "limits {\n\tmemory 48MiB\n}"))
	a := c.Call("execute_skill", hostile.Object{"name": "acme.x", "wait_ms": 0})
	var run struct {
		Token string `json:"run_token"`
	}
	if err := json.Unmarshal(a.Result, &run); err != nil || run.Token == "" {
		t.Fatalf("%v", a)
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"get_run","params":{"run_token":"` + run.Token + `","wait_ms":60000}}`
	var conns []net.Conn
	for range clients {
		conns = append(conns, unread(t, c.Port("PORT"), body))
	}
	testbed.Eventually(t, 30*time.Second, func() bool { return gate.Waiting() == 1 }, "they wait")
	gate.Open()
	ended := func(outcome string) int { return len(c.Log.Lines(`"method":"get_run"`, `"outcome":"`+outcome+`"`)) }
	testbed.Eventually(t, 30*time.Second, func() bool { return ended("completed")+ended("rate_limited") == clients }, "all calls have ended")
	if n := ended("completed"); n != most {
		t.Errorf("%d outputs are kept, want %d", n, most)
	}
	refused := 0
	for _, conn := range conns {
		_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(io.LimitReader(response.Body, 1000))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close() // first, so that closing the body does not read the rest
		_ = response.Body.Close()
		if strings.Contains(string(text), `"details":{"limit":"answers","max":41943040}`) && strings.Contains(string(text), `"next":"follow_run"`) {
			refused++
		}
	}
	if refused != clients-most {
		t.Errorf("%d were refused, want %d", refused, clients-most)
	}
	// The bridge learns a little later than this test that the connections are closed.
	testbed.Eventually(t, 30*time.Second, func() bool { return c.Call("get_run", hostile.Object{"run_token": run.Token}).Outcome() == "completed" }, "there is room again")
}

// unread posts a body on a connection of its own, on which next to nothing of the answer is taken unless it is read.
func unread(t *testing.T, port, body string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	if _, err := io.WriteString(conn, post("Content-Length: "+strconv.Itoa(len(body))+"\r\n", body)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// S47: a batch of many answers, each of them small, has no more of them kept for an agent
// than there is memory for: of a batch, 64 KiB do not count. One call of each batch
// goes on: a batch that has ended is not kept any more once the system has all of it to send.
func TestS47SmallAnswersOfBatches(t *testing.T) {
	const clients, calls, size, most = 14, 49, 63 << 10, 20 << 20 // 42 MiB in all; one caller alone has half of the memory for answers
	const beside = clients * (64 << 10)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/x"}, hostile.Skill{ID: "acme/y"}, hostile.Skill{ID: "acme/z"})
	p.Lean()
	gate, last := hostile.NewGate(t), hostile.NewGate(t)
	p.On("acme/x", hostile.Invoke, gate.Then(producing(large(size), true)))
	p.On("acme/z", hostile.Invoke, last.Then(hostile.Complete("z")))
	c := testbed.StartProcess(t, testbed.Limits{}, testbed.Bridge("provider "+p.URL()+" {\n\tnamespace acme\n}", "limits {\n\tmemory 48MiB\n}"))
	var conns []net.Conn
	for range clients {
		conns = append(conns, unread(t, c.Port("PORT"), strings.TrimSuffix(testbed.Batch(1, "acme.z"), "]")+","+strings.TrimPrefix(testbed.Batch(calls, "acme.x"), "[")))
	}
	testbed.Eventually(t, 30*time.Second, func() bool { return gate.Waiting() == clients*calls && last.Waiting() == clients }, "all have begun")
	before := c.InUse()
	gate.Open()
	ended := func(outcome string) int { return len(c.Log.Lines(`"name":"acme.x"`, `"outcome":"`+outcome+`"`)) }
	testbed.Eventually(t, 30*time.Second, func() bool { return ended("completed")+ended("rate_limited") == clients*calls }, "all calls have ended")
	if kept := ended("completed") * size; kept > most+beside || kept < most*9/10 && !raced || kept < most/2 { // many that are read slowly at a time take twice their memory meanwhile
		t.Errorf("%d bytes of outputs are kept, for %d", kept, most)
	}
	if grown := c.InUse() - before; grown > (most+beside)*5/4 && !raced {
		t.Errorf("the process uses %d KiB more, for %d", grown>>10, most)
	} else {
		t.Logf("%d KiB more, of which %d are outputs", grown>>10, ended("completed")*size>>10)
	}
	// What is small by itself has room all the same.
	mustComplete(t, c.Execute("acme.y", nil))
	if a := c.Post(testbed.Batch(20, "acme.y")); strings.Count(string(a.Body), `"status":"completed"`) != 20 {
		t.Errorf("a batch: %s", a.Body)
	}
	// There is room again when they are gone.
	last.Open()
	for _, conn := range conns {
		_ = conn.Close()
	}
	testbed.Eventually(t, 30*time.Second, func() bool {
		return strings.Count(string(c.Post(testbed.Batch(calls, "acme.x")).Body), `"status":"completed"`) == calls
	}, "there is room again")
}

// startHTTP2 makes a request by prior knowledge, whose answer is not let through.
func startHTTP2(t *testing.T, conn net.Conn, c *testbed.Caddy, body string, further ...hpack.HeaderField) {
	t.Helper()
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	var block strings.Builder
	encoder := hpack.NewEncoder(&block)
	for _, f := range append([]hpack.HeaderField{
		{Name: ":method", Value: http.MethodPost},
		{Name: ":scheme", Value: "http"},
		{Name: ":authority", Value: "127.0.0.1:" + c.Port("PORT")},
		{Name: ":path", Value: "/rpc"},
		{Name: "content-type", Value: "application/json"},
	}, further...) {
		_ = encoder.WriteField(f) // to memory
	}
	framer := http2.NewFramer(conn, nil)
	for _, err := range []error{
		framer.WriteSettings(),
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte(block.String()), EndHeaders: true}),
		framer.WriteData(1, true, []byte(body)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// S47: behind an encoder, too, an agent that takes 64 KiB in time gets all of its
// answer; and a batch whose first output is large is compressed.
func TestS47SlowReadersBehindEncode(t *testing.T) { //nolint:tparallel // there is one Caddy at a time in this process
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/x"})
	size := 144 << 10 // 1.8 s
	if longtest.Runs(longtest.Long) {
		size = 400 << 10
	}
	p.On("acme/x", hostile.Invoke, hostile.Complete(large(size)))
	testbed.Guard(t, func(g *guards.Guards) { g.Reading.BodyTimeout = time.Second })
	c := testbed.StartCaddy(t, "{\n\tskip_install_trust\n\tservers {\n\t\tprotocols h1 h2 h2c\n\t}\n}\n"+testbed.Site("encode gzip zstd",
		"skill_bridge /rpc {", "\tallow_http", "\tallow_networks 127.0.0.0/8", "\tprovider "+p.URL()+" {\n\t\tnamespace acme\n\t}", "}"))
	for _, coding := range []string{"gzip", "zstd"} {
		t.Run(coding, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", c.Port("PORT")))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			startHTTP2(t, conn, c, testbed.Batch(1, "acme.x"), hpack.HeaderField{Name: "accept-encoding", Value: coding})
			framer, owed, taken := http2.NewFramer(conn, conn), uint32(0), uint32(0)
			framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
			for {
				frame, err := framer.ReadFrame()
				if err != nil {
					t.Fatal(err)
				}
				switch f := frame.(type) {
				case *http2.MetaHeadersFrame:
					if !strings.Contains(fmt.Sprint(f.Fields), coding) {
						t.Errorf("it is not compressed: %v", f.Fields)
					}
				case *http2.RSTStreamFrame:
					t.Fatalf("cut off after %d bytes: %v", taken, f.ErrCode)
				case *http2.DataFrame:
					n := uint32(len(f.Data()))
					owed, taken = owed+n, taken+n
					if f.StreamEnded() {
						return
					}
				}
				if owed >= 16<<10 {
					time.Sleep(200 * time.Millisecond) // 64 KiB in 0.8 s
					for _, stream := range []uint32{0, 1} {
						if err := framer.WriteWindowUpdate(stream, owed); err != nil {
							t.Fatal(err)
						}
					}
					owed = 0
				}
			}
		})
	}
}

// isReset reads frames until the stream ends.
func isReset(conn net.Conn) bool {
	framer := http2.NewFramer(nil, conn)
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return false
		}
		switch f := frame.(type) {
		case *http2.RSTStreamFrame:
			return true
		case *http2.DataFrame:
			if f.StreamEnded() {
				return false
			}
		}
	}
}
