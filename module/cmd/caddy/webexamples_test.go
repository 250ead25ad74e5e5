package main_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

const listSkills = `{"jsonrpc":"2.0","id":1,"method":"list_skills"}`

// exerciseBasicAuthJSON: the refusal is a JSON-RPC error with the data of the bridge's own.
func exerciseBasicAuthJSON(e *example) {
	t := e.t
	p := newProvider(t, skill{id: "acme/translate", auth: apiKey()})
	e.replace("provider https://skills.example.com {", "provider "+p.URL+" {\n\t\t\tnamespace acme")
	e.replace(writtenHash, quickHash)
	e.onLoopback()
	b := e.start()

	refuses(t, b)
	for _, password := range []string{"", wrongPassword} {
		response := b.begin(http.MethodPost, b.endpoint, listSkills, "Content-Type", "application/json", authorization, password)
		response.Body.Close()
		for name, want := range map[string]string{
			"Content-Type": "application/json", "Cache-Control": "no-store", "WWW-Authenticate": `Basic realm="restricted"`,
		} {
			if got := response.Header.Values(name); !slices.Equal(got, []string{want}) {
				t.Errorf("with %q: %s: %q, want %s", password, name, got, want)
			}
		}
		a := b.post(listSkills, authorization, password)
		if !strings.HasPrefix(a.body, `{"jsonrpc":"2.0","id":null,"error":{`) {
			t.Errorf("with %q: %s", password, a.body)
		}
		if o := decode[outcome](t, a.body); o.Error.Code != -32050 || o.Error.Message == "" || o.Error.Data.Code != "AUTH_REQUIRED" || o.Error.Data.Next != "authenticate" {
			t.Errorf("with %q: %+v", password, o)
		}
	}
	if n := p.received(); n > 0 {
		t.Errorf("the provider received %d requests of anonymous callers", n)
	}
	b.execute("acme.translate", "acme/translate", authorization, rightPassword)
}

// exerciseWebPage: a browser lets pages of one origin send requests and read the answers.
func exerciseWebPage(e *example) {
	t := e.t
	p := newProvider(t, skill{id: "acme/translate", auth: apiKey()})
	e.replace("provider https://skills.example.com {", "provider "+p.URL+" {\n\t\t\t\tnamespace acme")
	e.replace(writtenHash, quickHash)
	e.onLoopback()
	b := e.start()

	const app, other = "https://app.example.com", "https://app.example.com.evil.example"
	readable := map[string]string{
		"Access-Control-Allow-Origin": app, "Access-Control-Expose-Headers": "Retry-After, WWW-Authenticate",
	}
	permitted := maps.Clone(readable)
	permitted["Access-Control-Allow-Methods"] = "POST"
	permitted["Access-Control-Allow-Headers"] = "Authorization, Content-Type, Idempotency-Key, Traceparent"
	permitted["Access-Control-Max-Age"] = "600"
	for _, c := range []struct {
		method, origin, password string
		status                   int
		header                   map[string]string
	}{
		{http.MethodOptions, app, "", http.StatusNoContent, permitted},
		{http.MethodOptions, other, "", http.StatusUnauthorized, nil},
		{http.MethodPost, app, "", http.StatusUnauthorized, readable},
		{http.MethodPost, app, wrongPassword, http.StatusUnauthorized, readable},
		{http.MethodPost, app, rightPassword, http.StatusOK, readable},
		{http.MethodPost, other, rightPassword, http.StatusOK, nil}, // the browser would not have sent it
	} {
		response := b.begin(c.method, b.endpoint, listSkills, "Content-Type", "application/json", "Origin", c.origin, authorization, c.password)
		response.Body.Close()
		if response.StatusCode != c.status {
			t.Errorf("%+v: %s", c, response.Status)
		}
		if got := response.Header.Values("Vary"); !slices.Contains(got, "Origin") {
			t.Errorf("%+v: Vary: %q", c, got)
		}
		for name := range response.Header {
			if strings.HasPrefix(name, "Access-Control-") && c.header[name] == "" {
				t.Errorf("%+v: %s: %s", c, name, response.Header.Get(name))
			}
		}
		for name, want := range c.header {
			if got := response.Header.Values(name); !slices.Equal(got, []string{want}) {
				t.Errorf("%+v: %s: %q, want %s", c, name, got, want)
			}
		}
	}
	refuses(t, b)
	b.execute("acme.translate", "acme/translate", authorization, rightPassword, "Origin", app)
	if log := b.logged(); strings.Contains(log, "no authentication") {
		t.Errorf("warnings about routes:\n%s", log)
	}
}
