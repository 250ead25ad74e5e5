package skillsprotocol_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// TestIgnoredMembers: an answer names the members that the method does not have, and the one that was meant.
func TestIgnoredMembers(t *testing.T) {
	for _, c := range []struct{ method, params, ignored, meant string }{
		{"list_skills", `{"limit":1}`, ``, ""},
		{"list_skills", `{"name":"a","limits":1}`, `["name","limits"]`, "limit"},
		{"list_skills", `{"zzzzzzzz":1}`, `["zzzzzzzz"]`, ""},
		{"execute_skill", `{"name":"a","arguments":{"x":1}}`, `["arguments"]`, "args"},
		{"execute_skill", `{"name":"a","inputs":{},"wait":1}`, `["inputs","wait"]`, "args"},
		{"execute_skill", `{"name":"a","timeoutms":1}`, `["timeoutms"]`, "timeout_ms"},
		{"describe_skill", `{"name":"a","args":{}}`, `["args"]`, ""},
		{"load_skills_protocol_guide", `{"name":"a"}`, `["name"]`, ""},
	} {
		b := &fakeBridge{outcome: done, description: describe(t, "{}"), listing: translate.Listing{Skills: entries(1)}}
		got := decode[struct {
			Ignored []string `json:"ignored"`
			Hint    struct {
				Candidates []string `json:"candidates"`
			} `json:"hint"`
		}](t, result(t, b, c.method, c.params))
		ignored := ""
		if got.Ignored != nil {
			ignored = `["` + strings.Join(got.Ignored, `","`) + `"]`
		}
		if ignored != c.ignored || strings.Join(got.Hint.Candidates, " ") != c.meant {
			t.Errorf("%s %s: %+v", c.method, c.params, got)
		}
	}
}

// TestIgnoredMembersAreBounded: an agent that sends many unknown members gets a few of their names back, cut and visible.
func TestIgnoredMembersAreBounded(t *testing.T) {
	var params strings.Builder
	for i := range 1000 {
		params.WriteString(`"` + strings.Repeat("é\u202e", 500) + strings.Repeat("x", i) + `":1,`)
	}
	got := result(t, &fakeBridge{outcome: done}, "execute_skill", `{`+params.String()+`"name":"a"}`)
	if len(got) > 3000 || strings.ContainsRune(got, '\u202e') || !strings.Contains(got, `\\u202e`) {
		t.Errorf("%d bytes: %.300s", len(got), got)
	}
}

// TestInputsBesideArgs: a member that is an input of the skill belongs into args.
func TestInputsBesideArgs(t *testing.T) {
	b := &fakeBridge{outcome: done, description: describe(t, weather)}
	want := `"ignored":["location"],"hint":{"param":"location","reason":"unknown","candidates":["args"],"message":"'location' was ignored: it is an input of the skill; put it into 'args'"}}`
	if got := result(t, b, "execute_skill", `{"name":"a","location":"Tokyo"}`); !strings.HasSuffix(got, want) {
		t.Error(got)
	}
}

// TestArgumentsInText: models return the arguments of a tool as JSON in a text, which programs forget to parse.
func TestArgumentsInText(t *testing.T) {
	_, fault := ask(t, &fakeBridge{outcome: done}, "execute_skill", `{"name":"a","args":"{\"location\":\"Tokyo\"}"}`)
	if !strings.Contains(fault.Message, "'args' must be an object, not a text: send the JSON in it") {
		t.Error(fault.Message)
	}
}

// TestUnknownArguments: a result, and an error, warn of arguments that the skill does not have, and name the nearest input.
func TestUnknownArguments(t *testing.T) {
	b := &fakeBridge{outcome: done, description: describe(t, weather), unknown: []string{"lokation", "zzzzzz"}}
	want := `"warnings":[{"argument":"lokation","reason":"unknown","candidates":["location"],"message":"the skill has no input 'lokation'; did you mean 'location'?"},` +
		`{"argument":"zzzzzz","reason":"unknown","message":"the skill has no input 'zzzzzz'"}]}`
	if got := result(t, b, "execute_skill", `{"name":"a","args":{}}`); !strings.HasSuffix(got, want) {
		t.Error(got)
	}
	b.outcome.Failure = &run.Failure{Kind: run.InvalidArguments, Message: "wrong", By: run.Bridge}
	if _, fault := ask(t, b, "execute_skill", `{"name":"a","args":{}}`); !strings.HasSuffix(string(fault.Data), want) {
		t.Errorf("%s", fault.Data)
	}
}

// TestRepeatedWarnings: warnings that a front keeps are those about the same arguments of the same skill.
func TestRepeatedWarnings(t *testing.T) {
	b := &fakeBridge{outcome: done}
	front := &skillsprotocol.Front{Bridge: b, Tokens: fakeTokens{}, Canceled: new(ledger.Cancellations)}
	skills := []*translate.Description{describe(t, weather), describe(t, strings.Replace(weather, `"location"`, `"lotation"`, 1)), nil}
	for round := range 3 {
		for i, unknown := range [][]string{{"lokation"}, {"lokation", "days"}, {"lokationdays"}, {"lokation\x00days"}, {"", "lokation"}, {"lokation", ""}} {
			for j, skill := range skills {
				b.description, b.unknown = skill, unknown
				got, fault := front.ServeRPC(t.Context(), request("execute_skill", `{"name":"a","args":{}}`))
				if want := result(t, b, "execute_skill", `{"name":"a","args":{}}`); fault != nil || string(got) != want {
					t.Errorf("round %d, %d of %d: %s, want %s", round, i, j, got, want)
				}
			}
		}
		for i := range 1000 { // more than are kept
			b.unknown = []string{strconv.Itoa(i)}
			_, _ = front.ServeRPC(t.Context(), request("execute_skill", `{"name":"a","args":{}}`))
		}
	}
}
