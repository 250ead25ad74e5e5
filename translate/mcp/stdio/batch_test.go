package stdio_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/stdio"
)

// The messages of a batch are sent one by one, and each request is answered by itself: no server has to know batches.
func TestBatches(t *testing.T) {
	var mu sync.Mutex
	var sent []string
	called, gone := make(chan struct{}), make(chan struct{})
	c := start(t, stdio.InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		mu.Lock()
		sent = append(sent, string(text))
		mu.Unlock()
		switch {
		case strings.Contains(string(text), "tools/call"):
			close(called)
			<-r.Context().Done()
			close(gone)
		case !strings.Contains(string(text), `"id"`):
			w.WriteHeader(http.StatusAccepted)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(w, `{"jsonrpc":"2.0","id":0,"result":{}}`)
		}
	})), stdio.Options{}).reads()
	c.send(`[{"jsonrpc":"2.0","id":1,"method":"ping"}, {"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":"a","method":"ping"}]`)
	lines := []string{c.read(), c.read()}
	slices.Sort(lines)
	if strings.Join(lines, " ") != `{"jsonrpc":"2.0","id":"a","result":{}} {"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Errorf("%q", lines)
	}
	c.send(`[{"jsonrpc":"2.0","id":3,"method":"tools/call"}]`)
	<-called
	c.send(`[{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}]`)
	<-gone
	c.send(`[]`)
	if lines := c.end(); len(lines) > 1 || len(sent) != 5 {
		t.Errorf("%q; sent: %q", lines, sent)
	}
}
