package a2a_test

import (
	"context"
	"encoding/json" // the tests check that answers are JSON for everyone
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
)

// FuzzFront: whatever a client sends, in any version, there is no panic, and the answer is JSON, a stream of JSON, or nothing. No run
// outlives the test, since the skills complete at once.
func FuzzFront(f *testing.F) {
	for i := range dialects {
		d := &dialects[i]
		for _, parts := range []string{
			text(d.version, "x"), text(d.version, "acme.free"), data(d.version, `{"skill":"acme.echo","input":{"text":"x"}}`), data(d.version, `{"city":"Rome","days":2}`),
			text(d.version, `{"city":"Rome"}`), data(d.version, `[1]`), data(d.version, `null`), `{"raw":"AAAA","metadata":{"input":"photo"}}`, `{"kind":"file","file":{"uri":"https://x"}}`, ``, `1`,
		} {
			for _, more := range []string{``, `"metadata":{"skill":"acme.form"}`, `"metadata":{"skillId":"acme.files","` + extension[1:] + `:{"skill":"acme.files","timeoutMs":1}},"configuration":{"historyLength":1}`} {
				f.Add(request(d.send, d.params("", parts, more)), d.version, uint8(0))
				f.Add(request(d.stream, d.params("", parts, more)), d.version, uint8(1))
			}
		}
		for _, method := range []string{d.get, d.cancel, d.subscribe} {
			f.Add(request(method, `{"id":"`+named+`"}`), d.version, uint8(2))
		}
	}
	for _, method := range a2a.Methods() {
		f.Add(request(method, `{}`), "", uint8(3))
		f.Add("["+request(method, `{"taskId":"x"}`)+"]", "", uint8(0))
	}
	a := newAgent(f, inBubble, options(func(o *a2a.Options) { o.Wait = 50 * time.Millisecond }))
	f.Fuzz(func(t *testing.T, body, version string, how uint8) {
		path := "/a2a"
		if how&1 != 0 {
			path = "/a2a/acme.files"
		}
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Header = http.Header{"Content-Type": {"application/json"}, "A2a-Version": {version}}
		if how&2 != 0 {
			r.Header.Set("User", "ada")
		}
		if how&4 != 0 {
			r.Header.Set("Accept", "text/event-stream")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		w := httptest.NewRecorder()
		a.handler.ServeHTTP(w, r.WithContext(ctx))
		switch {
		case w.Code == http.StatusNoContent:
		case strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream"):
			(&answer{text: w.Body.String()}).readEvents(t)
		case !json.Valid(w.Body.Bytes()):
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}
