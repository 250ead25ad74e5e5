package admin

import (
	"encoding/json" // of Caddy's admin API
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/fronts"
	"github.com/skill-bridge/caddy-skill-bridge/module/internal/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/internal/testbed"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
)

// send sends a message of A2A for a skill, and does not wait for the end of its run.
func send(c *testbed.Client, port, user, skill, input string) testbed.Answer {
	return c.With(testbed.Fresh(), testbed.Header("X-User", user)).Send(http.MethodPost, "http://127.0.0.1:"+port+"/a2a", fmt.Sprintf(
		`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","contextId":"talk","role":"ROLE_USER","parts":[{"data":{"skill":%q,"input":%s}}]},"configuration":{"returnImmediately":true}}}`, skill, input))
}

// TestTasks: the tasks in memory are shown without inputs, outputs and messages, the newest first.
func TestTasks(t *testing.T) {
	const canary = "canary-of-a-task"
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"}, hostile.Skill{ID: "acme/slow"})
	gate := hostile.NewGate(t)
	p.On("acme/echo", hostile.Invoke, hostile.Complete(canary))
	p.On("acme/slow", hostile.Invoke, hostile.Accept(0))
	p.On("acme/slow", hostile.Status, gate.Then(hostile.Usual()))
	c := testbed.StartCaddy(t, "{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n"+testbed.Site("skill_bridge {\n\trpc\n\ta2a\n\tallow_http\n\tallow_networks 127.0.0.0/8\n\tprincipal {http.request.header.X-User}\n\tprovider "+
		p.URL()+" {\n\t\tnamespace acme\n\t}\n}"))
	a := admin{t, "http://127.0.0.1:" + c.Port("ADMIN")}
	var none, all, some Tasks
	if text := a.ask(http.MethodGet, "/skill_bridge/tasks", "", http.StatusOK, &none); none.Total != 0 || !strings.Contains(text, `"tasks":[]`) {
		t.Error(text)
	}
	send(c.Client, c.Port("PORT"), "ada", "acme.slow", `{"call":"`+canary+`"}`)
	testbed.Eventually(t, 10*time.Second, func() bool { return gate.Waiting() > 0 }, "the run is followed")
	send(c.Client, c.Port("PORT"), "bo\u202eb", "acme.echo", `{"call":"`+canary+`"}`)
	var text string
	testbed.Eventually(t, 10*time.Second, func() bool {
		text = a.ask(http.MethodGet, "/skill_bridge/tasks", "", http.StatusOK, &all)
		return all.States["completed"] == 1
	}, "one task has ended")
	if strings.Contains(text, canary) || all.Total != 2 || all.States["working"] != 1 || len(all.Tasks) != 2 || all.StorageFailure != nil {
		t.Error(text)
	}
	done, running := all.Tasks[0], all.Tasks[1]
	if done.State != "completed" || done.Principal == "bo\u202eb" || !strings.HasPrefix(done.Principal, "bo") || done.Since.Before(running.Since) {
		t.Errorf("%+v", done)
	}
	if running.Principal != "ada" || running.Skill != "acme.slow" || running.Namespace != "acme" || running.SkillID != "acme/slow" || running.ExecutionID != "run-1" ||
		running.Context != "talk" || running.State != "working" || running.Event != 2 || time.Since(running.Since) > time.Minute || running.Created.After(running.Since) {
		t.Errorf("%+v", running)
	}
	for _, tc := range []struct {
		query string
		want  []string
	}{
		{"?id=" + running.ID, []string{running.ID}}, {"?state=completed", []string{done.ID}}, {"?state=completed&id=" + running.ID, nil}, {"?limit=1", []string{done.ID}}, {"?limit=0", nil},
	} {
		some = Tasks{}
		a.ask(http.MethodGet, "/skill_bridge/tasks"+tc.query, "", http.StatusOK, &some)
		var got []string
		for _, t := range some.Tasks {
			got = append(got, t.ID)
		}
		if !slices.Equal(got, tc.want) || some.Total != 2 {
			t.Errorf("%s: %q of %d", tc.query, got, some.Total)
		}
	}
	for _, query := range []string{"?state=busy", "?limit=-1", "?limit=1001", "?limit=x"} {
		a.ask(http.MethodGet, "/skill_bridge/tasks"+query, "", http.StatusBadRequest, nil)
	}
	a.ask(http.MethodPost, "/skill_bridge/tasks", "", http.StatusMethodNotAllowed, nil)
	if err := c.Reload("{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n" + testbed.Site("respond ok")); err != nil {
		t.Fatal(err)
	}
	gate.Open()
	testbed.Eventually(t, 10*time.Second, func() bool {
		some = Tasks{}
		a.ask(http.MethodGet, "/skill_bridge/tasks", "", http.StatusOK, &some)
		return some.Total == 0
	}, "the tasks of a removed handler are gone when its last run has ended")
}

// TestTaskStorageFailure: a storage that does not work is shown, logged once a minute, and counted.
func TestTaskStorageFailure(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "skill_bridge"), nil, 0o600); err != nil { // where a folder has to be
		t.Fatal(err)
	}
	c := testbed.StartCaddy(t, "{\n\tadmin 127.0.0.1:{$ADMIN}\n\tstorage file_system "+root+"\n}\n"+testbed.Site("skill_bridge {\n\ta2a\n\tallow_http\n\tallow_networks 127.0.0.0/8\n\tprovider "+p.URL()+" {\n\t\tnamespace acme\n\t}\n}"))
	a := admin{t, "http://127.0.0.1:" + c.Port("ADMIN")}
	for range 3 {
		if answer := send(c.Client, c.Port("PORT"), "", "acme.echo", "{}"); answer.Code == 0 {
			t.Error(answer)
		}
	}
	var tasks Tasks
	text := a.ask(http.MethodGet, "/skill_bridge/tasks", "", http.StatusOK, &tasks)
	if f := tasks.StorageFailure; f == nil || time.Since(f.At) > time.Minute || !strings.Contains(f.Error, "not a directory") {
		t.Error(text)
	}
	if lines := c.Log.Lines("tasks can't be stored", `"level":"warn"`); len(lines) != 1 {
		t.Errorf("%q", lines)
	}
	metrics := c.With(testbed.Fresh()).Send(http.MethodGet, a.url+"/metrics", "")
	for line := range strings.Lines(string(metrics.Body)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "caddy_skill_bridge_task_storage_failures_total "); ok {
			if n == "0" {
				t.Error(line)
			}
			return
		}
	}
	t.Errorf("%s", metrics.Body)
}

// TestWebhooksOfTasks: of a webhook, the host and the state are shown, but not what may be secret.
func TestWebhooksOfTasks(t *testing.T) {
	shown := newTask(new(fronts.Live), &task.Task{Owner: "realm\nada", Name: "canary", Push: []task.PushConfig{
		{ID: "a", URL: "https://canary@hooks.example:8443/canary?canary#canary", Version: "1.0", Secrets: "canary", Scheme: "canary", Sent: 3},
		{ID: "b", URL: "https://b.example", Version: "0.3", Sent: 4, Lost: 1},
		{ID: "c", URL: "https://c.example", Version: "0.1", Lost: task.MaxLost},
	}})
	want := []Webhook{
		{"a", "hooks.example:8443", "1.0", "active", 3, 0}, {"b", "b.example", "0.3", "failing", 4, 1}, {"c", "c.example", "0.1", "given_up", 0, task.MaxLost},
	}
	if text, err := json.Marshal(shown); err != nil || !slices.Equal(shown.Webhooks, want) || shown.Principal != "ada" || strings.Contains(string(text), "canary") {
		t.Errorf("%s, %v", text, err)
	}
}
