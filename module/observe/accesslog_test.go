package observe

import (
	"encoding/json" // of Caddy's log
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// appended are directives that add the placeholders to the access log.
var appended = []string{
	"log_append the_source {http.skill_bridge.source}", "log_append the_skill {http.skill_bridge.skill}",
	"log_append the_outcome {http.skill_bridge.outcome}", "log_append the_run_id {http.skill_bridge.run_id}",
	"log_append the_unknown {http.skill_bridge.arguments}",
}

// checkAppended checks that the placeholders have the values of the access log; for a batch, they are empty.
func checkAppended(t *testing.T, line map[string]any) {
	t.Helper()
	if unknown, is := line["the_unknown"]; !is || unknown != nil {
		t.Errorf("an unknown placeholder is %v: %v", unknown, line)
	}
	for placeholder, name := range map[string]string{
		"the_source": "skill_bridge_source", "the_skill": "skill_bridge_skill", "the_outcome": "skill_bridge_outcome", "the_run_id": "skill_bridge_execution_id",
	} {
		want, _ := line[name].(string)
		if line["skill_bridge_calls"] != nil {
			want = ""
		}
		if line[placeholder] != want {
			t.Errorf("%s is %v, want %q: %v", placeholder, line[placeholder], want, line)
		}
	}
}

// TestAccessLog: the line of a request says what became of the calls in it.
func TestAccessLog(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	file := filepath.Join(t.TempDir(), "access.log")
	c := testbed.StartCaddy(t, strings.Replace(testbed.Bridge("provider "+p.URL()+" {", "namespace acme", "}"),
		"\tskill_bridge", "\tlog {\n\t\toutput file "+file+"\n\t}\n\t"+strings.Join(appended, "\n\t")+"\n\theader >X-Outcome {http.skill_bridge.outcome}\n\tskill_bridge", 1))
	if a := c.Execute("acme.echo", nil); a.Outcome() != "completed" || a.Header.Get("X-Outcome") != "completed" {
		t.Fatal(a, a.Header)
	}
	const call = `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"acme.echo"}}`
	c.Post(`[` + call + `,` + call + `]`)
	c.Post(`{"jsonrpc":"2.0","id":1,"method":"list_skills"}`)

	var lines []map[string]any
	testbed.Eventually(t, 5*time.Second, func() bool {
		text, err := os.ReadFile(file)
		lines = nil
		for line := range strings.Lines(string(text)) {
			var fields map[string]any
			if json.Unmarshal([]byte(line), &fields) == nil {
				lines = append(lines, fields)
			}
		}
		return err == nil && len(lines) == 3
	}, "three lines in the access log")
	if method, outcome, skill := lines[2]["skill_bridge_method"], lines[2]["skill_bridge_outcome"], lines[2]["skill_bridge_skill"]; method != "list_skills" || outcome != "completed" || skill != nil {
		t.Errorf("a list: %v", lines[2])
	}
	for name, want := range map[string]string{
		"skill_bridge_method": "execute_skill", "skill_bridge_source": "acme", "skill_bridge_skill": "acme/echo", "skill_bridge_outcome": "completed",
	} {
		if lines[0][name] != want || lines[1][name] != want {
			t.Errorf("%s: %v, %v", name, lines[0][name], lines[1][name])
		}
	}
	for _, line := range lines {
		checkAppended(t, line)
	}
	if id, _ := lines[0]["skill_bridge_execution_id"].(string); id == "" || lines[0]["skill_bridge_trace_id"] == nil || lines[0]["skill_bridge_calls"] != nil || lines[1]["skill_bridge_calls"] != 2.0 {
		t.Errorf("%v\n%v", lines[0], lines[1])
	}
}
