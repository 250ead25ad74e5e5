package faults_test

import (
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/internal/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/internal/testbed"
)

var moment = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[0-9:.]+Z"`)

// shift changes all times in the records of a task, as if they were of another clock.
func shift(t *testing.T, folder, id string, by time.Duration) {
	t.Helper()
	for _, file := range recordFiles(t, folder, id) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text = moment.ReplaceAllFunc(text, func(quoted []byte) []byte {
			at, err := time.Parse(`"`+time.RFC3339Nano+`"`, string(quoted))
			if err != nil {
				t.Errorf("%s: %v", quoted, err)
			}
			return []byte(at.Add(by).Format(`"` + time.RFC3339Nano + `"`))
		})
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// R67: an instance whose clock is almost 5 minutes ahead of another's, or behind it, neither ends nor forgets the other's tasks: it
// follows their runs, which may last a minute, to the end.
func TestR67Clocks(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"ahead": -290 * time.Second, "behind": 290 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, gate := later(t)
			folder := t.TempDir()
			first := testbed.StartProcess(t, testbed.Limits{}, withAgents(p, "tasks {\n\t\t\tttl 1m\n\t\t}"), storage(folder))
			ann := agentOf(first.Client, "ann")
			params, call := testbed.Message("acme.later", true)
			params["metadata"] = hostile.Object{"https://github.com/skill-bridge/caddy-skill-bridge/a2a/v1": hostile.Object{"timeoutMs": 60_000}}
			open, asked := ann.Call("SendMessage", params).Task().ID, ann.Call("SendMessage", unclear()).Task().ID
			ended := ann.Invoke("acme.now", false).Task().ID
			testbed.Eventually(t, patience, func() bool { return ann.GetTask(open).Task().State() == "WORKING" && stored(t, folder) == 3 }, "the run was accepted and the tasks are stored")
			first.Signal(os.Kill)
			first.Wait(patience)
			for _, id := range []string{open, asked, ended} {
				shift(t, folder, id, by)
			}
			second := testbed.StartProcess(t, testbed.Limits{}, withAgents(p, "tasks {\n\t\t\tttl 1m\n\t\t}"), storage(folder))
			ann = agentOf(second.Client, "ann")
			for id, state := range map[string]string{open: "WORKING", asked: "INPUT_REQUIRED", ended: "COMPLETED"} {
				if a := ann.GetTask(id); a.Task().State() != state {
					t.Errorf("%s: %s, want %s", id, a, state)
				}
			}
			if page := ann.Call("ListTasks", nil).Page(); page.Total != 3 {
				t.Errorf("listed are %+v", page)
			}
			stream := ann.Stream("SubscribeToTask", hostile.Object{"id": open})
			if e, _ := stream.Next(patience); e.String() != "task WORKING" {
				t.Errorf("the first event is %s", e)
			}
			gate.Open()
			if got := stream.Rest(patience); !slices.Equal(got, []string{"artifact", "COMPLETED"}) {
				t.Errorf("events: %q", got)
			}
			if n := p.Posts(call); n != 1 {
				t.Errorf("%d invocations", n)
			}
		})
	}
}
