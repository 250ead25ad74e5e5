package exchange_test

import (
	"net/http"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// The message about an answer that is almost JSON says what is wrong and where. Names of its
// members do not change it.
func TestFaultsOfAnswers(t *testing.T) {
	for body, want := range map[string]string{
		`{"a":1,"a":2}`:          `two members of an object have the same name, at "/a" (byte 7)`,
		"{\"a\":\"x\xff\"}":      `a text is not UTF-8, at "/a" (byte 7)`,
		`{"a":"x\ud800"}`:        `a text has half of a surrogate pair (\ud800 to \udfff), at "/a" (byte 7)`,
		`{"a":[`:                 `it ends too early, at "/a" (byte 6)`,
		`{"surrogate":[1,}`:      `its syntax is wrong, at "/surrogate/1" (byte 16)`,
		"{\"UTF-8\":[\xff]}":     `its syntax is wrong, at "/UTF-8/0" (byte 10)`,
		`["\u12"]`:               `its syntax is wrong, at "/0" (byte 2)`,
		"[\"\xff\",1,{\"a\" 1}]": `a text is not UTF-8, at "/0" (byte 2)`,
	} {
		_, e := new(exchange.Sender).Judge(&exchange.Answer{Status: http.StatusOK, Body: []byte(body)}, document.Asked{Phase: run.PhaseInvoke})
		if want = "The provider answered HTTP 200 with JSON that can't be used: " + want + "."; e == nil || e.Message != want {
			t.Errorf("%q: %v, want %s", body, e, want)
		}
	}
}
