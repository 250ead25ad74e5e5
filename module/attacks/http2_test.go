package attacks_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/skill-bridge/caddy-skill-bridge/module/internal/guards"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// frames is a server of HTTP/2 over TLS that sends what a test says, frame by frame.
type frames struct {
	url, file string // its origin, and its certificate
	handle    atomic.Pointer[func(*stream)]

	requests atomic.Int64 // that came
	opened   atomic.Int64 // connections
	open     atomic.Int64
	sent     atomic.Int64 // bytes
}

// stream is a request and the connection that it came on.
type stream struct {
	*http2.Framer
	conn net.Conn
	id   uint32
	path string
	body *bytes.Buffer // what is written until it is sent
}

// flush sends what was written. It reports whether the client is still there.
func (s *stream) flush(f *frames) bool {
	n, err := s.conn.Write(s.body.Bytes())
	s.body.Reset()
	f.sent.Add(int64(n))
	return err == nil
}

// answer answers a request with JSON.
func (s *stream) answer(body string) {
	var header bytes.Buffer
	e := hpack.NewEncoder(&header)
	_ = e.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	_ = e.WriteField(hpack.HeaderField{Name: "content-type", Value: "application/json"})
	_ = s.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: header.Bytes(), EndHeaders: true})
	_ = s.WriteData(s.id, true, []byte(body))
}

func newFrames(t *testing.T) *frames {
	t.Helper()
	own := httptest.NewUnstartedServer(nil) // for its certificate
	own.EnableHTTP2 = true
	own.StartTLS()
	certificate := own.TLS.Certificates[0]
	own.Close()
	f := &frames{file: filepath.Join(t.TempDir(), "server.pem")}
	if err := os.WriteFile(f.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	f.url = "https://" + listener.Addr().String()
	var work sync.WaitGroup
	var conns sync.Map
	work.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Store(c, nil)
			f.opened.Add(1)
			f.open.Add(1)
			work.Go(func() {
				defer f.open.Add(-1)
				defer c.Close()
				f.serve(c)
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		conns.Range(func(c, _ any) bool {
			_ = c.(net.Conn).Close()
			return true
		})
		work.Wait()
	})
	return f
}

// answers says how requests are answered from now on.
func (f *frames) answers(handle func(*stream)) { f.handle.Store(&handle) }

func (f *frames) serve(c net.Conn) {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c, preface); err != nil {
		return
	}
	var out bytes.Buffer
	framer := http2.NewFramer(&out, c)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_ = framer.WriteSettings()
	if _, err := c.Write(out.Bytes()); err != nil {
		return
	}
	out.Reset()
	s := &stream{Framer: framer, conn: c, body: &out}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			s.id, s.path = frame.StreamID, frame.PseudoValue("path")
			f.requests.Add(1)
			(*f.handle.Load())(s)
			s.flush(f)
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = framer.WriteSettingsAck()
				s.flush(f)
			}
		}
	}
}

const completedOverHTTP2 = `{"execution_id":"run-1","status":"completed","output":1}`

// behind starts a bridge to a provider whose skills are invoked at f.
func (f *frames) behind(t *testing.T, lines ...string) *testbed.Caddy {
	t.Helper()
	p := hostile.NewProvider(t)
	p.Publish(
		hostile.Skill{ID: "s/invoke", Endpoint: f.url + "/invoke"},
		hostile.Skill{ID: "s/get", Endpoint: f.url + "/get", Edit: func(d hostile.Object) {
			d["endpoint"].(hostile.Object)["method"] = "GET"
		}},
		hostile.Skill{ID: "s/retry", Endpoint: f.url + "/retry", Edit: func(d hostile.Object) {
			d["endpoint"].(hostile.Object)["method"] = "PUT"
			d["endpoint"].(hostile.Object)["retry"] = hostile.Object{"max_attempts": 3, "backoff_ms": 1}
		}},
		hostile.Skill{ID: "s/status", StatusURL: f.url + "/status/{execution_id}"},
		hostile.Skill{ID: "s/descriptor", DescriptorURL: f.url + "/descriptor"},
		hostile.Skill{ID: "s/token", Auth: hostile.OAuth2(f.url + "/token")},
	)
	p.On("s/status", hostile.Invoke, hostile.Accept(0))
	port := f.url[strings.LastIndexByte(f.url, ':')+1:]
	return testbed.StartCaddy(t, testbed.Bridge(append(lines, "circuit_breaker off", "allow_anonymous", "allow_ports "+port, "cache {\n\tnegative_ttl 0s\n}",
		"transport http {\n\ttls_trust_pool file "+f.file+"\n}",
		provider(p.URL(), "acme", "credentials oauth2 {\n\tclient_id me\n\tclient_secret {env.S_SECRET}\n\ttoken_url "+f.url+"/token\n}"))...))
}

// S51: a request that an HTTP/2 server says it did not process is sent again twice at
// most, whatever it is for and however the server says so.
func TestS51RefusedRequests(t *testing.T) {
	t.Setenv("S_SECRET", "Sesame7Qx")
	f := newFrames(t)
	c := f.behind(t)
	for name, refuse := range map[string]func(*stream){
		"GOAWAY": func(s *stream) { _ = s.WriteGoAway(0, http2.ErrCodeNo, nil) },
		"GOAWAY, closed": func(s *stream) {
			_ = s.WriteGoAway(0, http2.ErrCodeNo, nil)
			s.flush(f)
			_ = s.conn.Close()
		},
		"REFUSED_STREAM": func(s *stream) { _ = s.WriteRSTStream(s.id, http2.ErrCodeRefusedStream) },
	} {
		for _, skill := range []string{"invoke", "get", "status", "descriptor", "token"} {
			t.Run(name+", "+skill, func(t *testing.T) {
				var sent atomic.Int64
				f.answers(func(s *stream) {
					if strings.HasPrefix(s.path, "/"+skill) { // else it is a late one of the skill before
						sent.Add(1)
					}
					refuse(s)
				})
				patience := 2500 * time.Millisecond
				if skill == "status" && !longtest.Runs(longtest.Long) { // which is asked for until the call's time ends
					if name == "GOAWAY, closed" {
						longtest.Need(t, longtest.Long)
					}
					patience = 800 * time.Millisecond
				}
				var a testbed.Answer
				testbed.Eventually(t, 30*time.Second, func() bool { // a host whose descriptors failed is left alone for a while
					a = c.With(testbed.Timeout(patience)).Execute("acme.s."+skill, nil)
					return a.Outcome() != "RATE_LIMITED"
				}, "the host is asked")
				n, most := sent.Load(), int64(3)
				if skill == "status" {
					most *= 6 // polls are repeated by the bridge's own rules
				}
				if n > most || n == 0 {
					t.Errorf("sent %d times: %v", n, a)
				}
				if a.Outcome() == "completed" {
					t.Errorf("%v", a)
				}
			})
		}
	}
	// A request that is refused once is sent again.
	var refused atomic.Bool
	f.answers(func(s *stream) {
		if refused.CompareAndSwap(false, true) {
			_ = s.WriteGoAway(0, http2.ErrCodeNo, nil)
			return
		}
		s.answer(completedOverHTTP2)
	})
	if a := c.Execute("acme.s.invoke", nil); a.Outcome() != "completed" {
		t.Errorf("refused once: %v", a)
	}
}

// S51: what the transport repeats counts as attempts: they are in the log, and no more
// are made than the provider consents to.
func TestS51RefusalsAreAttempts(t *testing.T) {
	t.Setenv("S_SECRET", "Sesame7Qx")
	f := newFrames(t)
	c := f.behind(t)
	f.answers(func(s *stream) { _ = s.WriteGoAway(0, http2.ErrCodeNo, nil) })
	a := c.Execute("acme.s.retry", nil)
	if n := f.requests.Load(); n != 3 || a.Outcome() != "ENDPOINT_UNREACHABLE" {
		t.Errorf("sent %d times: %v", n, a)
	}
	testbed.Eventually(t, 30*time.Second, func() bool { return len(c.Log.Lines(`"skill_id":"s/retry"`, `"attempts":3`)) == 1 }, "the attempts are logged")
}

// flood sends a frame as often as the client takes it, up to some 64 MiB.
func (f *frames) flood(s *stream, write func()) {
	for most := f.sent.Load() + 64<<20; s.flush(f) && f.sent.Load() < most; {
		for range 1000 {
			write()
		}
	}
}

// floods are frames that cost a client time and bring nothing.
func floods(s *stream) map[string]func() {
	return map[string]func(){
		"unknown frames": func() { _ = s.WriteRawFrame(0xfa, 0, 0, nil) },
		"pings":          func() { _ = s.WritePing(true, [8]byte{}) },
		"settings":       func() { _ = s.WriteSettings(http2.Setting{ID: 0xfafa}) },
		"window updates": func() { _ = s.WriteWindowUpdate(s.id+2, 1) },
		"empty data":     func() { _ = s.WriteData(s.id, false, nil) },
	}
}

// S51: what an HTTP/2 server sends beside its answers is bounded: while a call waits,
// after it has ended, and after it has ended in trouble. The connection is closed.
func TestS51FramesForNobody(t *testing.T) {
	t.Setenv("S_SECRET", "Sesame7Qx")
	f := newFrames(t)
	testbed.Guard(t, func(g *guards.Guards) { g.ConnectionOverhead = 1 << 20 })
	c := f.behind(t)
	const most = 8 << 20 // with what sockets hold, and TLS
	for kind := range floods(new(stream)) {
		for when, begin := range map[string]func(*stream){
			"while a call waits": func(*stream) {},
			"after its answer":   func(s *stream) { s.answer(completedOverHTTP2) },
			"within its answer": func(s *stream) {
				s.answer(completedOverHTTP2)
				s.body.Truncate(s.body.Len() - 9 - len(completedOverHTTP2)) // the header is left
			},
		} {
			if kind == "empty data" && when == "while a call waits" {
				continue // which is no HTTP/2
			}
			t.Run(kind+" "+when, func(t *testing.T) {
				before := f.sent.Load()
				done := make(chan struct{})
				over := sync.OnceFunc(func() { close(done) })
				f.answers(func(s *stream) {
					defer over()
					begin(s)
					f.flood(s, floods(s)[kind])
				})
				a := c.With(testbed.Timeout(30*time.Second)).Execute("acme.s.invoke", nil) // the connection is closed long before
				if when == "after its answer" && a.Outcome() != "completed" {
					t.Errorf("%v", a)
				}
				if when != "after its answer" && (a.Outcome() != "INVALID_PROVIDER_RESPONSE" || !strings.Contains(a.Message, "other than the content of answers")) {
					t.Errorf("%v", a)
				}
				select {
				case <-done:
				case <-time.After(20 * time.Second):
					t.Fatalf("%d bytes were taken so far", f.sent.Load()-before)
				}
				if n := f.sent.Load() - before; n > most {
					t.Errorf("%d bytes were taken", n)
				}
			})
		}
	}
	// What package net/http has to say about each of them does not fill the log.
	for _, report := range []string{"unhandled response frame", "protocol error"} {
		if n := len(c.Log.Lines(report)); n > 1 {
			t.Errorf("%d lines of the log have %q", n, report)
		}
	}
}

// S51: a connection of HTTP/2 is kept for the next call, but not if the last call on
// it ended in trouble.
func TestS51ConnectionsInTrouble(t *testing.T) {
	t.Setenv("S_SECRET", "Sesame7Qx")
	f := newFrames(t)
	c := f.behind(t)
	f.answers(func(s *stream) { s.answer(completedOverHTTP2) })
	for range 5 {
		if a := c.Execute("acme.s.invoke", nil); a.Outcome() != "completed" {
			t.Fatalf("%v", a)
		}
	}
	if n := f.opened.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
	f.answers(func(*stream) {})
	if a := c.With(testbed.Timeout(200*time.Millisecond)).Execute("acme.s.invoke", nil); a.Outcome() != "INVOCATION_TIMEOUT" {
		t.Errorf("%v", a)
	}
	testbed.Eventually(t, 30*time.Second, func() bool { return f.open.Load() == 0 }, "the connection is closed")
	f.answers(func(s *stream) { s.answer(completedOverHTTP2) })
	if a := c.Execute("acme.s.invoke", nil); a.Outcome() != "completed" {
		t.Errorf("%v", a)
	}
}

// S51: what an honest server sends over HTTP/2 is never too much: large answers in small
// frames, many at a time on one connection, and some that are not waited for, also many
// at once beside one that is.
func TestS51HonestServers(t *testing.T) {
	output := strings.Repeat("0123456789abcdef", 512<<10/16*8) // 4 MiB
	var patient, writing, ended atomic.Int64
	wait := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			patient.Add(1)
			<-wait
		}
		writing.Add(1)
		defer ended.Add(1)
		body := `{"execution_id":"run-1","status":"completed","output":"` + output + `"}`
		for len(body) > 0 {
			n := min(len(body), 4<<10)
			if _, err := io.WriteString(w, body[:n]); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush() // a frame of its own
			body = body[n:]
		}
	}))
	server.EnableHTTP2 = true
	var connections atomic.Int64
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	f := &frames{url: server.URL, file: filepath.Join(t.TempDir(), "server.pem")}
	if err := os.WriteFile(f.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("S_SECRET", "Sesame7Qx")
	testbed.Guard(t, func(g *guards.Guards) { g.ConnectionOverhead = 256 << 10 })
	c := f.behind(t)
	load, rounds, n := 15, 1, 60
	switch {
	case raced:
		load, n = 6, 20
	case longtest.Runs(longtest.Long):
		load, rounds = 40, 3
	}
	testbed.Load{Workers: 8, Calls: load, Do: func(_, call int) testbed.Answer {
		if call%5 == 4 { // is not waited for
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(call)*time.Millisecond)
			defer cancel()
			c.With(testbed.Context(ctx), testbed.Fresh()).Execute("acme.s.invoke", nil)
		}
		a := c.With(testbed.Timeout(time.Minute)).Execute("acme.s.invoke", nil)
		if a.Outcome() == "completed" && len(a.Run().Output) != len(output)+2 {
			t.Errorf("%d bytes of output", len(a.Run().Output))
		}
		return a
	}}.Run(t).Only(t, "completed")
	// On a busy machine, each worker may dial before the first connection is ready, and calls that are given up may, too.
	if n := connections.Load(); n > 20 {
		t.Errorf("%d connections", n)
	}

	var calls sync.WaitGroup
	calls.Go(func() {
		if a := c.With(testbed.Timeout(time.Minute)).Execute("acme.s.get", nil); a.Outcome() != "completed" {
			t.Errorf("beside calls that were given up: %v", a)
		}
	})
	testbed.Eventually(t, 30*time.Second, func() bool { return patient.Load() == 1 }, "a call is waited for")
	for range rounds {
		before, over := writing.Load(), ended.Load()
		ctx, cancel := context.WithCancel(t.Context())
		var given sync.WaitGroup
		for range n {
			given.Go(func() { c.With(testbed.Context(ctx), testbed.Fresh()).Execute("acme.s.invoke", nil) })
		}
		testbed.Eventually(t, 30*time.Second, func() bool { return writing.Load() == before+int64(n) }, "all are answered")
		cancel()
		given.Wait()
		testbed.Eventually(t, 30*time.Second, func() bool { return ended.Load() == over+int64(n) }, "all are given up")
	}
	close(wait)
	calls.Wait()
}
