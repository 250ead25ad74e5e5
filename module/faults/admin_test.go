package faults_test

import (
	"fmt"
	"log"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// callInProgress is what the admin API shows of one.
type callInProgress struct {
	Method      string    `json:"method"`
	Name        string    `json:"name"`
	Namespace   string    `json:"namespace"`
	SkillID     string    `json:"skill_id"`
	ExecutionID string    `json:"execution_id"`
	Accepted    time.Time `json:"accepted"`
}

// R52: a run that is followed with get_run is shown by the admin API as the one that
// is followed with execute_skill: which skill it is of, its id, since when it goes on.
func TestR52RunsOfGetRunAreShown(t *testing.T) {
	leavesNothing(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/soon"})
	p.On("acme/soon", hostile.Invoke, hostile.Accept(0))
	gate := hostile.NewGate(t)
	p.On("acme/soon", hostile.Status, gate.Then(hostile.Usual()))
	c := testbed.StartCaddy(t, testbed.AdminAPI+withProvider(p))
	token := leave(t, c.Client, p, "acme.soon")
	shown := func(method string) callInProgress {
		t.Helper()
		var runs struct {
			Runs []callInProgress `json:"calls"`
		}
		a := c.With(testbed.Fresh()).Send(http.MethodGet, c.Admin()+"/skill_bridge/calls", "")
		if err := json.Unmarshal(a.Body, &runs); err != nil || len(runs.Runs) != 1 || runs.Runs[0].Method != method {
			t.Fatalf("not one call of %s: %v", method, a)
		}
		return runs.Runs[0]
	}
	answered := begin(func() testbed.Answer { return getRun(c.Client, token) })
	testbed.Eventually(t, patience, func() bool { return gate.Waiting() == 1 }, "the run is asked for")
	got := shown("get_run")
	if got.Namespace != "acme" || got.SkillID != "acme/soon" || got.ExecutionID != "run-1" || time.Since(got.Accepted) > patience {
		t.Errorf("get_run: %+v", got)
	}
	gate.Open()
	want{outcome: "completed"}.check(t, receive(t, answered))
}

// R52: a bridge leaves the standard logger as it is, unless it runs: neither a
// configuration that is only set up nor one that has stopped has a hand in it.
func TestR52StandardLogger(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"})
	writer := func() string { return fmt.Sprintf("%T", log.Writer()) }
	const ours = "*observe.quietWriter"
	config := withProvider(p)
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte("{\n\tadmin off\n\tpersist_config off\n}\n"+strings.ReplaceAll(config, "{$PORT}", "0")), nil)
	if err != nil {
		t.Fatal(err)
	}
	validated := new(caddy.Config)
	if err := json.Unmarshal(adapted, validated); err != nil {
		t.Fatal(err)
	}
	if err := caddy.Validate(validated); err != nil || writer() == ours {
		t.Errorf("validated: %s, %v", writer(), err)
	}
	c := testbed.StartCaddy(t, config)
	for _, next := range []string{config, withProvider(p, "timeout 9s"), config} {
		if err := c.Reload(next); err != nil || writer() != ours {
			t.Errorf("running: %s, %v", writer(), err)
		}
	}
	// One that can't run has replaced the writer before that is known.
	taken := "http://127.0.0.1:" + p.Port() + " {\n\trespond taken\n}\n"
	if err := c.Reload(config + taken); err == nil || writer() != ours {
		t.Errorf("after one that can't run: %s, %v", writer(), err)
	}
	if err := c.Reload(withoutBridge); err != nil || writer() == ours {
		t.Errorf("without a bridge: %s, %v", writer(), err)
	}
}
