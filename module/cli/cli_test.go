package cli

import (
	"bufio"
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
)

func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"acme/echo":              "acme/echo",
		"https://a.example:8443": "https://a.example:8443",
		"":                       "''",
		"a b":                    "'a b'",
		"$(rm -rf ~)":            "'$(rm -rf ~)'",
		"it's":                   `'it'\''s'`,
		"a;b&c|d`e":              "'a;b&c|d`e'",
		"~":                      "'~'",
		"é":                      "'é'",
	} {
		if got := quote(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}

// TestCommand: an id that a provider chose can't become a flag.
func TestCommand(t *testing.T) {
	p := &Endpoint{Command: "caddy", URL: "https://a.example", Flags: []string{"--allow-http"}, Provider: new(Provider)}
	if got, want := p.command("follow", "a/b", "run 1"), "caddy skill-bridge follow --allow-http https://a.example a/b 'run 1'"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := p.command("follow", "a/b", "--debug"), "caddy skill-bridge follow --allow-http -- https://a.example a/b --debug"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestSafeNames: an input is known by the name that the APIs of language models accept, too, with its type.
func TestSafeNames(t *testing.T) {
	params := []document.Parameter{{Name: "user name", Type: "string"}, {Name: "how many", Type: "integer"}, {Name: "plain", Type: "string"}}
	safe := inputs.ModelNames(params)
	args, err := ParseArguments([]string{safe[0] + "=1", safe[1] + "=2", "plain=3", "other_7935f4=4"})
	if err != nil {
		t.Fatal(err)
	}
	object, err := args.object(params)
	if want := `{"` + safe[0] + `":"1","` + safe[1] + `":2,"plain":"3","other_7935f4":"4"}`; string(object) != want || err != nil {
		t.Errorf("%s, want %s: %v", object, want, err)
	}
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                  "plain",
		"two\n  lines\t":         "two lines",
		"\x1b[2Jgone":            `\u001b[2Jgone`,
		"C1 \u009b2J":            `C1 \u009b2J`,
		"bidi \u202e":            `bidi \u202e`,
		"tag \U000e0041":         `tag \udb40\udc41`,
		"Grüße, 世界 🎉":            "Grüße, 世界 🎉",
		"bad \xff utf-8\u2028 x": "bad \ufffd utf-8 x",
	} {
		if got := printable(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestJSONOnTerminal: invisible characters are escaped only on terminals, and the JSON stays
// equivalent.
func TestJSONOnTerminal(t *testing.T) {
	value := jsontext.Value("{\"a\":\"\u009b2J\"}")
	for terminal, want := range map[bool]string{
		false: "{\"a\":\"\u009b2J\"}\n",
		true:  "{\n  \"a\": \"\\u009b2J\"\n}\n",
	} {
		var out bytes.Buffer
		screen := &Screen{Out: bufio.NewWriter(&out), outTerminal: terminal}
		screen.JSON(value)
		screen.End(OK)
		if out.String() != want {
			t.Errorf("terminal %t: %q, want %q", terminal, &out, want)
		}
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	s := &Screen{Out: bufio.NewWriter(&out), width: 14}
	s.Table("", 2, []string{"NAME", "TEXT"}, [][]string{{"ä", "a long description"}, {"bcd\n", ""}})
	s.End(OK)
	if want := "NAME  TEXT\nä     a long …\nbcd\n"; out.String() != want {
		t.Errorf("%q, want %q", &out, want)
	}
}

// TestTableCells: what must be read whole is not cut at the width of a terminal.
func TestTableCells(t *testing.T) {
	rows := func() [][]string {
		return [][]string{{"ok", "a", "read", ""}, {"failed", "b", "it is not valid", "tell the provider"}, {"failed", "a long name of a skill", "gone", ""}}
	}
	header := []string{"RESULT", "WHERE", "WHAT", "HOW TO FIX"}
	for _, c := range []struct {
		width int
		want  string
	}{
		{0, "RESULT  WHERE                   WHAT             HOW TO FIX\nok      a                       read\n" +
			"failed  b                       it is not valid  tell the provider\nfailed  a long name of a skill  gone\n"},
		{38, "RESULT  WHERE                   WHAT …\nok      a                       read\n" +
			"failed  b\n        what: it is not valid\n        how to fix: tell the provider\nfailed  a long name of a skill  gone\n"},
		{20, "RESULT  WHERE      …\nok      a\n        what: read\nfailed  b\n        what: it is not valid\n        how to fix: tell the provider\n" +
			"failed  a long name…\n        what: gone\n"},
	} {
		var out bytes.Buffer
		s := &Screen{Out: bufio.NewWriter(&out), width: c.width}
		s.Table("", 2, header, rows())
		s.End(OK)
		if out.String() != c.want {
			t.Errorf("width %d:\n%s\nwant\n%s", c.width, &out, c.want)
		}
	}
}

// TestTableIsAligned: a long cell to be read whole moves no other, also without a terminal, and characters have their widths.
func TestTableIsAligned(t *testing.T) {
	var out bytes.Buffer
	s, long := &Screen{Out: bufio.NewWriter(&out)}, strings.Repeat("w", maxPadding+1)
	s.Table("", 2, []string{"RESULT", "WHERE", "WHAT", "HOW TO FIX"}, [][]string{
		{"ok", "天気", "read", "nothing"}, {"failed", "e\u0301", long, "tell the provider"}, {"failed", "b", "gone", long},
	})
	s.End(OK)
	if want := "RESULT  WHERE  WHAT                  HOW TO FIX\nok      天気   read                  nothing\nfailed  e\u0301\n        what: " + long +
		"\n        how to fix: tell the provider\nfailed  b      gone                  " + long + "\n"; out.String() != want {
		t.Errorf("%s\nwant\n%s", &out, want)
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		303 * time.Millisecond:       "303 ms",
		4230 * time.Millisecond:      "4.2 s",
		125400 * time.Millisecond:    "2m5s",
		time.Hour + 1*time.Second:    "1h0m1s",
		59*time.Second + time.Second: "1m0s",
	} {
		if got := seconds(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}

func TestKindOf(t *testing.T) {
	for document, want := range map[string]Kind{
		`{"skills":[]}`:                     Index,
		"\ufeff" + `{"skills":[]}`:          Index,
		`{"provider":{},"skills":3}`:        Index,
		`{"id":"a","skills":[],"inputs":1}`: Descriptor,
		`{"endpoint":{},"skills":[]}`:       Descriptor,
		`{"provider":{"skills":[]}}`:        Descriptor,
		`{"skills":[}`:                      Index,
		`{}`:                                Descriptor,
		`[]`:                                Descriptor,
		``:                                  Descriptor,
		`{"id":"a","id":"b","skills":[]}`:   Index,
	} {
		if got := kindOf([]byte(document)); got != want {
			t.Errorf("%s: %s, want %s", document, got, want)
		}
	}
}

// validate validates a document by itself.
func validate(text []byte, kind Kind, header http.Header) validation {
	return (&Validator{Kind: kind}).validate(context.Background(), text, header)
}

// TestValidateMediaType: the media type must be JSON; only for an index may it be absent.
func TestValidateMediaType(t *testing.T) {
	header := http.Header{"Content-Type": {"text/html"}}
	index := []byte(`{"protocol":{"version":"1.0.0"},"provider":{"name":"Acme"},"skills":[]}`)
	if v := validate(index, "", header); v.Valid || len(v.Faults) != 1 || string(v.Faults[0].Actual) != `"text/html"` {
		t.Errorf("%+v", v)
	}
	if v := validate(index, "", nil); !v.Valid {
		t.Errorf("%+v", v)
	}
	if v := validate(index, "", http.Header{}); !v.Valid {
		t.Errorf("%+v", v)
	}
	for _, h := range []http.Header{header, {}} {
		if v := validate([]byte(`{}`), Descriptor, h); len(v.Faults) < 2 || !strings.Contains(v.Faults[0].Message, "served") {
			t.Errorf("%+v", v)
		}
	}
	if v := validate([]byte(`{}`), Descriptor, nil); len(v.Faults) == 0 || strings.Contains(v.Faults[0].Message, "served") {
		t.Errorf("%+v", v)
	}
}

func TestTypes(t *testing.T) {
	for _, tc := range []struct {
		own, schema string
		want        string
		text        bool
	}{
		{"string", "", "string", true},
		{"number", "", "number", false},
		{"file", "", "file", true}, // no type of JSON Schema
		{"number", `{"type":"string"}`, "string", true},
		{"string", `{"type":"integer"}`, "integer", false},
		{"object", `{"type":["null","string"]}`, "null|string", true},
		{"object", `{"type":["null","number"]}`, "null|number", false},
		{"array", `{"items":{}}`, "array", false},
		{"array", `{"type":7}`, "array", false},
	} {
		p := &document.Parameter{Type: tc.own}
		if tc.schema != "" {
			p.Schema = jsontext.Value(tc.schema)
		}
		if got := strings.Join(types(p), "|"); got != tc.want || acceptsString(p) != tc.text {
			t.Errorf("%s %s: %s, text %t", tc.own, tc.schema, got, acceptsString(p))
		}
	}
}

// TestNext checks the advice about failures. None is to call a skill again that may have been
// executed.
func TestNext(t *testing.T) {
	const list = "caddy skill-bridge list https://a.example"
	failed := func(kind run.Kind, next run.Next, e run.Failure) *run.Failure {
		if e.Executed == "" {
			e.Executed = run.ExecutedNo
		}
		e.SkillID, e.Kind = "a/b", kind
		if e.Next() != next {
			t.Errorf("%+v: next %s, want %s", e, e.Next(), next)
		}
		return &e
	}
	at := func(p *Provider, flags ...string) *Endpoint {
		return &Endpoint{Command: "caddy", URL: "https://a.example", Flags: flags, Provider: p}
	}
	plain, keyed, private := at(new(Provider)), at(&Provider{Credentials: "--api-key-env"}), at(&Provider{Credentials: "--api-key-env", Private: true})
	token := at(&Provider{Credentials: "--oauth-client-id"})
	for _, tc := range []struct {
		name    string
		e       *Endpoint
		failure *run.Failure
		want    string
	}{
		{"no such host", plain, failed(run.Unreachable, run.NextAskOperator, run.Failure{Refused: run.RuleNoSuchHost}), "check the host name"},
		{"an expired certificate", plain, failed(run.Unreachable, run.NextAskOperator, run.Failure{Refused: run.RuleCertificate}), "ask the provider to correct that"},
		{"no TLS", plain, failed(run.Unreachable, run.NextAskOperator, run.Failure{Refused: run.RuleNotTLS}), "to allow plain HTTP, write http:// in the URL, and add --allow-http"},
		{"a name that is private", plain, failed(run.Unreachable, run.NextAskOperator, run.Failure{Refused: run.RuleAddress, URL: "https://localhost/x"}), "to allow this address, add --allow-networks 127.0.0.1,::1"},
		{"no name server", plain, failed(run.Unreachable, run.NextRetry, run.Failure{Cause: &net.DNSError{}}), "try again later"},
		{"refused", plain, failed(run.Unreachable, run.NextRetry, run.Failure{Cause: syscall.ECONNREFUSED}), "check the host and the port"},
		{"POST without an answer", plain, failed(run.DeadlineExceeded, run.NextNone, run.Failure{Executed: run.ExecutedMaybe}), "the skill may have been executed"},
		{"the run exists", plain, failed(run.DeadlineExceeded, run.NextFollowRun, run.Failure{Executed: run.ExecutedYes, Ref: run.Ref{ExecutionID: "run-1"}}), "the run exists, do not start another"},
		{"index", plain, failed(run.InvalidDocument, run.NextAskOperator, run.Failure{Phase: run.PhaseDiscovery}), "check that this is the origin"},
		{"no index", plain, failed(run.SkillNotFound, run.NextOtherSkill, run.Failure{Phase: run.PhaseDiscovery, By: run.Provider}), "check that this is the origin"},
		{"descriptor", plain, failed(run.InvalidDocument, run.NextOtherSkill, run.Failure{Phase: run.PhaseDescriptor}), "this skill can't be used until"},
		{"no descriptor", plain, failed(run.SkillNotFound, run.NextOtherSkill, run.Failure{Phase: run.PhaseDescriptor, By: run.Provider}), "the index names a descriptor that does not exist; its provider must correct that. Other skills: " + list},
		{"no skill", plain, failed(run.SkillNotFound, run.NextOtherSkill, run.Failure{Phase: run.PhaseInvoke, By: run.Provider}), "the provider no longer runs this skill"},
		{"version", plain, failed(run.VersionIncompatible, run.NextOtherSkill, run.Failure{Phase: run.PhaseDescriptor}), "the skill follows another version"},
		{"run unknown", plain, failed(run.ProviderFault, run.NextNone, run.Failure{Executed: run.ExecutedYes, Lost: true, HTTPStatus: 404}), "check the execution id"},
		{"run lost", plain, failed(run.ProviderFault, run.NextNone, run.Failure{Executed: run.ExecutedYes, Lost: true}), "the run was accepted, so do not start another"},
		{"forbidden", plain, failed(run.PermissionDenied, run.NextAskOperator, run.Failure{Phase: run.PhaseInvoke}), "if you have a key that may use the skill"},
		{"forbidden to the key", keyed, failed(run.PermissionDenied, run.NextAskOperator, run.Failure{Phase: run.PhaseInvoke}), "ask the provider to allow it for this key"},
		{"forbidden document", keyed, failed(run.PermissionDenied, run.NextAskOperator, run.Failure{Phase: run.PhaseDiscovery}), "add --private"},
		{"document", plain, failed(run.AuthRequired, run.NextAskOperator, run.Failure{Phase: run.PhaseDescriptor}), "name the environment variable that has the API key: --api-key-env NAME --private"},
		{"key not for documents", keyed, failed(run.AuthRequired, run.NextAskOperator, run.Failure{Phase: run.PhaseDescriptor}), "add --private"},
		{"key wrong", private, failed(run.AuthRequired, run.NextAskOperator, run.Failure{Phase: run.PhaseDescriptor}), "check the key"},
		{"OAuth", keyed, failed(run.AuthRequired, run.NextAskOperator, run.Failure{Phase: run.PhaseAuth, Demand: &run.Demand{Type: "oauth2"}}), "this skill needs an OAuth token: --oauth-client-id ID --oauth-secret-env NAME"},
		{"another kind", keyed, failed(run.AuthRequired, run.NextAskOperator, run.Failure{Phase: run.PhaseAuth, Demand: &run.Demand{Type: "custom"}}), "this skill needs custom, for which you need a Caddyfile"},
		{"client refused", token, failed(run.AuthRequired, run.NextAskOperator, run.Failure{Phase: run.PhaseAuth, Demand: &run.Demand{Type: "oauth2"}}), "check the client's id"},
		{"no scope", token, failed(run.PermissionDenied, run.NextAskOperator, run.Failure{Phase: run.PhaseInvoke}), "ask the provider to allow it for this client, or add the scopes"},
		{"a key, not a token", token, failed(run.AuthRequired, run.NextAskOperator, run.Failure{Phase: run.PhaseAuth, Demand: &run.Demand{Type: "api_key"}}), "this skill needs an API key"},
		{"key expired", keyed, failed(run.AuthRequired, run.NextFollowRun, run.Failure{Phase: run.PhasePoll, Executed: run.ExecutedYes, Ref: run.Ref{ExecutionID: "run-1"}}), "check the key in the variable that --api-key-env names, and --api-key-header and --api-key-prefix; then follow the run: caddy skill-bridge follow https://a.example a/b run-1"},
	} {
		if got := tc.e.next(refusalOf(tc.failure)); !strings.HasPrefix(got, tc.want) || tc.failure.Executed != run.ExecutedNo && strings.Contains(got, "try again later") {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestDenied(t *testing.T) {
	d := new(Provider)
	d.Noticed(&exchange.Notice{Attrs: []slog.Attr{slog.String("host", "other.example")}})
	if got := d.trustAdvice(); got != "" {
		t.Errorf("nothing was denied: %s", got)
	}
	for line, want := range map[string]string{
		"trust b.example:8443":     "add --trust b.example:8443",
		"trust [2001:db8::1]:8443": "add --trust '[2001:db8::1]:8443'",
		"":                         "which does not use TLS: tell the provider",
	} {
		n := &exchange.Notice{SecretDenied: true, Attrs: []slog.Attr{slog.String("host", "b.example")}}
		if line != "" {
			n.Attrs = append(n.Attrs, slog.String("line", line))
		}
		d.Noticed(n)
		if got := d.trustAdvice(); !strings.HasPrefix(got, "the key was not sent to b.example, ") || !strings.HasSuffix(got, want) {
			t.Errorf("%q: %s, want %s", line, got, want)
		}
	}
}

// TestTableIsBounded: a long cell does not widen the rows of other entries, and moves nothing: it has a line of its own.
func TestTableIsBounded(t *testing.T) {
	var out bytes.Buffer
	rows := [][]string{{"long", strings.Repeat("1", 1<<20), strings.Repeat("é", 1<<20)}, {strings.Repeat("n", maxPadding+1), "2", "wide"}}
	for range 1000 {
		rows = append(rows, []string{"short", "1.0.0", "usual"})
	}
	screen := &Screen{Out: bufio.NewWriter(&out)}
	screen.Table("", 3, []string{"NAME", "VERSION", "DESCRIPTION"}, rows)
	screen.End(OK)
	lines := strings.Split(out.String(), "\n")
	for i, want := range []string{
		"NAME                  VERSION               DESCRIPTION",
		"long                  1111111111111111111…  " + strings.Repeat("é", maxCell-1) + "…",
		"                      version: " + strings.Repeat("1", maxCell-1) + "…",
		"nnnnnnnnnnnnnnnnnnn…  2                     wide",
		"                      name: " + strings.Repeat("n", maxPadding+1),
		"short                 1.0.0                 usual",
	} {
		if lines[i] != want {
			t.Errorf("line %d is %.100q, want %.100q", i, lines[i], want)
		}
	}
	if out.Len() > 1000*100 {
		t.Errorf("%d bytes", out.Len())
	}
}

// TestEmptyDocument: an incomplete document is not reported as empty.
func TestEmptyDocument(t *testing.T) {
	for document, empty := range map[string]bool{"": true, " \n": true, `{"skills":[`: false, `"a`: false, "tru": false, "{": false} {
		if v := validate([]byte(document), Index, nil); (v.Faults[0].Message == "is empty") != empty {
			t.Errorf("%q: %+v", document, v.Faults)
		}
	}
}
