package credential_test

import (
	"context"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/cost"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Looking for a key of digits among numbers takes little time, whatever they are.
func TestDigitsAmongNumbersAreCheap(t *testing.T) {
	text := []byte("[" + strings.Repeat("1e-320,", 150_000) + "0]")
	cost.Cheap(t, "1e-320", func() {
		if credential.RepeatsAny(text, []string{"1234567890123"}) {
			t.Error("found")
		}
	})
}

// A provider that reads a key of digits as a number may write it in another way.
func TestDigitsAsNumber(t *testing.T) {
	for number, want := range map[string]bool{
		"1234567890123": true, "-1234567890123": true, "1.234567890123e12": true, "1234567890123000e-3": true, "12345678901230": true, // contains it
		"1234567890124": false, "1.234567890123e13": false, "1.234567890123e11": false, "0": false, "1e-320": false, "1e99999": false,
	} {
		if got := credential.RepeatsAny([]byte(`{"n":[`+number+`]}`), []string{"1234567890123"}); got != want {
			t.Errorf("%s: %t", number, got)
		}
	}
	for number, secret := range map[string]string{"123456": "00123456", "1e23": "99999999999999999999999", "99999999999999999999999": "100000000000000000000000", "1.0E+6": "1000000"} {
		if !credential.RepeatsAny([]byte(number), []string{secret}) {
			t.Errorf("%s is %s as a number", number, secret)
		}
	}
	if credential.RepeatsAny([]byte("0"), []string{"000000"}) {
		t.Error("0 is said to reveal 000000")
	}
}

// What is removed from names takes nothing else away.
func TestNamesWithSecrets(t *testing.T) {
	g := credential.NewGroup(secrets{"secret-1", "secret-2"})
	for output, want := range map[string]string{
		`{"a":{"secret-1":1,"[redacted]":[1,2]},"data":"important"}`: `{"a":{"[redacted]":1,"[redacted] 2":[1,2]},"data":"important"}`,
		`{"secret-1":1,"secret-2":2,"[redacted] 2":3}`:               `{"[redacted]":1,"[redacted] 2":2,"[redacted] 2 2":3}`,
		`[{"secret-1":1},{"secret-1":"secret-2"}]`:                   `[{"[redacted]":1},{"[redacted]":"[redacted]"}]`,
	} {
		if got := g.ScrubOutput([]byte(output)); string(got) != want {
			t.Errorf("%s: %s", output, got)
		}
	}
}

// Messages stay readable with a very short secret, which is removed where it stands alone.
func TestVeryShortSecrets(t *testing.T) {
	for secret, texts := range map[string][2]string{
		"a":    {"A call of a skill: key=a, \"a\", /a/x, data.", "A call of [redacted] skill: key=[redacted], \"[redacted]\", /[redacted]/x, data."},
		"12":   {"HTTP 412 after 12 s, port 8123, v12", "HTTP 412 after [redacted] s, port 8123, v12"},
		"-x":   {"fix-x -x x-x-", "fix[redacted] [redacted] x[redacted]-"},
		"é":    {"é café", "[redacted] café"},
		"4711": {"key4711 4711", "key[redacted] [redacted]"},
	} {
		g := credential.NewGroup(secrets{secret})
		e := &run.Failure{Message: texts[0]}
		g.ScrubFailure(e)
		if got := g.ScrubText(texts[0]); got != texts[1] || e.Message != texts[1] {
			t.Errorf("%s:\n%s\n%s, want\n%s", secret, got, e.Message, texts[1])
		}
	}
}

// secrets are credentials that only have secrets.
type secrets []string

func (secrets) Supports(*document.Auth) bool                                   { return false }
func (secrets) Authenticate(context.Context, *credential.Authentication) error { return nil }
func (s secrets) Secrets() []string                                            { return s }
