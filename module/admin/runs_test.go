package admin

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// TestRuns: the kept runs of all callers are shown, the newest first, without inputs and outputs, and selected by what the query says.
func TestRuns(t *testing.T) {
	const canary = "canary-of-a-run"
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"}, hostile.Skill{ID: "acme/slow"})
	gate := hostile.NewGate(t)
	p.On("acme/echo", hostile.Invoke, hostile.Complete(canary))
	p.On("acme/slow", hostile.Invoke, hostile.Accept(0))
	p.On("acme/slow", hostile.Status, gate.Then(hostile.Usual()))
	c := testbed.StartCaddy(t, "{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n"+testbed.Site("skill_bridge /rpc {\n\tstore memory\n\tallow_http\n\tallow_networks 127.0.0.0/8\n\tprincipal {http.request.header.X-User}\n\tprovider "+
		p.URL()+" {\n\t\tnamespace acme\n\t}\n}"))
	a := admin{t, "http://127.0.0.1:" + c.Port("ADMIN")}
	ask := func(query string) (runs Runs, text string) {
		t.Helper()
		text = a.ask(http.MethodGet, "/skill_bridge/runs"+query, "", http.StatusOK, &runs)
		if strings.Contains(text, canary) {
			t.Error(text)
		}
		return runs, text
	}
	if runs, text := ask(""); runs.Kept != 0 || !strings.Contains(text, `"runs":[]`) || runs.Unread != nil {
		t.Error(text)
	}
	call := func(user, skill, key string) {
		t.Helper()
		answer := c.With(testbed.Header("X-User", user), testbed.Header("Idempotency-Key", `"`+canary+key+`"`), testbed.Param("wait_ms", 0)).Execute(skill, hostile.Object{"call": canary})
		if answer.Code != 0 {
			t.Fatal(answer)
		}
	}
	for i := range 3 {
		call("ada", "acme.echo", fmt.Sprint(i))
	}
	call("ada", "acme.slow", "slow")
	call("bo\u202eb", "acme.echo", "")
	runs, text := ask("")
	if runs.Kept != 5 || runs.Open["skills_protocol"]["accepted"]+runs.Open["skills_protocol"]["working"] != 1 || len(runs.Runs) != 5 || runs.Next != "" || !slices.IsSortedFunc(runs.Runs, func(a, b Run) int { return strings.Compare(b.ID, a.ID) }) {
		t.Fatal(text)
	}
	slow, last := runs.Runs[1], runs.Runs[0]
	if strings.Contains(last.Principal, "\u202e") || !strings.HasPrefix(last.Principal, "bo") || last.State != "completed" || last.Bytes == 0 || !last.Named {
		t.Errorf("%+v", last)
	}
	if !slices.Contains([]string{"accepted", "working"}, slow.State) || slow.Principal != "ada" || slow.Front != "skills_protocol" || slow.Skill != "acme.slow" || slow.Namespace != "acme" || slow.SkillID != "acme/slow" ||
		slow.ExecutionID != "run-1" || slow.Accepted.IsZero() || slow.Created.After(slow.Changed) || time.Until(slow.Expires) < 23*time.Hour {
		t.Errorf("%+v", slow)
	}
	for query, want := range map[string]int{
		"?state=open": 1, "?state=completed": 4, "?state=open&front=skills_protocol": 1, "?front=a2a": 0, "?principal=ada": 4, "?principal=": 0,
		"?principal=" + url.QueryEscape("bo\u202eb"): 1, "?skill=acme.slow": 1, "?skill=acme": 0, "?id=" + slow.ID: 1, "?id=none": 0, "?limit=0": 0, "?limit=2": 2,
		"?state=completed&principal=ada&skill=acme.echo": 3, "?before=" + slow.ID: 3,
	} {
		if got, text := ask(query); len(got.Runs) != want || (got.Next != "") != (query == "?limit=2") {
			t.Errorf("%s: want %d: %s", query, want, text)
		}
	}
	var pages []string
	for before := ""; ; {
		page, _ := ask("?limit=2&before=" + before)
		for _, r := range page.Runs {
			pages = append(pages, r.ID)
		}
		if before = page.Next; before == "" {
			break
		}
	}
	if want := ids(runs.Runs); !slices.Equal(pages, want) {
		t.Errorf("%q, want %q", pages, want)
	}
	for _, query := range []string{"?state=busy", "?limit=-1", "?limit=1001", "?limit=x"} {
		a.ask(http.MethodGet, "/skill_bridge/runs"+query, "", http.StatusBadRequest, nil)
	}
	a.ask(http.MethodPost, "/skill_bridge/runs", "", http.StatusMethodNotAllowed, nil)
	gate.Open()
	testbed.Eventually(t, 20*time.Second, func() bool { got, _ := ask("?state=open"); return len(got.Runs) == 0 }, "the run has ended")
}

func ids(runs []Run) (all []string) {
	for _, r := range runs {
		all = append(all, r.ID)
	}
	return all
}

// TestRunsOfPrincipal: the runs of a principal are listed in one order, whichever bridge of the database they belong to.
func TestRunsOfPrincipal(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	bridge := func(name string) string {
		return "skill_bridge /" + name + " {\n\tname " + name + "\n\tstore memory\n\tallow_http\n\tallow_networks 127.0.0.0/8\n\tprincipal {http.request.header.X-User}\n\tprovider " + p.URL() + " {\n\t\tnamespace acme\n\t}\n}"
	}
	c := testbed.StartCaddy(t, "{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n"+testbed.Site(bridge("rpc"), bridge("other")))
	a, clients := admin{t, "http://127.0.0.1:" + c.Port("ADMIN")}, []*testbed.Client{c.Client, testbed.NewClient(t, strings.Replace(c.URL, "/rpc", "/other", 1))}
	for i := range 9 {
		user, key := []string{"ada", "ada", "bob"}[i%3], fmt.Sprint(i)
		if answer := clients[i%2].With(testbed.Header("X-User", user), testbed.Param("idempotency_key", key)).Execute("acme.echo", nil); answer.Outcome() != "completed" {
			t.Fatal(answer)
		}
	}
	var all, pages []Run
	for _, r := range runsOn(a, "?limit=1000") {
		if r.Principal == "ada" {
			all = append(all, r)
		}
	}
	for before := ""; len(pages) < 10; {
		var page Runs
		a.ask(http.MethodGet, "/skill_bridge/runs?principal=ada&limit=2&before="+before, "", http.StatusOK, &page)
		pages = append(pages, page.Runs...)
		if before = page.Next; before == "" {
			break
		}
	}
	if got, want := ids(pages), ids(all); len(want) != 6 || !slices.Equal(got, want) || pages[0].BridgeName == pages[1].BridgeName {
		t.Errorf("%q, want %q", got, want)
	}
}

func runsOn(a admin, query string) []Run {
	a.Helper()
	var runs Runs
	a.ask(http.MethodGet, "/skill_bridge/runs"+query, "", http.StatusOK, &runs)
	return runs.Runs
}

// TestUnreadRuns: a database that can't be read is named, and nothing is made up about its runs.
func TestUnreadRuns(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	c := testbed.StartCaddy(t, "{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n"+testbed.Site("skill_bridge /rpc {\n\tstore sqlite /dev/null/bridge.db\n\tallow_http\n\tallow_networks 127.0.0.0/8\n\tprovider "+
		p.URL()+" {\n\t\tnamespace acme\n\t}\n}"))
	a := admin{t, "http://127.0.0.1:" + c.Port("ADMIN")}
	var runs Runs
	text := a.ask(http.MethodGet, "/skill_bridge/runs", "", http.StatusOK, &runs)
	if len(runs.Unread) != 1 || !strings.HasSuffix(runs.Unread[0].Place, "/dev/null/bridge.db") || runs.Unread[0].Error == "" {
		t.Error(text)
	}
	if strings.Contains(runs.Unread[0].Error, "SQLite in") {
		t.Errorf("the place is said twice: %+v", runs.Unread[0])
	}
	var waiting Notifications
	if text := a.ask(http.MethodGet, "/skill_bridge/notifications", "", http.StatusOK, &waiting); len(waiting.Unread) != 1 || waiting.Unread[0] != runs.Unread[0] {
		t.Error(text)
	}
	metrics := string(c.With(testbed.Fresh()).Send(http.MethodGet, a.url+"/metrics", "").Body)
	if !strings.Contains(metrics, `caddy_skill_bridge_database_usable{database="SQLite in /dev/null/bridge.db"} 0`) || strings.Contains(metrics, "caddy_skill_bridge_kept_runs{") || strings.Contains(metrics, "caddy_skill_bridge_kept_runs ") {
		t.Error(metrics)
	}
}

// TestMetricsOfOnePlace: databases with different settings may name the same place, such as one whose password is being replaced. The metrics go on.
func TestMetricsOfOnePlace(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	bridge := func(path, password string) string {
		return "skill_bridge " + path + " {\n\tname b" + path[1:] + "\n\tstore postgres postgres://u:" + password + "@127.0.0.1:1/x\n\tallow_http\n\tallow_networks 127.0.0.0/8\n\tprovider " + p.URL() + " {\n\t\tnamespace acme\n\t}\n}\n"
	}
	c := testbed.StartCaddy(t, "{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n"+testbed.Site(bridge("/old", "old")+bridge("/new", "new")))
	answer := c.With(testbed.Fresh()).Send(http.MethodGet, "http://127.0.0.1:"+c.Port("ADMIN")+"/metrics", "")
	if n := strings.Count(string(answer.Body), "\ncaddy_skill_bridge_database_usable{"); answer.Status != http.StatusOK || n != 1 {
		t.Errorf("HTTP %d, %d series: %.300s", answer.Status, n, answer.Body)
	}
}

// TestTasks: A2A tasks are runs, too, with their own states and contexts, and with the webhooks that are not told everything yet.
func TestTasks(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"}, hostile.Skill{ID: "acme/slow"}, hostile.Skill{ID: "acme/keyed", Auth: hostile.APIKey("X-API-Key")})
	gate := hostile.NewGate(t)
	p.On("acme/slow", hostile.Invoke, hostile.Accept(0))
	p.On("acme/slow", hostile.Status, gate.Then(hostile.Usual()))
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/refuses") {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer receiver.Close()
	c := testbed.StartCaddy(t, "{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n"+testbed.Site("skill_bridge {\n\ta2a\n\tstore memory\n\twebhooks {\n\t\tallow_http\n\t\tallow_networks 127.0.0.0/8\n\t\tallow_ports any\n\t}\n\tallow_http\n\tallow_networks 127.0.0.0/8\n\tprincipal {http.request.header.X-User}\n\tallow_anonymous\n\tprovider "+
		p.URL()+" {\n\t\tnamespace acme\n\t}\n}"))
	a := admin{t, "http://127.0.0.1:" + c.Port("ADMIN")}
	for skill, path := range map[string]string{"acme.slow": "refuses", "acme.echo": "takes", "acme.keyed": "takes"} {
		answer := c.With(testbed.Fresh(), testbed.Header("X-User", "ada")).Send(http.MethodPost, "http://127.0.0.1:"+c.Port("PORT")+"/a2a", fmt.Sprintf(
			`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","contextId":"talk","role":"ROLE_USER","parts":[{"data":{"skill":%q,"input":{"call":"canary"}}}]},`+
				`"configuration":{"returnImmediately":true,"taskPushNotificationConfig":{"url":"%s/%s"}}}}`, skill, receiver.URL, path))
		if answer.Code != 0 {
			t.Fatal(answer)
		}
	}
	shown := func(skill string) (r Run, text string) {
		var runs Runs
		text = a.ask(http.MethodGet, "/skill_bridge/runs?front=a2a&principal=ada&skill="+skill, "", http.StatusOK, &runs)
		if len(runs.Runs) != 1 || runs.Kept != 3 || strings.Contains(text, "canary") {
			t.Fatal(text)
		}
		id := runs.Runs[0].ID
		runs = Runs{}
		text = a.ask(http.MethodGet, "/skill_bridge/runs?id="+id, "", http.StatusOK, &runs)
		return runs.Runs[0], text
	}
	for skill, want := range map[string]struct{ state, task, executionID string }{
		"acme.slow": {"working", "working", "run-1"}, "acme.echo": {"completed", "completed", ""}, "acme.keyed": {"waiting", "auth-required", ""},
	} {
		testbed.Eventually(t, 20*time.Second, func() bool {
			r, _ := shown(skill)
			told := len(r.Receivers) == 0 // of echo, all is told
			if !told {
				waits := !r.Receivers[0].Since.IsZero()
				told = skill == "acme.slow" && waits || skill == "acme.keyed" && !waits
			}
			return r.State == want.state && told
		}, skill+" is "+want.state)
		r, text := shown(skill)
		if r.Task != want.task || r.Context != "talk" || r.ExecutionID != want.executionID && want.executionID != "" || r.Front != "a2a" || len(r.Receivers) > 0 != (skill != "acme.echo") {
			t.Errorf("%s: %s", skill, text)
		}
		if len(r.Receivers) > 0 && r.Receivers[0].Host != strings.TrimPrefix(receiver.URL, "http://") {
			t.Error(text)
		}
	}
	var runs Runs
	if text := a.ask(http.MethodGet, "/skill_bridge/runs?state=open", "", http.StatusOK, &runs); runs.Open["a2a"]["working"] != 1 || runs.Open["a2a"]["waiting"] != 1 || len(runs.Runs) != 2 {
		t.Error(text)
	}
	gate.Open()
}

// TestPublishedRuns: a run of a caller of skill_publish without a name is that of an anonymous one.
func TestPublishedRuns(t *testing.T) {
	for owner, want := range map[string]string{"\t6E": "", "": "", "ada": "ada"} {
		if r := newRun(&ledger.Entry{Front: "publish", Owner: ledger.Owner{Realm: "skill_publish", Principal: owner}}); r.Principal != want || r.BridgeName != "skill_publish" {
			t.Errorf("%q: %+v", owner, r)
		}
	}
}
