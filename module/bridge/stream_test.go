package bridge

import (
	"bufio"
	"context"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

func init() {
	caddy.RegisterModule(new(streaming))
	httpcaddyfile.RegisterHandlerDirective("test_stream", func(httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		return new(streaming), nil
	})
}

// streaming is a handler that answers each request with events. It sends the next one when told to.
type streaming struct{}

var (
	streamTexts = []string{entropy(100), entropy(20_000), entropy(100)}
	nextEvent   = make(chan struct{})
)

// entropy returns text that can't be compressed to less than size bytes.
func entropy(size int) string {
	random := rand.NewChaCha8([32]byte{1})
	text := make([]byte, size)
	_, _ = random.Read(text) // never fails
	return hex.EncodeToString(text)
}

func (*streaming) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.test_stream", New: func() caddy.Module { return new(streaming) }}
}

func (*streaming) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	server := &jsonrpc.Server{WriteTimeout: time.Minute, Handler: jsonrpc.Handler(func(ctx context.Context, req *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
		stream := req.Stream()
		for i, text := range streamTexts {
			if stream.Result(uint64(i+1), jsontext.Value(`"`+text+`"`)) != nil {
				return nil, nil
			}
			select {
			case <-nextEvent:
			case <-ctx.Done():
			}
		}
		return nil, nil
	})}
	server.ServeHTTP(w, r)
	return nil
}

// TestStreamBehindEncode: each event of a stream reaches the client before the next one is sent. The handler encode leaves
// streams alone: an encoder takes up to some MB of memory for each.
func TestStreamBehindEncode(t *testing.T) {
	ca := hostile.NewCA(t)
	cert, key := ca.ServerCertificate()
	c := testbed.StartCaddy(t, `http://127.0.0.1:{$PORT} {
	log
	route {
		encode zstd gzip
		test_stream
	}
}
https://127.0.0.1:{$PORT2} {
	tls `+cert+` `+key+`
	log
	route {
		encode zstd gzip
		test_stream
	}
}
`)
	secure, two := new(http.Protocols), new(http.Protocols)
	secure.SetHTTP1(true)
	two.SetHTTP2(true)
	for _, connection := range []struct {
		proto, url string
		protocols  *http.Protocols
	}{
		{"HTTP/1.1", "http://127.0.0.1:" + c.Port("PORT"), nil},
		{"HTTP/1.1", "https://127.0.0.1:" + c.Port("PORT2"), secure},
		{"HTTP/2.0", "https://127.0.0.1:" + c.Port("PORT2"), two},
	} {
		client := &http.Client{Transport: &http.Transport{
			Protocols:          connection.protocols,
			DisableCompression: true, // only the test sets Accept-Encoding
			TLSClientConfig:    ca.ClientConfig(),
		}}
		for _, encoding := range []string{"", "gzip", "zstd"} {
			t.Run(connection.url[:5]+" "+connection.proto+" "+encoding, func(t *testing.T) {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, connection.url, strings.NewReader(listSkills))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Accept-Encoding", encoding)
				answer, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer answer.Body.Close()
				if got := answer.Header; answer.Proto != connection.proto || got.Get("Content-Encoding") != "" || got.Get("Content-Type") != "text/event-stream" {
					t.Fatalf("%s %v", answer.Proto, got)
				}
				readEvents(t, answer.Body)
			})
		}
		client.CloseIdleConnections()
	}
}

// readEvents reads all events. It asks for the next one when it has read the one before.
func readEvents(t *testing.T, body io.Reader) {
	t.Helper()
	events := bufio.NewReader(body)
	for i, text := range streamTexts {
		var event strings.Builder
		for !strings.HasSuffix(event.String(), "\n\n") {
			line, err := events.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			event.WriteString(line)
		}
		if got := event.String(); !strings.HasPrefix(got, "id: "+strconv.Itoa(i+1)+"\ndata: {") || !strings.Contains(got, text) {
			t.Errorf("event %.200q", got)
		}
		nextEvent <- struct{}{}
	}
	if _, err := io.Copy(io.Discard, events); err != nil {
		t.Error(err)
	}
}
