package exchange_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// unobserved ignores what happens.
type unobserved struct{ exchange.Observer }

func (unobserved) Exchange(context.Context, *exchange.Exchange) {}

// borrowed is memory with a text of one letter.
func borrowed(letter byte, size int) *exchange.Memory {
	m := exchange.BorrowMemory(size)
	m.Text = append(m.Text, bytes.Repeat([]byte{letter}, size)...)
	return m
}

// invoke sends a text from memory as a caller does, and releases the memory.
func invoke(ctx context.Context, transport http.RoundTripper, m *exchange.Memory, target string) error {
	u, err := url.Parse(target)
	if err != nil {
		return err
	}
	s := &exchange.Sender{Transport: transport, MaxResponseSize: 1 << 10, Observer: unobserved{}}
	r := s.NewRequest(ctx, run.PhaseInvoke, http.MethodPost, u, nil, http.Header{}, m.Text)
	r.ReadFrom(m)
	_, err = s.Send(run.PhaseInvoke, r)
	m.Release()
	return err
}

// The memory of a request that was written once is reused for the next one.
func TestMemoryIsReused(t *testing.T) {
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	for name, newest := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		server := httptest.NewUnstartedServer(handler)
		server.EnableHTTP2 = newest
		server.StartTLS()
		defer server.Close()
		transport := server.Client().Transport
		for _, size := range []int{2 << 10, 100 << 10} {
			reused := 0
			for range 50 { // the garbage collector, the race detector and the processor that a goroutine runs on make exceptions
				m := borrowed('a', size)
				text := m.Text
				if err := invoke(t.Context(), transport, m, server.URL); err != nil {
					t.Fatal(err)
				}
				if next := borrowed('b', size); &next.Text[0] == &text[0] {
					reused++
				}
			}
			if reused == 0 {
				t.Errorf("%s: memory for %d bytes is never reused", name, size)
			}
		}
	}
}

// A body that is still being sent is not replaced by that of another call.
func TestMemoryOfOneCall(t *testing.T) {
	for _, tc := range []struct {
		name    string
		refused bool
	}{{"answered before the body was sent", false}, {"refused after the body was sent, then answered before it was sent again", true}} {
		t.Run(tc.name, func(t *testing.T) {
			p := newEarlyProvider(t, tc.refused)
			transport := &http.Transport{Protocols: new(http.Protocols)}
			transport.Protocols.SetUnencryptedHTTP2(true)
			defer transport.CloseIdleConnections()
			sent := 0
			for range 20 { // a pool forgets some of its memory
				if err := invoke(t.Context(), transport, borrowed('a', bodySize), p.url); err != nil {
					t.Fatal(err)
				}
				borrowed('b', bodySize)
				p.goOn <- struct{}{}
				text := <-p.read
				if others := bytes.Count(text, []byte("b")); others > 0 {
					t.Fatalf("%d of %d bytes are from another call", others, len(text))
				}
				sent += len(text)
			}
			if sent == 0 {
				t.Error("nothing was sent after an answer")
			}
		})
	}
}

// bodySize and window are in bytes.
const bodySize, window = 60_000, 1_000

// earlyProvider is a server of HTTP/2 that ends each answer while the client still waits to send the request, most of which it takes
// afterwards.
type earlyProvider struct {
	url    string
	refuse bool // each request, when it was sent for the first time
	goOn   chan struct{}
	read   chan []byte // what it takes after the answer
}

func newEarlyProvider(t *testing.T, refuse bool) *earlyProvider {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &earlyProvider{url: "http://" + listener.Addr().String(), refuse: refuse, goOn: make(chan struct{}), read: make(chan []byte)}
	var work sync.WaitGroup
	var connections sync.Map
	work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Store(conn, nil)
			work.Go(func() {
				defer conn.Close()
				p.serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		connections.Range(func(conn, _ any) bool {
			_ = conn.(net.Conn).Close()
			return true
		})
		work.Wait()
	})
	return p
}

func (p *earlyProvider) serve(conn net.Conn) {
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f := http2.NewFramer(conn, conn)
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
	for refuse := p.refuse; ; {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = f.WriteSettingsAck()
			}
		case *http2.HeadersFrame:
			id := frame.StreamID
			if refuse {
				p.take(f, id)
				_ = f.WriteRSTStream(id, http2.ErrCodeRefusedStream)
				refuse = false
				continue
			}
			var header bytes.Buffer
			_ = hpack.NewEncoder(&header).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: header.Bytes(), EndHeaders: true, EndStream: true})
			<-p.goOn
			text := p.take(f, id)
			p.read <- text[min(len(text), window):] // the beginning may have been sent before
			refuse = p.refuse
		}
	}
}

// take returns the body of a request, or what the client sends of it.
func (p *earlyProvider) take(f *http2.Framer, id uint32) []byte {
	_ = f.WriteWindowUpdate(0, bodySize)
	_ = f.WriteWindowUpdate(id, bodySize)
	var text []byte
	for {
		frame, err := f.ReadFrame()
		if err != nil || frame.Header().StreamID == id && frame.Header().Type == http2.FrameRSTStream {
			return text
		}
		if data, ok := frame.(*http2.DataFrame); ok {
			if text = append(text, data.Data()...); data.StreamEnded() {
				return text
			}
		}
	}
}

// A reader that is asked for after the release would read another's text.
func TestMemoryAfterRelease(t *testing.T) {
	var r exchange.Request
	m := borrowed('a', 2<<10)
	r.ReadFrom(m)
	m.Release()
	if body, err := r.GetBody(); !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("%v, %v", body, err)
	}
}

// Small and very large bodies have memory of their own, which is nothing to read from or to release.
func TestNoMemory(t *testing.T) {
	for _, size := range []int{100, 3 << 20} {
		m := exchange.BorrowMemory(size)
		var r exchange.Request
		r.ReadFrom(m)
		if m.Release(); m != nil || r.GetBody != nil {
			t.Errorf("%d bytes", size)
		}
	}
}
