package attacks_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	_ "github.com/skill-bridge/caddy-skill-bridge/module"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// agents is the part of a Caddyfile with accounts and a bridge to one provider that serves /rpc and A2A, with further lines.
func agents(p *hostile.Provider, lines ...string) string {
	return strings.Join(append([]string{
		"@known header Authorization *", strings.Replace(testbed.Accounts("ann", "bob"), "basic_auth", "basic_auth @known", 1),
		"skill_bridge {", "\tallow_http", "\tallow_networks 127.0.0.0/8", "\tallow_anonymous", "\tprovider " + p.URL() + " {", "\t\tnamespace acme", "\t}",
		"\tpoll_interval 10ms 50ms", "\trpc", "\ta2a",
	}, append(lines, "}")...), "\n")
}

func user(name string) testbed.Option { return testbed.BasicAuth(name, testbed.Password) }

// send01 sends a message in A2A 0.1 under an id of the client's.
func send01(c *testbed.Client, id string) testbed.Answer {
	return c.With(testbed.Header("A2A-Version", "0.1")).Call("tasks/send", hostile.Object{
		"id": id, "message": hostile.Object{"role": "user", "parts": []hostile.Object{{"type": "text", "text": "hello"}}},
	})
}

// S64: the tasks of others are answered as if they did not exist, in every method; so are those of a caller with the same name at
// another site, and ids that were guessed. Ids are never paths.
func TestS64ForeignTasks(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"}, hostile.Skill{ID: "acme/later"})
	p.On("acme/later", hostile.Invoke, hostile.Accept(1<<30))
	folder := t.TempDir()
	site := func(host, port string) string {
		return "http://" + host + ":{$" + port + "} {\n" + agents(p, "\tname "+host) + "\n}\n"
	}
	c := testbed.StartProcess(t, testbed.Limits{}, site("127.0.0.1", "PORT")+site("localhost", "PORT_OTHER"), "storage file_system "+folder)
	ann, bob, anonymous := c.Agent(user("ann")), c.Agent(user("bob")), c.Agent()
	elsewhere := ann.With()
	elsewhere.URL = "http://localhost:" + c.Port("PORT_OTHER") + "/a2a"
	done, open := ann.Invoke("acme.now", false).Task(), ann.Invoke("acme.later", true).Task()
	if done.State() != "COMPLETED" || open.ID == "" {
		t.Fatalf("%+v, %+v", done, open)
	}
	if a := elsewhere.Invoke("acme.now", false); a.Task().State() != "COMPLETED" {
		t.Fatalf("the other site: %s", a)
	}
	const guessed = "01890a5d-ac96-774b-bcce-b302099a8057"
	shape := func(a testbed.Answer, id string) string { return strings.ReplaceAll(string(a.Body), id, "<id>") }
	for name, stranger := range map[string]*testbed.Client{"bob": bob, "anonymous": anonymous, "ann at another site": elsewhere} {
		for _, method := range []string{"GetTask", "CancelTask", "SubscribeToTask"} {
			want := stranger.Call(method, hostile.Object{"id": guessed})
			for _, id := range []string{done.ID, open.ID} {
				a := stranger.Call(method, hostile.Object{"id": id})
				if a.Code != -32001 || a.Status != want.Status || shape(a, id) != shape(want, guessed) {
					t.Errorf("%s by %s: %s; an unknown task: %s", method, name, a, want)
				}
			}
		}
		params, _ := testbed.Message("acme.now", false)
		params["message"].(hostile.Object)["taskId"] = open.ID
		if a := stranger.Call("SendMessage", params); a.Code != -32001 {
			t.Errorf("a message by %s: %s", name, a)
		}
		for _, listed := range stranger.Call("ListTasks", nil).Page().Tasks {
			if listed.ID == done.ID || listed.ID == open.ID {
				t.Errorf("%s lists a task of ann", name)
			}
		}
	}
	if page := anonymous.Call("ListTasks", nil).Page(); len(page.Tasks) != 0 {
		t.Errorf("an anonymous caller lists %v", page)
	}
	for _, id := range []string{
		"../" + done.ID, done.ID + "/", done.ID + ".1", strings.ToUpper(done.ID), "../../../../etc/passwd", "..", ".", "a/b", `a\b`, "a\x00b", "%2e%2e%2f",
		strings.Repeat("../", 80), "{env.HOME}", "{" + done.ID + "}", "urn:uuid:" + done.ID, " " + done.ID,
	} {
		if a := ann.GetTask(id); a.Code != -32001 && a.Code != -32602 {
			t.Errorf("the id %q: %s", id, a)
		}
	}
	outside, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range outside {
		if name := filepath.Base(file); name != "caddy" && name != "skill_bridge" && name != "locks" && name != "pki" && name != "instance.uuid" && name != "last_clean.json" {
			t.Errorf("an unexpected file in the storage: %s", file)
		}
	}
}

// S64: ids that clients of A2A 0.1 choose are each owner's own, are never paths, and those of anonymous callers are long enough to be
// secrets.
func TestS64NamesOfTasks(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"}, hostile.Skill{ID: "acme/then"})
	folder := t.TempDir()
	c := testbed.StartProcess(t, testbed.Limits{}, testbed.Site(agents(p)), "storage file_system "+folder)
	ann, bob, anonymous := c.Agent(user("ann")), c.Agent(user("bob")), c.Agent()
	get := func(c *testbed.Client, id string) testbed.Answer {
		return c.With(testbed.Header("A2A-Version", "0.1")).Call("tasks/get", hostile.Object{"id": id})
	}
	for _, name := range []string{
		"report", "../../../../../../tmp/x", "/etc/passwd", `..\..\x`, "ids", "20260101", strings.Repeat("x", 256), "{file./etc/passwd}", "..",
	} {
		for who, client := range map[string]*testbed.Client{"ann": ann, "bob": bob} {
			if a := get(client, name); a.Code != -32001 {
				t.Errorf("%s reads %q before it was sent: %s", who, name, a)
			}
			if a := send01(client, name); a.Code != 0 {
				t.Errorf("%s sends %q: %s", who, name, a)
			}
			if a := get(client, name); a.Code != 0 {
				t.Errorf("%s reads %q: %s", who, name, a)
			}
		}
		if a := get(anonymous, name); a.Code != -32001 && a.Code != -32602 {
			t.Errorf("an anonymous caller reads %q: %s", name, a)
		}
	}
	for _, name := range []string{"a\x00b", "a\nb", "\u202egnp.exe", "a\u200bb", "a\ufe0fb", "a\u2028b", "a\u0085b", "a\x1b[2Jb"} { // people read ids in lists and logs
		for _, a := range []testbed.Answer{send01(ann, name), get(ann, name)} {
			if a.Code != -32602 {
				t.Errorf("the id %q: %s", name, a)
			}
		}
	}
	if a := send01(anonymous, "fifteen-letters"); a.Code != -32602 {
		t.Errorf("a short id of an anonymous caller: %s", a)
	}
	if a := send01(anonymous, "sixteen--letters"); a.Code != 0 {
		t.Errorf("a long id of an anonymous caller: %s", a)
	}
	err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		if strings.Contains(path, "report") || strings.Contains(path, "passwd") {
			t.Errorf("a file is named by a client: %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// injection is text that would begin further events if it got into a stream as it is.
const injection = "x\r\n\r\ndata: {\"injected\":1}\n\nevent: injected\rid: 999\n\n\u2028data: y\u2029\u0085data: z\v\f"

// S65: text of providers begins no event of a stream, wherever it is, and reads as it was sent.
func TestS65InjectedEvents(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/text"}, hostile.Skill{ID: "acme/raw"}, hostile.Skill{ID: "acme/fails"}, hostile.Skill{ID: "acme/id"})
	p.On("acme/text", hostile.Invoke, hostile.Complete(injection))
	p.On("acme/raw", hostile.Invoke, hostile.RawOutput("{\r\n\r\n\"a\" :\n\n [1,\r2,\r\n\r\n\"\u2028data: x\"]\r\n}\n\n"))
	p.On("acme/fails", hostile.Invoke, hostile.Fail("EXECUTION_FAILED\r\n\r\ndata: x", injection))
	p.On("acme/id", hostile.Invoke, hostile.CompleteAs("run\r\n\r\ndata: x"))
	c := testbed.StartCaddy(t, testbed.Site(agents(p)))
	for _, version := range []struct{ name, method string }{{"1.0", "SendStreamingMessage"}, {"0.3", "message/stream"}, {"0.1", "tasks/sendSubscribe"}} {
		for _, skill := range []string{"acme.text", "acme.raw", "acme.fails", "acme.id"} {
			message := hostile.Object{"messageId": "m", "role": "user", "kind": "message", "parts": []hostile.Object{{"kind": "text", "type": "text", "text": "go"}}, "metadata": hostile.Object{"skillId": skill}}
			if version.name == "1.0" {
				message["role"] = "ROLE_USER"
			}
			a := c.Agent(testbed.Header("A2A-Version", version.name), testbed.Header("Accept", "text/event-stream")).
				Call(version.method, hostile.Object{"id": "a-task-of-" + skill + "-0123456789", "message": message})
			if a.Status != http.StatusOK || !strings.HasPrefix(a.Header.Get("Content-Type"), "text/event-stream") {
				t.Errorf("%s of %s: %s", version.method, skill, a)
				continue
			}
			events := 0
			body := a.Body
			if version.name == "0.1" { // its streams begin with a comment
				body = bytes.TrimPrefix(body, []byte(": \n\n"))
			}
			for event := range bytes.SplitSeq(bytes.TrimSuffix(body, []byte("\n\n")), []byte("\n\n")) {
				events++
				for _, line := range bytes.FieldsFunc(event, func(r rune) bool { return r == '\n' || r == '\r' }) {
					data, isData := bytes.CutPrefix(line, []byte("data: "))
					if isData && !jsontext.Value(data).IsValid() || !isData && !bytes.HasPrefix(line, []byte("id: ")) || bytes.HasPrefix(line, []byte("id: 999")) {
						t.Errorf("%s of %s has the line %q", version.method, skill, line)
					}
				}
			}
			if events < 2 || events > 4 || bytes.Contains(a.Body, []byte("\r")) {
				t.Errorf("%s of %s has %d events: %q", version.method, skill, events, a.Body)
			}
			if skill == "acme.text" && !bytes.Contains(a.Body, []byte(`x\r\n\r\ndata: {\"injected\":1}`)) {
				t.Errorf("the text has changed: %q", a.Body)
			}
		}
	}
}

// S66: tasks with large outputs are listed on short pages, and the memory of all answers is bounded by limits memory: what has no
// room is refused, and can be read later.
func TestS66LargeOutputs(t *testing.T) {
	t.Parallel()
	const size, room = 9 << 20, 40 << 20
	count, clients := 6, 12
	if longtest.Runs(longtest.Long) {
		count, clients = 12, 24
	}
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/large"})
	p.On("acme/large", hostile.Invoke, hostile.RawOutput(`"`+strings.Repeat("x", size)+`"`))
	c := testbed.StartProcess(t, testbed.Limits{Env: []string{"GOMEMLIMIT=600MiB"}}, testbed.Site(agents(p, fmt.Sprintf("\tlimits {\n\t\tmemory %d\n\t}", room+8<<20))))
	ann := c.Agent(user("ann"))
	var ids []string
	for range count {
		a := ann.Invoke("acme.large", false)
		if len(a.Body) < size {
			t.Fatalf("%.300s", a)
		}
		ids = append(ids, a.Task().ID)
	}
	page, token := 0, ""
	found := map[string]bool{}
	for {
		var a testbed.Answer
		testbed.Eventually(t, 30*time.Second, func() bool { // a client may have read an answer before the bridge has released its memory
			a = ann.Call("ListTasks", hostile.Object{"pageSize": 100, "includeArtifacts": true, "pageToken": token})
			return a.Status != http.StatusTooManyRequests
		}, "there is room for a page")
		if a.Code != 0 || len(a.Body) > size+8<<20 {
			t.Fatalf("a page of %d bytes: %.300s", len(a.Body), a)
		}
		for _, listed := range a.Page().Tasks {
			found[listed.ID] = true
		}
		page++
		if token = a.Page().Next; token == "" {
			break
		}
	}
	if len(found) != count || page != count {
		t.Errorf("%d tasks on %d pages, want %d", len(found), page, count)
	}
	if a := ann.Call("ListTasks", hostile.Object{"pageSize": 100}); len(a.Page().Tasks) != count || len(a.Body) > 1<<20 {
		t.Errorf("without artifacts: %.300s", a)
	}
	var answered, refused atomic.Int64
	testbed.Load{Workers: clients, Calls: 3 * clients, Do: func(worker, _ int) testbed.Answer {
		id := ids[worker%count] // answers with the same task share a text
		a := ann.GetTask(id)
		switch {
		case a.Err == nil && a.Status == http.StatusOK && len(a.Body) > size:
			answered.Add(1)
		case a.Status == http.StatusTooManyRequests && a.Header.Get("Retry-After") != "" && strings.Contains(a.Message, id):
			refused.Add(1)
		default:
			t.Errorf("%.300s", a)
		}
		return testbed.Answer{}
	}}.Run(t)
	// Answers that are written at the same time may all be refused, since each needs room twice.
	testbed.Eventually(t, 30*time.Second, func() bool { return len(ann.GetTask(ids[0]).Body) > size }, "there is room for one answer")
	t.Logf("%d answered, %d refused; %d MiB resident", answered.Load(), refused.Load(), c.RSS()>>20)
	if rss := c.RSS(); !raced && rss > 800<<20 { // the race detector takes memory of its own
		t.Errorf("%d MiB resident", rss>>20)
	}
}

// S67: a flood of runs in the background by one caller is bounded by the open tasks of an owner, and takes no places of others.
func TestS67FloodInTheBackground(t *testing.T) {
	const most = 50
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/later"}, hostile.Skill{ID: "acme/now"})
	p.On("acme/later", hostile.Invoke, hostile.Accept(1<<30))
	c := testbed.StartProcess(t, testbed.Limits{}, testbed.Site(agents(p, fmt.Sprintf("\tlimits {\n\t\truns 4 4\n\t}\n\tkeep 24h 10000 %d", most))))
	stranger, ann := c.Agent(), c.Agent(user("ann"))
	begun, tried := 0, 0
	for ; tried < 4*most; tried++ {
		a := stranger.Invoke("acme.later", true)
		switch {
		case a.Task().ID != "":
			begun++
		case a.Status != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "":
			t.Errorf("a refusal: %s", a)
		}
	}
	if runs := p.Runs(); begun != most || runs != most {
		t.Errorf("%d tasks and %d runs of %d, want %d", begun, runs, tried, most)
	}
	if a := ann.Invoke("acme.now", false); a.Task().State() != "COMPLETED" {
		t.Errorf("another caller: %s", a)
	}
	if a := c.Execute("acme.now", nil); a.Outcome() != "completed" {
		t.Errorf("/rpc: %s", a)
	}
}

// S399: ended tasks make place for calls with keys as for tasks, so that nobody who fills a share with tasks, as every anonymous caller can, keeps the others from
// using keys. Runs with keys stay, since a key without its run could be used twice.
func TestS399TasksMakePlaceForKeys(t *testing.T) {
	const most = 5
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"})
	c := testbed.StartProcess(t, testbed.Limits{}, testbed.Site(agents(p, fmt.Sprintf("\tkeep 24h 10000 %d", most))))
	stranger := c.Agent()
	for range most + 2 {
		if a := stranger.Invoke("acme.now", false); a.Task().State() != "COMPLETED" {
			t.Fatalf("a task: %s", a)
		}
	}
	call := func(i int) testbed.Answer {
		return c.Call("execute_skill", hostile.Object{"name": "acme.now", "idempotency_key": fmt.Sprintf("01890a5d-ac96-474b-8cce-b302099a805%d", i)})
	}
	first := call(0)
	for i := 1; i < most; i++ {
		mustComplete(t, call(i))
	}
	if a := call(most); a.Code != -32057 {
		t.Errorf("one more key: %s", a)
	}
	mustComplete(t, first)
	if again := call(0); string(again.Result) != string(first.Result) {
		t.Errorf("%s, not %s", again, first)
	}
	if n := len(p.Requests("acme/now", hostile.Invoke)); n != 2*most+2 {
		t.Errorf("%d runs", n)
	}
}

func TestS80TasksThatWaitFillTheMemory(t *testing.T) {
	const size = 2 << 20
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"}, hostile.Skill{ID: "acme/large"})
	p.On("acme/large", hostile.Invoke, hostile.RawOutput(`"`+strings.Repeat("x", size)+`"`))
	c := testbed.StartProcess(t, testbed.Limits{}, testbed.Site(agents(p)))
	ann := c.Agent(user("ann"))
	var ended []string
	for range 10 {
		ended = append(ended, ann.Invoke("acme.now", false).Task().ID)
	}
	text := strings.Repeat("x", 400<<10)
	for name, stranger := range map[string]*testbed.Client{"bob": c.Agent(user("bob")), "anonymous": c.Agent()} {
		for range 20 { // each is twice the half of the memory
			a := stranger.Call("SendMessage", hostile.Object{
				"message":       hostile.Object{"messageId": "m", "role": "ROLE_USER", "parts": []hostile.Object{{"text": text}}},
				"configuration": hostile.Object{"historyLength": 0},
			})
			if a.Task().State() != "INPUT_REQUIRED" {
				t.Fatalf("%s: %.300s", name, a)
			}
		}
	}
	for range 3 {
		a := ann.Invoke("acme.large", false)
		if a.Task().State() != "COMPLETED" || len(a.Body) < size {
			t.Errorf("an output: %.300s", a)
		}
		ended = append(ended, a.Task().ID)
	}
	for _, id := range ended {
		if a := ann.GetTask(id); a.Task().State() != "COMPLETED" {
			t.Errorf("an ended task: %.300s", a)
		}
	}
}

// S361: a caller can't fill a task so far that it can't end, which would stop the expiry of all.
func TestS361LongTask(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"}, hostile.Skill{ID: "acme/large"})
	eve := testbed.StartProcess(t, testbed.Limits{}, testbed.Site(agents(p, "\tmax_request_size 32MiB"))).Agent()
	send := func(id string, size int) testbed.Answer {
		return eve.Call("SendMessage", hostile.Object{
			"message":       hostile.Object{"messageId": "m", "taskId": id, "role": "ROLE_USER", "parts": []hostile.Object{{"text": strings.Repeat("x", size)}}},
			"configuration": hostile.Object{"historyLength": 0},
		})
	}
	id := send("", 16<<20).Task().ID
	if a := send(id, 15<<20); a.Code != -32602 || !strings.Contains(string(a.Body), "begin a new task") {
		t.Errorf("a task of 31 MiB: %.500s", a)
	}
	if a := send(id, 13<<20); a.Task().State() != "INPUT_REQUIRED" {
		t.Errorf("a task of 29 MiB: %.500s", a)
	}
	if a := eve.Call("CancelTask", hostile.Object{"id": id}); a.Task().State() != "CANCELED" {
		t.Errorf("%.500s", a)
	}
}
