package skillsprotocol_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// TestToolDefinitions: the definitions have the members that the APIs of language models take, and only usable skills are asked for.
func TestToolDefinitions(t *testing.T) {
	const schema = `{"type":"object","properties":{"location":{"type":"string","description":"City name."},` +
		`"days":{"type":"number","description":"Days (1-14).","minimum":1,"default":7.0}},"required":["location"]}`
	getRun := func(before, schema string) string {
		return `{` + before + `"description":"Answers as the call of a tool would have that was still running: with its output, its failure, or that it is still running. Call it with the run_token of that answer.","` + schema + `":{"type":"object","properties":{"run_token":{"type":"string","description":"The run_token, exactly as it was given."},"wait_ms":{"type":"integer","minimum":0,"description":"How long to wait for the end of the run, in milliseconds."}},"required":["run_token"]}}`
	}
	for params, want := range map[string]string{
		`{"detail":"tools"}`:                      `{"name":"corp_weather","description":"Forecasts the weather.","input_schema":` + schema + `},` + getRun(`"name":"get_run",`, "input_schema"),
		`{"detail":"tools","format":"anthropic"}`: `{"name":"corp_weather","description":"Forecasts the weather.","input_schema":` + schema + `},` + getRun(`"name":"get_run",`, "input_schema"),
		`{"detail":"tools","format":"openai"}`:    `{"type":"function","function":{"name":"corp_weather","description":"Forecasts the weather.","parameters":` + schema + `}},{"type":"function","function":` + getRun(`"name":"get_run",`, "parameters") + `}`,
		`{"detail":"tools","format":"mcp"}`:       `{"name":"corp_weather","title":"Weather Forecast","description":"Forecasts the weather.","inputSchema":` + schema + `},` + getRun(`"name":"get_run","title":"Follow a run",`, "inputSchema"),
	} {
		skills := entries(2)
		skills[0].Tool, skills[0].Descriptor = "corp_weather", describe(t, weather).Descriptor
		b := &fakeBridge{listing: translate.Listing{Skills: skills}} // the second has no tool name
		if got := result(t, b, "list_skills", params); got != `{"tools":[`+want+`],"next_cursor":null}` {
			t.Errorf("%s: %s", params, got)
		}
		if q := b.queries[0]; !q.Usable || q.Descriptors != q.Limit || !q.ByName {
			t.Errorf("%+v", q)
		}
	}
}

// TestToolsInOneCall: without a limit, one call gets up to 250 tools, of which get_run is one, but no more results of a search than otherwise.
func TestToolsInOneCall(t *testing.T) {
	for params, want := range map[string]int{`{"detail":"tools"}`: 249, `{"detail":"tools","limit":60}`: 60, `{"detail":"tools","query":"a"}`: 50, `{"usable":true}`: 50} {
		b := &fakeBridge{}
		result(t, b, "list_skills", params)
		if q := b.queries[0]; q.Limit != want || q.Descriptors != want {
			t.Errorf("%s: %+v", params, q)
		}
	}
}

// TestToolsAreBounded: a request makes the bridge read at most 250 descriptors.
func TestToolsAreBounded(t *testing.T) {
	for params, most := range map[string]int{`{"detail":"tools","limit":1000}`: 249, `{"usable":true,"limit":251}`: 250, `{"query":"a","usable":true,"limit":1000}`: 250} {
		b := &fakeBridge{}
		result(t, b, "list_skills", params)
		if q := b.queries[0]; q.Limit != most || q.Descriptors != most {
			t.Errorf("%s: %+v", params, q)
		}
	}
}

// TestToolsForOpenAI: a request to OpenAI's API has at most 128 tools, and so has a page; get_run is on the first one.
func TestToolsForOpenAI(t *testing.T) {
	for params, want := range map[string]int{`"limit":1000`: 127, `"limit":127`: 127, `"limit":128`: 127, `"limit":1`: 1, `"cursor":"AWE"`: 128, `"cursor":"AWE","limit":1000`: 128, `"query":"a","limit":1000`: 127, `"version":1`: 127} {
		skills := entries(want)
		for i := range skills {
			skills[i].Tool, skills[i].Descriptor = "tool_"+strconv.Itoa(i), describe(t, weather).Descriptor
		}
		b := &fakeBridge{listing: translate.Listing{Skills: skills}}
		got := result(t, b, "list_skills", `{"detail":"tools","format":"openai",`+params+`}`)
		if q := b.queries[0]; q.Limit != want || q.Descriptors != want {
			t.Errorf("%s: %+v", params, q)
		}
		first := !strings.Contains(params, "cursor")
		if n := strings.Count(got, `"type":"function"`); n > 128 || strings.Contains(got, `"name":"get_run"`) != first {
			t.Errorf("%s: %d tools: %.200s", params, n, got)
		}
	}
	if got := result(t, &fakeBridge{}, "list_skills", `{"detail":"tools"}`); !strings.Contains(got, `"tools":[]`) {
		t.Errorf("a tool that follows runs of no skill: %s", got)
	}
}

// TestGetRunAsATool: execute_skill with the name and the arguments of the tool get_run follows the run.
func TestGetRunAsATool(t *testing.T) {
	b := &fakeBridge{outcome: runningRun()}
	const token = `"acme|acme/slow|1.0.0|exec-1|"`
	want := result(t, b, "get_run", `{"run_token":`+token+`,"wait_ms":1}`)
	for _, params := range []string{
		`{"name":"get_run","args":{"run_token":` + token + `,"wait_ms":1}}`, `{"name":"get_run","args":{"run_token":` + token + `},"wait_ms":1,"idempotency_key":"k","timeout_ms":5}`,
		`{"args":{"wait_ms":null,"run_token":` + token + `,"other":1},"name":"get_\u0072un","wait_ms":1}`,
	} {
		if got := result(t, b, "execute_skill", params); got != want || len(b.executed) != 0 || *b.followed[len(b.followed)-1].Wait != time.Millisecond {
			t.Errorf("%s: %s, executed %v", params, got, b.executed)
		}
	}
	if _, fault := ask(t, b, "execute_skill", `{"name":"get_run","args":{"run_token":"forged"}}`); fault == nil || !strings.HasPrefix(string(fault.Data), `{"param":"run_token","reason":"invalid"`) {
		t.Errorf("%+v", fault)
	}
	b.outcome = done
	for _, args := range []string{`{}`, `{"id":1}`} { // a skill with that name
		if got := result(t, b, "execute_skill", `{"name":"get_run","args":`+args+`}`); !strings.Contains(got, "completed") {
			t.Error(got)
		}
	}
	if len(b.executed) != 2 {
		t.Errorf("executed %v", b.executed)
	}
	b.outcome = run.Run{Failure: &run.Failure{Kind: run.SkillNotFound, By: run.Bridge}}
	if _, fault := ask(t, b, "execute_skill", `{"name":"get_run","args":{}}`); fault == nil || !strings.HasPrefix(string(fault.Data), `{"param":"run_token","reason":"required"`) {
		t.Errorf("%+v", fault)
	}
}

// TestToolsAreVisible: what a model reads of a definition has no hidden characters, and no keyword that chooses header fields.
func TestToolsAreVisible(t *testing.T) {
	d := describe(t, strings.ReplaceAll(weather, "City name.", `City\u202e name.`)).Descriptor
	d.Inputs[0].Schema = jsontext.Value(`{"x-mcp-header":"Secret","title":"a\u200bb"}`)
	skills := entries(1)
	skills[0].Tool, skills[0].Descriptor = "a", d
	got := result(t, &fakeBridge{listing: translate.Listing{Skills: skills}}, "list_skills", `{"detail":"tools"}`)
	for _, bad := range []string{"\u202e", `\u202e`, "\u200b", `\u200b`, "x-mcp-header"} {
		if strings.Contains(got, bad) {
			t.Errorf("%q in %s", bad, got)
		}
	}
}

// TestListSearchFindsNothing: an empty result says what to do, as far as the search is the reason.
func TestListSearchFindsNothing(t *testing.T) {
	for params, want := range map[string][]string{
		`{"query":"a"}`:                    {noWordsHint},
		`{"query":"a","usable":true}`:      {noWordsHint},
		`{"query":"a","detail":"tools"}`:   {noWordsHint},
		`{"query":"a","namespace":"none"}`: {"no source has the namespace"},
		`{"query":"a","limt":1}`:           {noWordsHint, `"ignored":["limt"]`},
	} {
		got := result(t, &fakeBridge{}, "list_skills", params)
		for _, text := range want {
			if !strings.Contains(got, text) || strings.Count(got, `"hint"`) != 1 {
				t.Errorf("%s: %s", params, got)
			}
		}
	}
	if got := result(t, &fakeBridge{listing: translate.Listing{Skills: entries(1)}}, "list_skills", `{"query":"a"}`); strings.Contains(got, "hint") {
		t.Error(got)
	}
}

// TestListBlankSearch: a query without a word is none, so that the list has pages.
func TestListBlankSearch(t *testing.T) {
	b := &fakeBridge{listing: translate.Listing{Skills: entries(3)}}
	if got := result(t, b, "list_skills", `{"query":" ","limit":2}`); strings.Contains(got, `"next_cursor":null`) {
		t.Error(got)
	}
}

const noWordsHint = `"hint":{"message":"no skill has words like these`

// TestListSearch: with words, skills are searched, and there is one page.
func TestListSearch(t *testing.T) {
	b := &fakeBridge{listing: translate.Listing{Skills: entries(1)}}
	result(t, b, "list_skills", `{"query":"weather","limit":7,"usable":true,"namespace":"corp","capability_type":"task"}`)
	if q := b.queries[0]; q.CapabilityType != document.Task || q.AfterName != "weather" || q.Limit != 7 || !q.Usable || q.Descriptors != 7 || q.Namespace != "corp" {
		t.Errorf("%+v", q)
	}
	for params, want := range map[string]string{
		`{"query":"a","cursor":"AWE"}`:         `{"param":"cursor","reason":"invalid"`,
		`{"query":""}`:                         `{"param":"query","reason":"invalid"`,
		`{"format":"openai"}`:                  `{"param":"format","reason":"invalid"`,
		`{"detail":"tools","format":"gemini"}`: `{"param":"format","reason":"invalid","candidates":["anthropic","openai","mcp"]`,
		`{"usable":"yes"}`:                     `{"param":"usable","reason":"invalid"`,
		`{"capability_type":"tool"}`:           `{"param":"capability_type","reason":"invalid","candidates":["api","knowledge","plugin","task"]`,
		`{"capability_type":"API"}`:            `{"param":"capability_type","reason":"invalid"`,
		`{"capability_type":""}`:               `{"param":"capability_type","reason":"invalid"`,
		`{"capability_type":["api"]}`:          `{"param":"capability_type","reason":"invalid"`,
	} {
		if _, fault := ask(t, b, "list_skills", params); fault == nil || !strings.HasPrefix(string(fault.Data), want) {
			t.Errorf("%s: %+v", params, fault)
		}
	}
}

// TestToolsAreMadeOnce: the schemas and texts of tools and manifests are made once, whatever the format; none is made for a caller that has gone.
func TestToolsAreMadeOnce(t *testing.T) {
	properties := strings.TrimPrefix(strings.Repeat(`,"größer*":{"items":{"$ref":"#"}}`, 300), ",")
	for i := range 300 {
		properties = strings.Replace(properties, "*", strconv.Itoa(i), 1)
	}
	text := strings.ReplaceAll(weather, `{"minimum": 1}`, `{"properties":{`+properties+`}}`)
	skills := entries(20)
	for i := range skills {
		skills[i].Tool = "tool_" + strconv.Itoa(i)
		skills[i].Descriptor = describe(t, text).Descriptor
	}
	b := &fakeBridge{listing: translate.Listing{Skills: skills}, description: &translate.Description{Name: "x", Descriptor: skills[0].Descriptor}}
	f := &skillsprotocol.Front{Bridge: b, Tokens: fakeTokens{}, Canceled: new(ledger.Cancellations)}
	gone, leave := context.WithCancel(t.Context())
	leave()
	for params, most := range map[string]float64{`{"detail":"tools"}`: 500, `{"detail":"tools","format":"openai"}`: 500, `{"detail":"tools","format":"mcp"}`: 500} {
		if _, fault := f.ServeRPC(gone, request("list_skills", params)); fault == nil {
			t.Errorf("%s: an answer for nobody", params)
		}
		if n := testing.AllocsPerRun(3, func() { _, _ = f.ServeRPC(t.Context(), request("list_skills", params)) }); n > most {
			t.Errorf("%s: %.0f allocations", params, n)
		}
	}
	if n := testing.AllocsPerRun(3, func() { _, _ = f.ServeRPC(t.Context(), request("describe_skill", `{"name":"x"}`)) }); n > 200 {
		t.Errorf("describe_skill: %.0f allocations", n)
	}
}
