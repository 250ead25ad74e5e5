package skillbridge

import (
	"encoding/json" // of Caddy's log
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/internal/hostile"
)

// TestAccessLog: the line of a request says what became of the calls in it.
func TestAccessLog(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	file := filepath.Join(t.TempDir(), "access.log")
	c := hostile.StartCaddy(t, strings.Replace(hostile.Bridge("provider "+p.URL()+" {", "namespace acme", "}"),
		"\tskill_bridge", "\tlog {\n\t\toutput file "+file+"\n\t}\n\tskill_bridge", 1))
	if a := c.Execute("acme.echo", nil); a.Outcome() != "completed" {
		t.Fatal(a)
	}
	const call = `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"acme.echo"}}`
	c.Post(`[` + call + `,` + call + `]`)
	c.Post(`{"jsonrpc":"2.0","id":1,"method":"list_skills"}`)

	var lines []map[string]any
	hostile.Eventually(t, 5*time.Second, func() bool {
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

// TestRefusedRequestsAreCalls: what is wrong with the params of a call is in the logs,
// the audit and the metrics, like all else that becomes of calls.
func TestRefusedRequestsAreCalls(t *testing.T) {
	countAnew(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	c := hostile.StartCaddy(t, "{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n"+hostile.Bridge("audit", "provider "+p.URL()+" {", "namespace acme", "}"))
	for _, method := range []string{"get_run", "execute_skill", "list_skills", "describe_skill", "load_skills_protocol_guide", "no_such_method"} {
		c.Post(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"run_token":"forged","limit":0}}`)
		want, message := `"outcome":"invalid_arguments"`, "call failed"
		if method == "load_skills_protocol_guide" {
			want, message = `"outcome":"completed"`, "call completed"
		}
		label := method
		if method == "no_such_method" {
			label = "unknown"
		}
		if lines := c.Log.Lines(message, `"method":"`+label+`"`, want); len(lines) != 1 || strings.Contains(lines[0], "forged") {
			t.Errorf("%s: %s", method, lines)
		}
	}
	if lines := c.Log.Lines("http.handlers.skill_bridge.audit", `"operation":"follow"`, `"outcome":"invalid_arguments"`); len(lines) != 1 {
		t.Errorf("a forged run token in the audit: %s", lines)
	}
	mustHave(t, scrape(t, c), samples{`calls_total{front="skills_protocol",method="get_run",outcome="invalid_arguments",provider="none",skill="none"}`: 1})
}

// TestRefusedConnectionsNameTheirSource, also where a name has led to what may not be
// reached, which shows when it is dialed.
func TestRefusedConnectionsNameTheirSource(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(p.URL(), "http://"))
	c := hostile.StartCaddy(t, hostile.Site("skill_bridge /rpc {\n\tallow_http\n\tprovider http://localhost:"+port+" {\n\t\tnamespace acme\n\t}\n}"))
	if a := c.Execute("acme.echo", nil); a.Outcome() != "ENDPOINT_UNREACHABLE" {
		t.Fatal(a)
	}
	if lines := c.Log.Lines(`"level":"warn","ts"`, `"logger":"http.handlers.skill_bridge"`); len(lines) != 1 || !strings.Contains(lines[0], `"source":"acme","host":"localhost:`+port+`"`) || !strings.Contains(lines[0], `"option":"allow_networks `) {
		t.Errorf("%s", lines)
	}
}
