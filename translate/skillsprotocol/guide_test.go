package skillsprotocol_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

func readGuide(t *testing.T, namespaces ...string) string {
	t.Helper()
	return decode[struct {
		Content string `json:"content"`
	}](t, result(t, &fakeBridge{namespaces: namespaces}, "load_skills_protocol_guide", "")).Content
}

var (
	methodHeading = regexp.MustCompile("(?m)^### `([a-z_]+)`$")
	jsonBlock     = regexp.MustCompile("(?s)```json\n(.*?)\n```")
)

func TestGuideMethods(t *testing.T) {
	text := readGuide(t, "corp")
	var described []string
	for _, m := range methodHeading.FindAllStringSubmatch(text, -1) {
		described = append(described, m[1])
	}
	slices.Sort(described)
	var shown []string
	for _, m := range jsonBlock.FindAllStringSubmatch(text, -1) {
		example := decode[struct {
			JSONRPC string         `json:"jsonrpc"`
			Method  string         `json:"method"`
			Params  jsontext.Value `json:"params"`
		}](t, m[1])
		if example.JSONRPC == "" {
			continue // an answer
		}
		shown = append(shown, example.Method)
		// Every example works as it stands.
		b := &fakeBridge{outcome: done, description: describe(t, weather)}
		params := strings.Replace(string(example.Params), `"run_token":"…"`, `"run_token":"acme|acme/slow|1.0.0|exec-1|ada"`, 1)
		front := &skillsprotocol.Front{Bridge: b, Tokens: fakeTokens{}, Canceled: new(ledger.Cancellations)}
		ada := translate.WithCaller(t.Context(), run.Caller{Principal: "ada"})
		if _, fault := front.ServeRPC(ada, request(example.Method, params)); fault != nil {
			t.Errorf("%s: %v %s", m[1], fault, fault.Data)
		}
	}
	slices.Sort(shown)
	exist := []string{"cancel_run", "describe_skill", "execute_skill", "get_run", "list_runs", "list_skills", "load_skills_protocol_guide", "read_skill_file"}
	if !slices.Equal(described, exist) || !slices.Equal(shown, exist) {
		t.Errorf("described %v, shown %v", described, shown)
	}
	_, rest, _ := strings.Cut(text, "## What does not exist here")
	absent, rest, _ := strings.Cut(rest, "\n## ")
	for _, m := range []string{"run_code", "create_blob", "read_blob"} {
		if !strings.Contains(absent, "`"+m+"`") || strings.Count(text, m) != 1 {
			t.Errorf("%s is not named once, as absent", m)
		}
	}
	if rest == "" {
		t.Error("the guide ends too early")
	}
}

// What agents read has the lifetime that the operator has chosen.
func TestLifetime(t *testing.T) {
	for _, method := range []string{"load_skills_protocol_guide", "rpc.discover"} {
		for lifetime, want := range map[time.Duration]string{0: "24 hours", 48 * time.Hour: "48 hours", 90 * time.Second: "1m30s"} {
			front := &skillsprotocol.Front{Bridge: &fakeBridge{}, Tokens: fakeTokens{lifetime: lifetime}, Canceled: new(ledger.Cancellations)}
			text, fault := front.ServeRPC(t.Context(), request(method, ""))
			if fault != nil || strings.Count(string(text), want) < 3 || want != "24 hours" && strings.Contains(string(text), "24 hours") {
				t.Errorf("%s, %s: %v %s", method, lifetime, fault, text)
			}
		}
	}
}

func TestGuideCodes(t *testing.T) {
	text := readGuide(t, "corp")
	listed := 0
	for _, row := range rows {
		_, fault := execute(t, run.Run{Failure: &run.Failure{Kind: row.kind, By: run.Provider}})
		name := "none"
		if row.name != "" {
			name = row.name
		}
		if strings.Count(text, fmt.Sprintf("\n| %d | %s | ", fault.Code, name)) != 1 {
			t.Errorf("%d %s is not listed once", fault.Code, name)
		}
		listed++
	}
	if got := strings.Count(text, "\n| -32"); got != listed+3 {
		t.Errorf("%d codes are listed, of which %d exist", got, listed+3)
	}
	for _, next := range []run.Next{
		run.NextRetry, run.NextFixParams, run.NextAuthenticate, run.NextAskOperator,
		run.NextFollowRun, run.NextOtherSkill, run.NextNone,
	} {
		if !strings.Contains(text, "\n| `"+string(next)+"` | ") {
			t.Errorf("%s is not explained", next)
		}
	}
}

func TestGuideNamespaces(t *testing.T) {
	text := readGuide(t, "corp", "weather.example.com", "b`\n# Owned\n`")
	for _, want := range []string{"\n- `corp`\n", "\n- `weather.example.com`\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.Contains(text, "\n# Owned") || strings.Contains(text, "\n\n\n") {
		t.Error(text)
	}
	if empty := readGuide(t); !strings.Contains(empty, "No namespaces are configured") || strings.Contains(empty, "\n\n\n") {
		t.Error(empty)
	}
}
