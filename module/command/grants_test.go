package command_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// TestGrants: the command shows what the admin API says, and ends the accounts of one user only.
func TestGrants(t *testing.T) {
	const ada = `{"bridge":1,"principal":"ada","namespace":"restaurant","scopes":["book:reservation","offline_access"],"consented":"2026-11-01T10:00:00Z","renewable":true,"used":"2026-11-29T00:00:00Z"}`
	const bob = `{"bridge":1,"principal":"bob","namespace":"restaurant","scopes":["book:reservation"],"consented":"2026-11-01T10:00:00Z","renewable":false,"ends":"2026-11-29T12:00:00Z","used":"2026-11-29T00:00:00Z"}`
	const encrypted = `{"bridge":1,"principal":"","namespace":"","scopes":null,"renewable":false,"used":"2026-11-29T00:00:00Z","unreadable":true}`
	var mu sync.Mutex // the command is another process
	var asked []string
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.Method+" "+r.URL.String()+" "+string(body))
		if r.Method == http.MethodPost {
			_, _ = io.WriteString(w, `{"connected":{"restaurant":2},"grants":[`+ada+`,`+strings.Replace(encrypted, `""`, `"ada"`, 1)+`]}`)
			return
		}
		_, _ = io.WriteString(w, `{"connected":{"restaurant":2},"grants":[`+ada+`,`+bob+`,`+encrypted+`],"unread":[{"place":"db","error":"down"}]}`)
	}))
	defer admin.Close()
	for _, c := range []struct {
		args, says string
		asks       string
		fails      bool
	}{
		{"", "ada restaurant", "GET /skill_bridge/grants?principal= null", true},
		{"", " ago 2026-11-29 with its token", "GET /skill_bridge/grants?principal= null", true},
		{"", "? ? ? 2026-11-29 can't be decrypted", "GET /skill_bridge/grants?principal= null", true},
		{"", "Accounts that users have connected: 2 at restaurant", "GET /skill_bridge/grants?principal= null", true},
		{"", "not known of db: down", "GET /skill_bridge/grants?principal= null", true},
		{"--principal a&b --json", `"principal":"bob"`, "GET /skill_bridge/grants?principal=a%26b null", true},
		{"--principal ada --revoke", "restaurant: the account of ada is no longer connected", `POST /skill_bridge/revoke {"principal":"ada"}`, false},
		{"--principal ada --revoke", "?: the account of ada is no longer connected; its tokens can't be decrypted, so", `POST /skill_bridge/revoke {"principal":"ada"}`, false},
		{"--principal ada --revoke --json", `"grants":[{"bridge":1,"principal":"ada"`, `POST /skill_bridge/revoke {"principal":"ada"}`, false},
		{"--revoke", "--revoke needs --principal", "", true},
		{"--principal= --revoke", "--principal has no value", "", true},
	} {
		mu.Lock()
		asked = nil
		mu.Unlock()
		words := append([]string{"skill-bridge", "grants", "--address", strings.TrimPrefix(admin.URL, "http://")}, strings.Fields(c.args)...)
		out, err := exec.CommandContext(t.Context(), "caddy", words...).CombinedOutput()
		said := strings.Join(strings.Fields(string(out)), " ") // the widths of columns depend on the time of day
		mu.Lock()
		if c.fails != (err != nil) || !strings.Contains(said, c.says) || strings.Join(asked, ";") != c.asks {
			t.Errorf("%s: %v, asked %q\n%s", c.args, err, asked, out)
		}
		mu.Unlock()
	}
}
