package bridge

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// raceDetector is set where it runs: it takes memory of its own.
var raceDetector bool

// frugalProvider is a provider that takes no memory for a request, so that what is
// counted is the bridge's: it completes every run at once.
func frugalProvider(t *testing.T) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	url = "http://" + l.Addr().String()
	answer := func(body string) []byte {
		return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	answers := map[string][]byte{
		"GET /.well-known/skill-sharing": answer(`{"protocol":{"version":"1.0.0"},"provider":{"name":"Acme"},"skills":[{"id":"acme/now","name":"Now","capability_type":"api",
			"description":"Does something.","descriptor_url":"` + url + `/skill","access":"public","version":"1.0.0"}]}`),
		"GET /skill": answer(`{"protocol":{"version":"1.0.0"},"id":"acme/now","name":"Now","version":"1.0.0","capability_type":"api","description":"Does something.",
			"provider":{"name":"Acme"},"endpoint":{"url":"` + url + `/run","method":"POST"},"inputs":[{"name":"city","type":"string","description":"A city.","required":true}],
			"output":{"content_type":"application/json"},"auth":{"type":"none"},"access":"public"}`),
		"POST /run": answer(`{"execution_id":"exec-a1b2c3d4","status":"completed","skill_id":"acme/now","output":{"high":11,"low":4}}`),
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serveFrugally(c, answers)
		}
	}()
	return url
}

func serveFrugally(c net.Conn, answers map[string][]byte) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		route, _, _ := bytes.Cut(line, []byte(" HTTP/1.1"))
		answer := answers[string(route)]
		length := 0
		for len(bytes.TrimSpace(line)) > 0 {
			if line, err = r.ReadSlice('\n'); err != nil {
				return
			}
			if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
				length, _ = strconv.Atoi(string(bytes.TrimSpace(value))) // the transport's own
			}
		}
		if _, err := r.Discard(length); err != nil {
			return
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header       { clear(n.header); return n.header }
func (nowhere) WriteHeader(int)             {}
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }

// TestAllocations holds the way of a call through the handler, and through package
// net/http to a provider, to about what it takes now: whoever makes it take 5 % more
// says so here.
func TestAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector takes memory of its own")
	}
	h := mustLoad(t, `{"providers":[{"origin":"`+frugalProvider(t)+`","namespace":"acme"}],"allow_http":true,"allow_networks":["127.0.0.0/8"]}`)
	const body = `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"acme.now","args":{"city":"Tokyo"}}}`
	if w := call(h, body, nil); !strings.Contains(w.Body.String(), `"status":"completed"`) {
		t.Fatal(w.Body)
	}
	r := httptest.NewRequest(http.MethodPost, "/rpc", nil)
	r.Header.Set("Content-Type", "application/json")
	r = r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, caddy.NewReplacer()))
	text, w := strings.NewReader(body), nowhere{http.Header{}}
	r.Body, r.ContentLength = io.NopCloser(text), int64(len(body))
	got := int(testing.AllocsPerRun(2000, func() {
		text.Reset(body)
		if err := h.ServeHTTP(w, r, nil); err != nil {
			t.Fatal(err)
		}
	}))
	if got > 108 {
		t.Errorf("a call takes %d allocations, want at most 108", got)
	}
}
