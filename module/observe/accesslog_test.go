package observe

import (
	"encoding/json" // of Caddy's log
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/internal/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/internal/testbed"
)

// TestAccessLog: the line of a request says what became of the calls in it.
func TestAccessLog(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	file := filepath.Join(t.TempDir(), "access.log")
	c := testbed.StartCaddy(t, strings.Replace(testbed.Bridge("provider "+p.URL()+" {", "namespace acme", "}"),
		"\tskill_bridge", "\tlog {\n\t\toutput file "+file+"\n\t}\n\tskill_bridge", 1))
	if a := c.Execute("acme.echo", nil); a.Outcome() != "completed" {
		t.Fatal(a)
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
	if id, _ := lines[0]["skill_bridge_execution_id"].(string); id == "" || lines[0]["skill_bridge_trace_id"] == nil || lines[0]["skill_bridge_calls"] != nil || lines[1]["skill_bridge_calls"] != 2.0 {
		t.Errorf("%v\n%v", lines[0], lines[1])
	}
}
