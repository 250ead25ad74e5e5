package credential_test

import (
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/internal/cost"
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
