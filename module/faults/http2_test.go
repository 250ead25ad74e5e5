package faults_test

import (
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// R5 over HTTP/2: a stream that is reset after the invocation was read, or whose
// connection ends, is not repeated either, while other streams go on.
func TestR05OverHTTP2(t *testing.T) {
	testbed.CheckLeaks(t)
	var posts, others atomic.Int64
	var broken func(w http.ResponseWriter, r *http.Request)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or Close waits for it
		if r.ProtoMajor != 2 {
			t.Errorf("%s", r.Proto)
		}
		if r.URL.Path == "/broken" {
			posts.Add(1)
			broken(w, r)
			return
		}
		others.Add(1)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"execution_id":"run-1","status":"completed","output":1}`)
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // streams break on purpose
	server.StartTLS()
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "server.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	p := hostile.NewProvider(t,
		hostile.Skill{ID: "acme/broken", Endpoint: server.URL + "/broken", Edit: consent(5, 1)},
		hostile.Skill{ID: "acme/echo", Endpoint: server.URL + "/echo"},
	)
	port := server.URL[strings.LastIndexByte(server.URL, ':')+1:]
	c := testbed.StartCaddy(t, withProvider(p, "allow_ports "+port, "transport http {", "\ttls_trust_pool file "+file, "}"))
	for name, action := range map[string]http.HandlerFunc{
		"reset": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"reset in the body": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"execution_id":`)
			_ = http.NewResponseController(w).Flush() // so that the header comes
			panic(http.ErrAbortHandler)
		},
		"connection closed": func(http.ResponseWriter, *http.Request) { server.CloseClientConnections() },
	} {
		t.Run(name, func(t *testing.T) {
			broken = action
			for range 5 {
				want{outcome: "completed"}.check(t, c.Execute("acme.echo", nil))
				before := posts.Load()
				a := c.Execute("acme.broken", nil)
				want{"ENDPOINT_UNREACHABLE", "invoke", "maybe", "none", "bridge"}.check(t, a)
				if n := posts.Load() - before; n != 1 {
					t.Errorf("%d invocations of one call", n)
				}
			}
		})
	}
	if n := others.Load(); n != 15 {
		t.Errorf("%d other invocations, not 15", n)
	}
}
