package skillsharing_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

func TestSecretsAreScrubbed(t *testing.T) {
	const redacted = "[redacted]"
	for _, c := range []struct {
		name    string
		secrets []string
		message string // of the error, as a JSON string
		details string // and its details
		want    string // the two, as told
	}{
		{"message", []string{"k-123"}, `"bad key k-123, k-123!"`, `1`, `bad key [redacted], [redacted]! 1`},
		{"message, escaped", []string{"k-123"}, `"bad key \u006b\u002d123"`, `1`, `bad key [redacted] 1`},
		{"value", []string{"k-123"}, `"m"`, `{"a":["x k-123 y",1.0]}`, `m {"a":["x [redacted] y",1.0]}`},
		{"value alone", []string{"k-123"}, `"m"`, `"k-123"`, `m "[redacted]"`},
		{"value, escaped", []string{"k-123"}, `"m"`, `{"a":"\u006B-1\u00323"}`, `m {"a":"[redacted]"}`},
		{"member name", []string{"k-123"}, `"m"`, `{"k-123":1,"xk-123":{}}`, `m {"[redacted]":1,"x[redacted]":{}}`},
		{"member name, escaped", []string{"k-123"}, `"m"`, `{"\u006b-123":1}`, `m {"[redacted]":1}`},
		{"two member names that become one", []string{"k-123"}, `"m"`, `{"k-123":1,"[redacted]":2}`, `m {"[redacted]":1,"[redacted] 2":2}`},
		{"slash, escaped", []string{"a/b"}, `"a\/b"`, `["a\/b"]`, `[redacted] ["[redacted]"]`},
		{"quotation marks", []string{`k"1\2`}, `"got k\"1\\2"`, `["k\"1\\2","k\u00221\u005c2"]`, `got [redacted] ["[redacted]","[redacted]"]`},
		{"beyond ASCII", []string{"schlüssel€😀"}, `"schlüssel€😀"`, `["schl\u00fcssel\u20AC\ud83d\ude00","schlüssel€😀"]`, `[redacted] ["[redacted]","[redacted]"]`},
		{"control characters", []string{"k\n1"}, `"k\n1"`, `["k\u000a1"]`, `[redacted] ["[redacted]"]`},
		{"one within another", []string{"abc", "abcdef"}, `"abcdef abc"`, `["abcdef"]`, `[redacted] [redacted] ["[redacted]"]`},
		{"syntax", []string{`"a":`}, `"m"`, `{"a":1}`, `m {"a":1}`},
		{"structure", []string{`{`}, `"m {"`, `{"a":"{"}`, `m [redacted] {"a":"[redacted]"}`},
		{"none", []string{""}, `"m"`, `{"a": [ 1.0 ]}`, `m {"a": [ 1.0 ]}`},
		{"another", []string{"k-123"}, `"K-123"`, `{"a": "\n"}`, `K-123 {"a": "\n"}`},
		{"numbers", []string{"k-123"}, `"m"`, `["k-123",1.0,1e400,12345678901234567890,-0]`, `m ["[redacted]",1.0,1e400,12345678901234567890,-0]`},
		{"numbers beside a secret of zeros", []string{"00000000", "k-123"}, `"m 00000000"`, `[0,0.0,-0,100000000,1,"00000000"]`, `m [redacted] [0,0.0,-0,"[redacted]",1,"[redacted]"]`},
		{
			"across the end of a long message",
			[]string{"k-" + strings.Repeat("1", 20)},
			`"` + strings.Repeat("m", 4090) + `k-` + strings.Repeat("1", 20) + `"`, `1`,
			strings.Repeat("m", 4090) + redacted[:6] + "… 1",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := fmt.Sprintf(`{"error":{"code":"PERMISSION_DENIED","message":%s,"details":%s}}`, c.message, c.details)
			for i := range 2 { // whichever credentials they are
				client := newClient(t, acme, script(t, says(403, body)))
				creds := &keyed{key: c.secrets[0], more: c.secrets[1:]}
				if i == 0 {
					client.Credentials = creds
				} else {
					client.DiscoveryCredentials = creds
				}
				_, e, _ := submit(t.Context(), client, skillAt(t, acme))
				if e == nil {
					t.Fatal("no error")
				}
				if got := e.Message + " " + string(front.Details(e)); got != c.want {
					t.Errorf("told\n got %.5000s\nwant %.5000s", got, c.want)
				}
				if !front.Details(e).IsValid() {
					t.Errorf("details are no JSON: %s", front.Details(e))
				}
			}
		})
	}
}

func TestSecretsAreScrubbedEverywhere(t *testing.T) {
	const key = "k-123"
	told := func(e *run.Failure) string {
		return fmt.Sprint(e.Kind, e.Message, string(front.Details(e)), string(retryOf(e)), e.Cause)
	}
	client := func(answers ...scriptedAnswer) *skillsharing.Client {
		c := newClient(t, acme, script(t, answers...))
		c.Credentials = &keyed{key: key}
		return c
	}
	s := skillAt(t, acme, `/auth={"type":"api_key"}`)
	rejected := `{"why":"\u006b-123","k-123":[]}`
	for _, c := range []struct {
		name string
		e    func() *run.Failure
	}{
		{"rejected arguments", func() *run.Failure { _, e, _ := submit(t.Context(), client(says(400, rejected)), s); return e }},
		{"retry", func() *run.Failure {
			_, e, _ := submit(t.Context(), client(says(429, `{"error":{"code":"RATE_LIMITED","retry":{"why":"k-123"}}}`)), s)
			return e
		}},
		{"plain error", func() *run.Failure {
			_, e, _ := submit(t.Context(), client(says(401, `{"error":"bad k-123"}`)), s)
			return e
		}},
		{"failing credentials", func() *run.Failure {
			c := client(says(200, completes))
			c.Credentials = &keyed{key: key, err: errors.New("bad k-123")}
			_, e, _ := submit(t.Context(), c, s)
			return e
		}},
		{"failed run", func() *run.Failure {
			return client().RunError(s, &document.Response{State: run.Failed, Error: &document.RunError{
				Code: "BAD_k-123", Message: "bad k-123", Details: jsontext.Value(rejected), Retry: jsontext.Value(rejected),
			}})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := c.e()
			if e == nil {
				t.Fatal("no error")
			}
			if text := told(e); strings.Contains(text, key) || strings.Contains(text, `\u006b`) || !strings.Contains(text, "[redacted]") {
				t.Errorf("told %s", text)
			}
		})
	}
}
