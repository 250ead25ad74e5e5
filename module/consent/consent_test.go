package consent_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestConnect: a user connects an account, calls use it, and the user disconnects it.
func TestConnect(t *testing.T) {
	b := newBed(t)
	ada := b.browser(t, "ada")
	page := ada.get("/connect/acme")
	for _, want := range []string{"Acme Tables", "Book tables in your name.", "not connected", strings.TrimPrefix(b.login.URL, "http://"), "signed in as <bdi>ada</bdi>"} {
		if !strings.Contains(page.body, want) {
			t.Errorf("%q is not in %s", want, page.body)
		}
	}
	if ada.connected() {
		t.Fatal("connected already")
	}
	ada.connect()
	if !ada.connected() || b.browser(t, "bob").connected() {
		t.Error("the wrong users are connected")
	}
	if call := b.With().Send(http.MethodPost, b.base+"/rpc", `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"acme.book"}}`); !strings.Contains(string(call.Body), "AUTH_REQUIRED") {
		t.Errorf("an anonymous call: %s", call.Body)
	}
	call := ada.send(http.MethodPost, "/rpc", `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"acme.book"}}`, "Content-Type", "application/json")
	if !strings.Contains(call.body, `"status":"completed"`) {
		t.Errorf("ada's call: %s", call.body)
	}
	if a := ada.form("/connect/acme", "disconnect"); a.status != http.StatusSeeOther || ada.connected() {
		t.Errorf("%d %s", a.status, a.body)
	}
}
