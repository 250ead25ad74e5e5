package skillsprotocol_test

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/ledgertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

const randomKey = "8e03978e-40d5-43dd-bc93-6894a57f9324"

// send sends a body with header lines to a front of a principal, whose database fails, and returns the answer: a call that gets there has a valid key.
// It waits for the database by the clock of a bubble.
func send(t *testing.T, b *fakeBridge, principal, body string, keys ...string) (answer string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		failing := ledgertest.New().Instance(true)
		failing.Fail(func(string) error { return context.DeadlineExceeded }, nil)
		answer = sendTo(t, failing, b, principal, body, keys...)
	})
	return answer
}

// sendTo is send to a front with a database.
func sendTo(t *testing.T, s ledger.Store, b *fakeBridge, principal, body string, keys ...string) string {
	t.Helper()
	front := &skillsprotocol.Front{Bridge: b, Tokens: fakeTokens{}, Canceled: new(ledger.Cancellations), Kept: &skillsprotocol.KeptRuns{
		Ledger: ledger.New(ledger.Config{Store: s}), Owner: func(principal string) ledger.Owner { return ledger.Owner{Principal: principal} },
	}}
	server := &jsonrpc.Server{Handler: front.ServeRPC, Profile: skillsprotocol.Profile(10)}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for _, key := range keys {
		r.Header.Add("Idempotency-Key", key)
	}
	w := httptest.NewRecorder()
	server.Serve(translate.WithCaller(context.Background(), run.Caller{Principal: principal}), w, r)
	return w.Body.String()
}

func TestKeys(t *testing.T) {
	const accepted = `"executed":"no","next":"retry"`
	for name, c := range map[string]struct {
		principal, key string   // of the param
		headers        []string // Idempotency-Key
		want           string
	}{
		"a param":                         {"ada", `"order 17"`, nil, accepted},
		"a header":                        {"ada", ``, []string{`"order 17"`}, accepted},
		"a header with escapes":           {"ada", `"a\"b\\c"`, []string{`"a\"b\\c"`}, accepted},
		"both":                            {"ada", `"a"`, []string{` "a"	`}, accepted},
		"the longest":                     {"ada", `"` + strings.Repeat("a", 255) + `"`, nil, accepted},
		"both, different":                 {"ada", `"a"`, []string{`"b"`}, `"param":"idempotency_key","reason":"invalid"`},
		"too long":                        {"ada", `"` + strings.Repeat("a", 256) + `"`, nil, `"param":"idempotency_key","reason":"invalid"`},
		"too long in the header":          {"ada", ``, []string{`"` + strings.Repeat("a", 256) + `"`}, `"param":"idempotency_key","reason":"invalid"`},
		"empty":                           {"ada", `""`, nil, `"param":"idempotency_key","reason":"invalid"`},
		"no string":                       {"ada", `17`, nil, `"param":"idempotency_key","reason":"invalid"`},
		"other characters":                {"ada", `"é"`, nil, `"param":"idempotency_key","reason":"invalid"`},
		"controls":                        {"ada", `"a\u0000"`, nil, `"param":"idempotency_key","reason":"invalid"`},
		"a header without quotes":         {"ada", ``, []string{randomKey}, `"param":"Idempotency-Key","reason":"invalid"`},
		"a header without the end":        {"ada", ``, []string{`"a`}, `"param":"Idempotency-Key","reason":"invalid"`},
		"a header with an escape too few": {"ada", ``, []string{`"a\"`}, `"param":"Idempotency-Key","reason":"invalid"`},
		"a header with a wrong escape":    {"ada", ``, []string{`"\a"`}, `"param":"Idempotency-Key","reason":"invalid"`},
		"a header with more":              {"ada", ``, []string{`"a", "b"`}, `"param":"Idempotency-Key","reason":"invalid"`},
		"an empty header":                 {"ada", ``, []string{`""`}, `"param":"Idempotency-Key","reason":"invalid"`},
		"two headers":                     {"ada", ``, []string{`"a"`, `"a"`}, `"param":"Idempotency-Key","reason":"invalid"`},
		"anonymous":                       {"", `"order 17"`, nil, `"param":"idempotency_key","reason":"invalid"`},
		"anonymous, a random UUID":        {"", `"` + randomKey + `"`, nil, accepted},
		"anonymous, a UUID of a time":     {"", `"c232ab00-9414-11ec-b3c8-9f6bdeced846"`, nil, `"param":"idempotency_key","reason":"invalid"`},
	} {
		t.Run(name, func(t *testing.T) {
			b := &fakeBridge{}
			param := ""
			if c.key != "" {
				param = `,"idempotency_key":` + c.key
			}
			got := send(t, b, c.principal, `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"a.b"`+param+`}}`, c.headers...)
			if !strings.Contains(got, c.want) || strings.Contains(got, `"ignored"`) {
				t.Errorf("%s, want %s", got, c.want)
			}
			if len(b.reported) != 1 || b.calls() != 0 {
				t.Errorf("reported %q, %d calls", b.reported, b.calls())
			}
		})
	}
}

// TestKeyIsSubmitted: a call that has waited for an earlier one with its key says to send it again, and not to use a new key, which would
// execute the skill twice.
func TestKeyIsSubmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which no time passes while the call gets there
		db, key := ledgertest.New(), sha256.Sum256([]byte("key k"))
		if _, err := db.Instance(true).Claim(t.Context(), &ledger.Entry{Owner: ledger.Owner{Principal: "ada"}, ID: randomKey, Key: key[:]}, time.Hour); err != nil {
			t.Fatal(err)
		}
		got := sendTo(t, db.Instance(true), &fakeBridge{}, "ada", `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"a.b","idempotency_key":"k","timeout_ms":1}}`)
		for _, want := range []string{`"executed":"maybe"`, `"next":"retry"`, `"retry":{`, `"hint":{"message":"send this call again, with the same key`} {
			if !strings.Contains(got, want) {
				t.Errorf("no %s in %s", want, got)
			}
		}
		if strings.Contains(got, "does not submit") {
			t.Error(got)
		}
	})
}

// The header can't be the key of several calls; other methods ignore it.
func TestKeyOfBatch(t *testing.T) {
	b := &fakeBridge{}
	body := `[{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"a.b"}},{"jsonrpc":"2.0","id":2,"method":"list_skills"}]`
	got := send(t, b, "ada", body, `"a"`)
	if strings.Count(got, `"error"`) != 1 || !strings.Contains(got, `"param":"Idempotency-Key"`) || len(b.executed) != 0 {
		t.Error(got)
	}
	got = send(t, b, "ada", `[{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"a.b","idempotency_key":"a"}}]`)
	if !strings.Contains(got, `"next":"retry"`) {
		t.Error(got)
	}
}

// Without a storage, a call with a key is refused.
func TestKeyWithoutStorage(t *testing.T) {
	b := &fakeBridge{}
	_, fault := ask(t, b, "execute_skill", `{"name":"a.b","idempotency_key":"`+randomKey+`"}`)
	if fault == nil || !strings.Contains(string(fault.Data), `"reason":"unsupported"`) || len(b.executed) != 0 {
		t.Errorf("%+v", fault)
	}
}

// Calls without a key and without a call-back send no statement to the database.
func TestStatementsOfCalls(t *testing.T) {
	for body, none := range map[string]bool{
		`{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"a.b"}}`:                           true,
		`{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"a.b","wait_ms":0}}`:               true,
		`{"jsonrpc":"2.0","method":"execute_skill","params":{"name":"a.b"}}`:                                  true,
		`{"jsonrpc":"2.0","id":1,"method":"list_skills"}`:                                                     true,
		`{"jsonrpc":"2.0","id":1,"method":"describe_skill","params":{"name":"a.b"}}`:                          true,
		`{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"a.b","idempotency_key":"order"}}`: false,
	} {
		s := ledgertest.New().Instance(true)
		answer := sendTo(t, s, &fakeBridge{}, "ada", body)
		if n := s.Sent("") + s.Sent("count"); (n == 0) != none {
			t.Errorf("%d statements of %s: %s", n, body, answer)
		}
	}
}
