package cli

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
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

// TestCommand shows that an id of a provider's can't become a flag.
func TestCommand(t *testing.T) {
	p := &Provider{Command: "caddy", URL: "https://a.example", Flags: []string{"--allow-http"}}
	if got, want := p.command("follow", "a/b", "run 1"), "caddy skill-bridge follow --allow-http https://a.example a/b 'run 1'"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := p.command("follow", "a/b", "--debug"), "caddy skill-bridge follow --allow-http -- https://a.example a/b --debug"; got != want {
		t.Errorf("%s, want %s", got, want)
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

// TestJSONOnTerminal shows that what can't be seen is escaped only where that
// matters, and means the same.
func TestJSONOnTerminal(t *testing.T) {
	value := jsontext.Value("{\"a\":\"\u009b2J\"}")
	for terminal, want := range map[bool]string{
		false: "{\"a\":\"\u009b2J\"}\n",
		true:  "{\n  \"a\": \"\\u009b2J\"\n}\n",
	} {
		var out bytes.Buffer
		(&Screen{Out: &out, OutTerminal: terminal}).JSON(value)
		if out.String() != want {
			t.Errorf("terminal %t: %q, want %q", terminal, &out, want)
		}
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	s := &Screen{Out: &out, Width: 14}
	s.Table("", []string{"NAME", "TEXT"}, [][]string{{"ä", "a long description"}, {"bcd\n", ""}})
	if want := "NAME  TEXT\nä     a long …\nbcd\n"; out.String() != want {
		t.Errorf("%q, want %q", &out, want)
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

// TestJudgeMediaType: an index is served as JSON (Skill Sharing Protocol, section
// 4.3.1), a descriptor as anything.
func TestJudgeMediaType(t *testing.T) {
	header := http.Header{"Content-Type": {"text/html"}}
	index := []byte(`{"protocol":{"version":"1.0.0"},"provider":{"name":"Acme"},"skills":[]}`)
	if v := Judge(index, "", header); v.Valid || len(v.Faults) != 1 || string(v.Faults[0].Actual) != `"text/html"` {
		t.Errorf("%+v", v)
	}
	if v := Judge(index, "", nil); !v.Valid {
		t.Errorf("%+v", v)
	}
	if v := Judge([]byte(`{}`), Descriptor, header); len(v.Faults) == 0 || strings.Contains(v.Faults[0].Message, "served") {
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
		{"file", "", "file", true}, // not one of JSON Schema's
		{"number", `{"type":"string"}`, "string", true},
		{"string", `{"type":"integer"}`, "integer", false},
		{"object", `{"type":["null","string"]}`, "null|string", true},
		{"object", `{"type":["null","number"]}`, "null|number", false},
		{"array", `{"items":{}}`, "array", false},
		{"array", `{"type":7}`, "array", false},
	} {
		p := &skillsharing.Parameter{Type: tc.own}
		if tc.schema != "" {
			p.Schema = jsontext.Value(tc.schema)
		}
		if got := strings.Join(types(p), "|"); got != tc.want || takesString(p) != tc.text {
			t.Errorf("%s %s: %s, text %t", tc.own, tc.schema, got, takesString(p))
		}
	}
}

func TestProgress(t *testing.T) {
	for terminal, want := range map[bool]string{
		false: "accepted run-1\ncompleted\n",
		true: eraseLine + "invoking 1 s" + eraseLine + "accepted run-1\n" +
			eraseLine + "running 2 s" + eraseLine + "running 3 s" + eraseLine + "completed\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			p := newProgress(&Screen{Err: &out, ErrTerminal: terminal})
			time.Sleep(1500 * time.Millisecond)
			p.running("accepted run-1")
			time.Sleep(2 * time.Second)
			p.end("completed")
			p.end("too late")
			time.Sleep(time.Minute)
			if out.String() != want {
				t.Errorf("terminal %t: %q, want %q", terminal, &out, want)
			}
		})
	}
}
