package observe

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	zapobserver "go.uber.org/zap/zaptest/observer"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// observed returns an observer and what it logs at a level and above.
func observed(level zapcore.Level) (*Observer, *zapobserver.ObservedLogs) {
	core, logs := zapobserver.New(level)
	return NewObserver(zap.New(core), false, nil), logs
}

func TestCalledLevels(t *testing.T) {
	failure := func(kind run.Kind, f run.Failure) *run.Failure {
		f.Kind = kind
		return &f
	}
	for name, tc := range map[string]struct {
		failure *run.Failure
		want    zapcore.Level
	}{
		"success":                       {nil, zapcore.InfoLevel},
		"arguments":                     {failure(run.InvalidArguments, run.Failure{}), zapcore.InfoLevel},
		"arguments above a limit":       {failure(run.InvalidArguments, run.Failure{Argument: &run.Argument{Reason: run.OverLimit}}), zapcore.WarnLevel},
		"run failed":                    {failure(run.RunFailed, run.Failure{}), zapcore.InfoLevel},
		"credential refused by bridge":  {failure(run.AuthRequired, run.Failure{By: run.Bridge}), zapcore.WarnLevel},
		"credential wanted by provider": {failure(run.AuthRequired, run.Failure{By: run.Provider}), zapcore.WarnLevel},
		"following is up to the agent":  {failure(run.DeadlineExceeded, run.Failure{Executed: run.ExecutedYes}), zapcore.InfoLevel},
		"descriptor gone":               {failure(run.SkillNotFound, run.Failure{By: run.Provider}), zapcore.WarnLevel},
		"refused dial":                  {failure(run.Unreachable, run.Failure{Refused: run.RulePort}), zapcore.WarnLevel},
		"connection refused by a rule":  {failure(run.Unreachable, run.Failure{Refused: run.RulePort, Cause: fmt.Errorf("dial: %w", &exchange.RefusedError{Exact: "port 1 is not allowed"})}), zapcore.InfoLevel},
		"secret denied":                 {&run.Failure{Kind: run.AuthRequired, Demand: &run.Demand{Withheld: true}}, zapcore.InfoLevel},
		"provider down":                 {failure(run.Unreachable, run.Failure{}), zapcore.WarnLevel},
		"invalid document":              {failure(run.InvalidDocument, run.Failure{}), zapcore.WarnLevel},
		"too many calls":                {failure(run.RateLimited, run.Failure{By: run.Bridge, Limit: &run.Limit{}}), zapcore.WarnLevel},
		"too many calls of the caller":  {failure(run.RateLimited, run.Failure{By: run.Bridge, Limit: &run.Limit{Own: true}}), zapcore.InfoLevel},
		"bug":                           {failure(run.Internal, run.Failure{}), zapcore.ErrorLevel},
	} {
		o, logs := observed(zapcore.DebugLevel)
		o.Called(t.Context(), &translate.Call{}, &run.Run{Failure: tc.failure}, &translate.Statistics{})
		if lines := logs.All(); len(lines) != 1 || lines[0].Level != tc.want {
			t.Errorf("%s: %v, want level %s", name, lines, tc.want)
		}
	}
}

// R259: a provider that is down, or a database that fails, makes one line a minute a WARN or an ERROR, and every call is still logged.
func TestR259FailuresAreNotRepeated(t *testing.T) {
	for kind, want := range map[run.Kind]string{run.Unreachable: "warn info warn warn", run.Internal: "error info error error"} {
		synctest.Test(t, func(t *testing.T) {
			o, logs := observed(zapcore.DebugLevel)
			call := func(source string) {
				o.Called(t.Context(), &translate.Call{}, &run.Run{Failure: &run.Failure{Kind: kind}}, &translate.Statistics{Source: source})
			}
			call("a")
			call("a")
			call("b")
			time.Sleep(lineInterval)
			call("a")
			var got []string
			for _, line := range logs.All() {
				got = append(got, line.Level.String())
			}
			if s := strings.Join(got, " "); s != want {
				t.Errorf("levels of %s: %s, want %s", kind, s, want)
			}
		})
	}
}

func TestCalledFields(t *testing.T) {
	o, logs := observed(zapcore.DebugLevel)
	o.Called(t.Context(),
		&translate.Call{Caller: run.Caller{Principal: "alice", TraceID: "abc"}, Name: strings.Repeat("n", 1000), Inputs: jsonrpc.Object{Text: jsontext.Value(`{"private":"argument"}`)}},
		&run.Run{Ref: run.Ref{SkillID: "acme/x", ExecutionID: "run1"}, State: run.Failed, Output: []byte(`"private output"`), Failure: &run.Failure{
			Kind: run.Unreachable, Executed: run.ExecutedYes,
			Message: "down", Phase: run.PhasePoll,
			HTTPStatus: 503, Provider: &run.ProviderError{Details: []byte(`"private details"`)}, Cause: errors.New("no route"),
		}},
		&translate.Statistics{Source: "acme", Duration: time.Second, Stats: skillsharing.Stats{Attempts: 2, Polls: 3}})
	got := logs.All()[0].ContextMap()
	for name, want := range map[string]any{
		"source": "acme", "skill_id": "acme/x", "principal": "alice", "trace_id": "abc", "attempts": int64(2), "polls": int64(3),
		"execution_id": "run1", "status": "failed", "code": "ENDPOINT_UNREACHABLE", "phase": "poll", "http_status": int64(503),
		"error": "down", "cause": "no route", "next": "follow_run", "duration": time.Second,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if all := fmt.Sprint(got); strings.Contains(all, "private") || len(all) > 1000 {
		t.Errorf("logged: %s", all)
	}
	for _, kind := range []run.Kind{run.RunFailed, run.InvalidArguments} {
		o.Called(t.Context(), new(translate.Call), &run.Run{Failure: &run.Failure{
			Kind:    kind,
			Message: "private words", Argument: &run.Argument{Field: run.FieldInput, Name: "city", Pointer: "/city/private", Reason: run.WrongSchema},
		}}, new(translate.Statistics))
		last := logs.All()[logs.Len()-1].ContextMap()
		if all := fmt.Sprint(last); strings.Contains(all, "private") || last["param"] != "city" || last["reason"] != "schema" {
			t.Errorf("logged: %s", all)
		}
	}
	// That of a limit quotes nothing of them, and names it.
	o.Called(t.Context(), new(translate.Call), &run.Run{Failure: &run.Failure{
		Kind:    run.InvalidArguments,
		Message: "too much (limits argument_complexity: 7)", Argument: &run.Argument{Field: run.FieldInput, Name: "city", Reason: run.OverLimit},
	}}, new(translate.Statistics))
	if last := logs.All()[logs.Len()-1].ContextMap(); last["error"] != "too much (limits argument_complexity: 7)" || last["reason"] != "limit" {
		t.Errorf("logged: %v", last)
	}
}

func TestClip(t *testing.T) {
	for text, want := range map[string]string{
		"":                "",
		"äöü":             "äöü", // 6 bytes
		"abcdefg":         "abcdef…",
		"abcdeü":          "abcde…", // cut in the middle of ü
		"a\xffb":          "a\uFFFDb",
		"\xff\xfeabcdef":  "abcd…",
		"a\x1b[2J":        "a [2J", // would clear a terminal
		"\u009bJ\x00\x7f": " J  ",
		"a\nb\tc":         "a b c",
		"a\u2028b":        "a b",
		"a\u202eb":        "a\uFFFDb", // would turn the rest of the line around
		"\u200d\u200c":    "\u200d\u200c",
		"\u202eabcdefg":   "\uFFFDabc…",
	} {
		if got := safetext.Field(text, 6); got != want {
			t.Errorf("%q is clipped to %q, want %q", text, got, want)
		}
	}
}

// TestClipTakesNoMemory for texts that are as they should be.
func TestClipTakesNoMemory(t *testing.T) {
	for _, text := range []string{"acme.weather", "https://skills.example.com/run?x=1", "größer"} {
		if n := testing.AllocsPerRun(100, func() { safetext.Field(text, MaxLogged) }); n != 0 {
			t.Errorf("%q takes %v allocations", text, n)
		}
	}
}

// TestLoggedTextsAreBounded: whatever a provider or an agent says, a line stays
// short, and valid UTF-8.
func TestLoggedTextsAreBounded(t *testing.T) {
	long := strings.Repeat("ä", 100_000) + "\xff"
	o, logs := observed(zapcore.DebugLevel)
	o.Called(t.Context(), &translate.Call{Caller: run.Caller{Principal: long}, Name: long}, &run.Run{Ref: run.Ref{SkillID: long, ExecutionID: long}, State: run.State(200), Failure: &run.Failure{
		Kind: run.Unreachable, Executed: run.ExecutedYes,
		URL: long, Message: long, Cause: errors.New(long),
	}}, &translate.Statistics{})
	o.Exchange(t.Context(), &exchange.Exchange{URL: &url.URL{Scheme: "https", Host: "a.example", Path: "/" + long}, Err: errors.New(long)})
	o.Notice(t.Context(), &exchange.Notice{Level: slog.LevelWarn, Message: long, Attrs: []slog.Attr{
		slog.String("text", long), slog.Any("list", []string{long}), slog.Any("error", errors.New(long)),
	}})
	o.RefusedConnection("acme", long, long, &exchange.RefusedError{Exact: "address is not public", Rule: run.RuleAddress})
	if logs.Len() != 4 {
		t.Fatalf("%d lines, want 4", logs.Len())
	}
	for _, line := range logs.All() {
		text := fmt.Sprint(line.Message, line.ContextMap())
		if len(text) > 6000 || !utf8.ValidString(text) {
			t.Errorf("%d bytes, valid UTF-8: %t: %.300s", len(text), utf8.ValidString(text), text)
		}
	}
}

func TestExchange(t *testing.T) {
	e := &exchange.Exchange{Source: "acme", Method: "GET", URL: &url.URL{Scheme: "https", Host: "a.example", Path: "/x", RawQuery: "key=1"}, Status: 200, Err: errors.New("cut off")}
	o, logs := observed(zapcore.DebugLevel)
	o.Exchange(t.Context(), e)
	if got := logs.All()[0].ContextMap(); got["url"] != "https://a.example/x" || got["status"] != int64(200) || got["error"] != "cut off" {
		t.Errorf("logged: %v", got)
	}
	o, logs = observed(zapcore.InfoLevel)
	o.Exchange(t.Context(), e)
	if logs.Len() != 0 {
		t.Error("logged above level DEBUG")
	}
}

func TestNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, logs := observed(zapcore.InfoLevel)
		notice := func(level slog.Level, source, message string) {
			o.Notice(t.Context(), &exchange.Notice{
				Level: level, Source: source, Message: message,
				Attrs: []slog.Attr{slog.String("text", strings.Repeat("x", 1000)), slog.Int("n", 1), slog.Any("error", errors.New("e"))},
			})
		}
		notice(slog.LevelDebug, "a", "unseen")
		for range 5 {
			notice(slog.LevelWarn, "a", "broken")
		}
		notice(slog.LevelWarn, "b", "broken")
		notice(slog.LevelError, "a", "worse")
		time.Sleep(lineInterval)
		notice(slog.LevelWarn, "a", "broken")
		time.Sleep(lineInterval)
		notice(slog.LevelWarn, "a", "broken")

		var got []string
		for _, line := range logs.All() {
			fields := line.ContextMap()
			got = append(got, fmt.Sprint(line.Level, " ", fields["source"], " ", line.Message, " ", fields["repeated"]))
			if len(fmt.Sprint(fields["text"])) > 300 || fields["n"] != int64(1) || fields["error"] != "e" {
				t.Errorf("fields: %v", fields)
			}
		}
		want := "warn a broken <nil>|warn b broken <nil>|error a worse <nil>|warn a broken 4|warn a broken <nil>"
		if s := strings.Join(got, "|"); s != want {
			t.Errorf("logged\n%s, want\n%s", s, want)
		}
	})
}

func TestRefusalsNameTheOption(t *testing.T) {
	for _, tc := range []struct {
		host, address string
		refused       exchange.RefusedError
		option        string
	}{
		{"a.example:443", "10.0.0.1", exchange.RefusedError{Exact: "address is not public", Rule: run.RuleAddress}, "allow_networks 10.0.0.1"},
		{"a.example:8443", "", exchange.RefusedError{Exact: "port 8443 is not allowed", Rule: run.RulePort}, "allow_ports 8443"},
		{"127.1:443", "", exchange.RefusedError{Exact: "host is spelled like an address", Rule: run.RuleHost}, ""},
	} {
		o, logs := observed(zapcore.DebugLevel)
		o.RefusedConnection("acme", tc.host, tc.address, &tc.refused)
		line := logs.All()[0]
		option, named := line.ContextMap()["option"]
		if named != (tc.option != "") || named && option != tc.option || strings.Contains(line.Message, "option") != named {
			t.Errorf("%s: %s %v", tc.refused.Exact, line.Message, line.ContextMap())
		}
	}
}

// TestCodesOfRuns: the code of a failed run is the provider's own text.
func TestCodesOfRuns(t *testing.T) {
	for code, want := range map[string]string{"whatever an agent has sent": "EXECUTION_FAILED", "RATE_LIMITED": "RATE_LIMITED"} {
		o, logs := observed(zapcore.DebugLevel)
		o.Called(t.Context(), &translate.Call{}, &run.Run{State: run.Failed, Failure: &run.Failure{Kind: run.RunFailed, Provider: &run.ProviderError{Code: code}}}, new(translate.Statistics))
		if got := logs.All()[0].ContextMap()["code"]; got != want {
			t.Errorf("%s is logged as %v", code, got)
		}
	}
}

// TestRefusalsAreBounded: documents choose hosts, and so how many lines there are.
func TestRefusalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, logs := observed(zapcore.DebugLevel)
		for i := range 10_000 {
			o.RefusedConnection("acme", fmt.Sprint("host", i, ":443"), "10.0.0.1", &exchange.RefusedError{Exact: "address is not public", Rule: run.RuleAddress})
		}
		if n := logs.Len(); n == 0 || n > 100 {
			t.Errorf("%d lines", n)
		}
		if last := logs.All()[logs.Len()-1]; !strings.Contains(last.Message, "are not logged") {
			t.Errorf("nothing says that there is more: %v", last)
		}
		o.RefusedConnection("other", "host:443", "10.0.0.1", &exchange.RefusedError{Exact: "address is not public", Rule: run.RuleAddress})
		if last := logs.All()[logs.Len()-1]; last.ContextMap()["source"] != "other" {
			t.Errorf("one source keeps another's from being logged: %v", last)
		}
		o.Notice(t.Context(), &exchange.Notice{Level: slog.LevelWarn, Message: "other"})
		if last := logs.All()[logs.Len()-1]; last.Message != "other" {
			t.Errorf("refusals keep a notice from being logged: %v", last)
		}
		time.Sleep(lineInterval)
		before := logs.Len()
		o.RefusedConnection("acme", "late:443", "10.0.0.1", &exchange.RefusedError{Exact: "address is not public", Rule: run.RuleAddress})
		if logs.Len() != before+1 {
			t.Error("no refusal is logged any more")
		}
	})
}

// TestRefusedRequestsAreCalls: what is wrong with the params of a call is in the logs,
// the audit and the metrics, like all else that becomes of calls.
func TestRefusedRequestsAreCalls(t *testing.T) {
	countAnew(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	c := testbed.StartCaddy(t, "{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n"+testbed.Bridge("audit", "provider "+p.URL()+" {", "namespace acme", "}"))
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
	c := testbed.StartCaddy(t, testbed.Site("skill_bridge /rpc {\n\tallow_http\n\tprovider http://localhost:"+port+" {\n\t\tnamespace acme\n\t}\n}"))
	if a := c.Execute("acme.echo", nil); a.Outcome() != "ENDPOINT_UNREACHABLE" {
		t.Fatal(a)
	}
	if lines := c.Log.Lines(`"level":"warn","ts"`, `"logger":"http.handlers.skill_bridge"`); len(lines) != 1 || !strings.Contains(lines[0], `"source":"acme","host":"localhost:`+port+`"`) || !strings.Contains(lines[0], `"option":"allow_networks `) {
		t.Errorf("%s", lines)
	}
}

// TestRefusedTokenEndpointsNameTheirSource: a token is fetched apart from the call, and
// is for the same source all the same. Waiting does not help.
func TestRefusedTokenEndpointsNameTheirSource(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/token", Auth: hostile.OAuth2("http://10.1.1.1/token")})
	c := testbed.StartCaddy(t, testbed.Bridge("allow_anonymous", "provider "+p.URL()+" {",
		"namespace acme", "credentials oauth2 {", "client_id a", "client_secret b", "token_url http://10.1.1.1/token", "}", "}"))
	if a := c.Execute("acme.token", nil); a.Outcome() != "ENDPOINT_UNREACHABLE" || a.Data.Next != "ask_operator" {
		t.Error(a)
	}
	if lines := c.Log.Lines("did not connect", `"source":"acme"`, `"option":"allow_networks 10.1.1.1"`); len(lines) != 1 {
		t.Errorf("%s", c.Log.Lines("did not connect"))
	}
}
