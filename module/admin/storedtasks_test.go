package admin

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/internal/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/internal/testbed"
)

// After a restart, the operator sees the tasks in the storage, a bounded number of the newest ones, and each by its id.
func TestStoredTasks(t *testing.T) {
	const canary = "canary-of-a-task"
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	p.On("acme/echo", hostile.Invoke, hostile.Complete(canary))
	text := "{\n\tadmin 127.0.0.1:{$ADMIN}\n\tstorage file_system " + t.TempDir() + "\n}\n" + testbed.Site("skill_bridge {\n\trpc\n\ta2a {\n\t\tpush\n\t}\n\tallow_http\n\tallow_networks 127.0.0.0/8\n\tprincipal {http.request.header.X-User}\n\tprovider "+
		p.URL()+" {\n\t\tnamespace acme\n\t}\n}")
	c := testbed.StartCaddy(t, text)
	a := admin{t, "http://127.0.0.1:" + c.Port("ADMIN")}
	for _, user := range []string{"ada", "bob", ""} {
		send(c.Client, c.Port("PORT"), user, "acme.echo", `{"call":"`+canary+`"}`)
	}
	var before, after, some Tasks
	testbed.Eventually(t, time.Minute, func() bool {
		before = Tasks{}
		a.ask(http.MethodGet, "/skill_bridge/tasks?stored=100", "", http.StatusOK, &before)
		return before.States["completed"] == 3
	}, "three tasks have ended")
	if len(before.Tasks) != 3 {
		t.Errorf("a task is shown twice: %+v", before.Tasks)
	}
	for _, handlers := range []string{"respond ok", ""} { // the tasks leave the memory
		next := text
		if handlers != "" {
			next = "{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n" + testbed.Site(handlers)
		}
		if err := c.Reload(next); err != nil {
			t.Fatal(err)
		}
		testbed.Eventually(t, time.Minute, func() bool {
			after = Tasks{}
			a.ask(http.MethodGet, "/skill_bridge/tasks", "", http.StatusOK, &after)
			return after.Total == 0
		}, "no task is in memory")
	}
	shown := a.ask(http.MethodGet, "/skill_bridge/tasks?stored=100", "", http.StatusOK, &after)
	if after.Total != 0 || len(after.Tasks) != 3 || strings.Contains(shown, canary) {
		t.Fatal(shown)
	}
	for i, got := range after.Tasks {
		if was := before.Tasks[i]; !got.StoredOnly || got.Principal != "" || got.ID != was.ID || got.State != "completed" || got.Skill != "acme.echo" || got.Event != was.Event || was.StoredOnly {
			t.Errorf("%+v, was %+v", got, was)
		}
	}
	for query, want := range map[string]int{"?stored=2": 2, "?stored=0": 0, "?stored=9&state=working": 0, "?stored=9&limit=0&state=completed": 3, "?id=" + before.Tasks[1].ID: 1, "?state=working&id=" + before.Tasks[1].ID: 0, "?id=x": 0} {
		some = Tasks{}
		if text := a.ask(http.MethodGet, "/skill_bridge/tasks"+query, "", http.StatusOK, &some); len(some.Tasks) != want {
			t.Errorf("%s: %s", query, text)
		}
	}
	for _, query := range []string{"?stored=-1", "?stored=101", "?stored=x"} {
		a.ask(http.MethodGet, "/skill_bridge/tasks"+query, "", http.StatusBadRequest, nil)
	}
}
