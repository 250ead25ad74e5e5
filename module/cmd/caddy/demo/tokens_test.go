package demo

import (
	"testing"
	"time"
)

func TestTokensExpire(t *testing.T) {
	const client = secret("hush")
	now := time.Unix(1_800_000_000, 0)
	token := client.token(now.Add(tokenLifetime))
	for name, test := range map[string]struct {
		token string
		by    secret
		after time.Duration
		want  bool
	}{
		"until its end":     {token, client, tokenLifetime - 1, true},
		"at its end":        {token, client, tokenLifetime, false},
		"of another secret": {token, "other", 0, false},
		"with a later end":  {"9" + token, client, 0, false},
		"without an end":    {"x", client, 0, false},
		"empty":             {"", client, 0, false},
	} {
		if got := test.by.accepts(test.token, now.Add(test.after)); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
