package attacks_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// raw sends bytes to Caddy, then a last request after which it is to close the
// connection, and returns the statuses of all answers until it does. Where the last
// request became part of something else, Caddy may wait for more.
func raw(t *testing.T, c *testbed.Caddy, text string) (statuses []int) {
	t.Helper()
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", c.Port("PORT")))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, text+"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n") // Caddy may have refused it by now
	for r := bufio.NewReader(conn); ; {
		response, err := http.ReadResponse(r, nil)
		if err != nil {
			return statuses
		}
		_, _ = io.Copy(io.Discard, response.Body) // the next one shows where it ended
		_ = response.Body.Close()                 // read
		statuses = append(statuses, response.StatusCode)
	}
}

// execute is the body of a call whose id the provider counts.
func execute(id string) string { return call(`{"name":"acme.x","args":{"call":"` + id + `"}}`) }

// post is a request with these header lines and this text after them.
func post(headers, rest string) string {
	return "POST /rpc HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n" + headers + "\r\n" + rest
}

// S21: two parsers may disagree where a request ends, so whatever leaves that
// open is one request or none. The call within the body of another is never
// executed. (Caddy, that is net/http, has this guard; the bridge adds that it
// reads JSON to its end, frames what it sends by itself, and closes the connection
// after a request in chunks where a proxy says that it is one: net/http does not tell
// whether there was a Content-Length, too. Without a proxy there is nobody else on the
// connection.)
func TestS21SmuggledRequests(t *testing.T) {
	p := inHouse(t, hostile.Skill{ID: "acme/x"})
	c := testbed.StartCaddy(t, bridge("allow_networks "+house, provider(p.URL(), "acme")))
	for i, test := range []struct {
		name string
		send func(outer, inner string) string // two calls, the second of which is smuggled
		once bool                             // the first may be executed
	}{
		{"CL.TE", func(outer, inner string) string {
			chunked := strconv.FormatInt(int64(len(outer)), 16) + "\r\n" + outer + "\r\n0\r\n\r\n"
			return post("Via: 1.1 proxy\r\nContent-Length: "+strconv.Itoa(len(chunked)+len(smuggled(inner)))+"\r\nTransfer-Encoding: chunked\r\n", chunked+smuggled(inner))
		}, true},
		{"TE.CL", func(outer, inner string) string {
			all := outer + smuggled(inner)
			return post("Transfer-Encoding: chunked\r\nContent-Length: "+strconv.Itoa(len(outer))+"\r\n", strconv.FormatInt(int64(len(all)), 16)+"\r\n"+all+"\r\n0\r\n\r\n")
		}, false},
		{"two lengths", func(outer, inner string) string {
			return post("Content-Length: "+strconv.Itoa(len(outer))+"\r\nContent-Length: "+strconv.Itoa(len(outer+smuggled(inner)))+"\r\n", outer+smuggled(inner))
		}, false},
		{"two lengths in a line", func(outer, inner string) string {
			return post("Content-Length: "+strconv.Itoa(len(outer))+", "+strconv.Itoa(len(outer+smuggled(inner)))+"\r\n", outer+smuggled(inner))
		}, false},
		{"length with a sign", func(outer, inner string) string {
			return post("Content-Length: +"+strconv.Itoa(len(outer))+"\r\n", outer+smuggled(inner))
		}, false},
		{"negative length", func(outer, inner string) string { return post("Content-Length: -1\r\n", outer+smuggled(inner)) }, false},
		{"hexadecimal length", func(outer, inner string) string { return post("Content-Length: 0x10\r\n", outer+smuggled(inner)) }, false},
		{"length too large", func(outer, inner string) string {
			return post("Content-Length: 18446744073709551617\r\n", outer+smuggled(inner))
		}, false},
		{"length before a space", func(outer, inner string) string {
			return post("Content-Length : "+strconv.Itoa(len(outer))+"\r\n", outer+smuggled(inner))
		}, false},
		{"length on a folded line", func(outer, inner string) string {
			return post("X-A: b\r\n Content-Length: "+strconv.Itoa(len(outer+smuggled(inner)))+"\r\n", outer+smuggled(inner))
		}, false},
		{"folded coding", func(outer, inner string) string {
			return post("Transfer-Encoding:\r\n chunked\r\nContent-Length: "+strconv.Itoa(len(outer+smuggled(inner)))+"\r\n", outer+smuggled(inner))
		}, false},
		{"folded first line", func(outer, inner string) string {
			return "POST /rpc HTTP/1.1\r\n Host: 127.0.0.1\r\nContent-Length: 0\r\n\r\n" + smuggled(inner) + outer
		}, false},
		{"unknown coding", func(outer, inner string) string {
			return post("Transfer-Encoding: xchunked\r\nContent-Length: "+strconv.Itoa(len(outer))+"\r\n", outer+smuggled(inner))
		}, false},
		{"identity", func(outer, inner string) string {
			return post("Transfer-Encoding: identity\r\nContent-Length: "+strconv.Itoa(len(outer))+"\r\n", outer+smuggled(inner))
		}, false},
		{"coding twice", func(_, inner string) string {
			return post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n"+smuggled(inner))
		}, false},
		{"coding with vertical tab", func(outer, inner string) string {
			return post("Transfer-Encoding: \x0bchunked\r\nContent-Length: "+strconv.Itoa(len(outer))+"\r\n", outer+smuggled(inner))
		}, false},
		{"coding before a space", func(outer, inner string) string {
			return post("Transfer-Encoding : chunked\r\nContent-Length: "+strconv.Itoa(len(outer))+"\r\n", outer+smuggled(inner))
		}, false},
		{"codings in a line", func(_, inner string) string {
			return post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"+smuggled(inner))
		}, false},
		{"chunked in HTTP/1.0", func(outer, inner string) string {
			return strings.Replace(post("Transfer-Encoding: chunked\r\nContent-Length: "+strconv.Itoa(len(outer))+"\r\n", outer+smuggled(inner)), "HTTP/1.1", "HTTP/1.0", 1)
		}, true},
		{"chunk size with a sign", func(_, inner string) string {
			return post("Transfer-Encoding: chunked\r\n", "+0\r\n\r\n"+smuggled(inner))
		}, false},
		{"chunk size too large", func(_, inner string) string {
			return post("Transfer-Encoding: chunked\r\n", "10000000000000000\r\n\r\n"+smuggled(inner))
		}, false},
		{"bare line feeds after a chunk", func(outer, inner string) string {
			return post("Transfer-Encoding: chunked\r\n", strconv.FormatInt(int64(len(outer)), 16)+"\r\n"+outer+"XX0\r\n\r\n"+smuggled(inner))
		}, false},
		{"bare carriage return", func(outer, inner string) string {
			return post("X-A: b\rContent-Length: "+strconv.Itoa(len(outer+smuggled(inner)))+"\r\n", outer+smuggled(inner))
		}, false},
		{"NUL in a header", func(outer, inner string) string {
			return post("X-A: \x00\r\nContent-Length: "+strconv.Itoa(len(outer))+"\r\n", outer+smuggled(inner))
		}, false},
		{"two hosts", func(outer, inner string) string {
			return post("Host: other\r\nContent-Length: "+strconv.Itoa(len(outer))+"\r\n", outer+smuggled(inner))
		}, false},
		{"no host", func(outer, inner string) string {
			return strings.Replace(post("Content-Length: "+strconv.Itoa(len(outer))+"\r\n", outer+smuggled(inner)), "Host: 127.0.0.1\r\n", "", 1)
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			outer, inner := "outer-"+strconv.Itoa(i), "inner-"+strconv.Itoa(i)
			statuses := raw(t, c, test.send(execute(outer), inner))
			if p.Posts(inner) != 0 || p.Posts(outer) > 1 || p.Posts(outer) == 1 && !test.once {
				t.Errorf("executed: %d outside, %d within; answers %v", p.Posts(outer), p.Posts(inner), statuses)
			}
		})
	}
	// What is the same length twice, or chunks alone, is one request.
	body := execute("same")
	length := "Content-Length: " + strconv.Itoa(len(body)) + "\r\n"
	for _, text := range []string{post(length, body), post(length+length, body), post("Transfer-Encoding: chunked\r\n", strconv.FormatInt(int64(len(body)), 16)+";x=y\r\n"+body+"\r\n0\r\nX-Trailer: a\r\n\r\n")} {
		before := p.Posts("same")
		if statuses := raw(t, c, text); len(statuses) == 0 || statuses[0] != http.StatusOK || p.Posts("same") != before+1 {
			t.Errorf("%q: %v, %d executed", text, statuses, p.Posts("same")-before)
		}
	}
	onTheWire(t, p, len(p.All()))
}

// smuggled is a complete call, hidden in the body of another.
func smuggled(id string) string {
	body := execute(id)
	return post("Content-Length: "+strconv.Itoa(len(body))+"\r\n", body)
}

// S21: a connection is not switched to another protocol in the middle, by an
// upgrade or after a preface of HTTP/2, so that no request can hide in what another
// parser takes for frames.
func TestS21Upgrades(t *testing.T) {
	p := inHouse(t, hostile.Skill{ID: "acme/x"})
	c := testbed.StartCaddy(t, bridge("allow_networks "+house, provider(p.URL(), "acme")))
	body := execute("upgrade")
	for _, text := range []string{
		http2.ClientPreface + smuggled("preface"),
		post("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n", body+http2.ClientPreface+smuggled("preface")),
		post("Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n", body+"\x00"+smuggled("preface")),
	} {
		if statuses := raw(t, c, text); slices.Contains(statuses, http.StatusSwitchingProtocols) {
			t.Errorf("%.100q: %v", text, statuses)
		}
	}
	if p.Posts("preface") != 0 || p.Posts("upgrade") != 2 {
		t.Errorf("executed: %d, %d", p.Posts("preface"), p.Posts("upgrade"))
	}
}

// S21: what HTTP/2 frames can't be un-framed by what a header says, with TLS or,
// where the operator allows it, without: a body that is longer or shorter than its
// Content-Length, fields of connections, line breaks in values. The provider gets
// one request with a Content-Length of the bridge's own, or none.
func TestS21DowngradedHTTP2(t *testing.T) {
	p := inHouse(t, hostile.Skill{ID: "acme/x"})
	c := testbed.StartCaddy(t, "{\n\tskip_install_trust\n\tservers {\n\t\tprotocols h1 h2 h2c\n\t}\n}\n"+bridge("allow_networks "+house, provider(p.URL(), "acme")))
	for _, test := range []struct {
		name    string
		headers []hpack.HeaderField
		body    string
		once    bool
	}{
		{"plain", nil, execute("h2-plain"), true},
		{"length too small", []hpack.HeaderField{{Name: "content-length", Value: "4"}}, execute("h2-small"), false},
		{"length too large", []hpack.HeaderField{{Name: "content-length", Value: "4000"}}, execute("h2-large"), false},
		{"two lengths", []hpack.HeaderField{{Name: "content-length", Value: "4"}, {Name: "content-length", Value: "5"}}, execute("h2-two"), false},
		{"chunked", []hpack.HeaderField{{Name: "transfer-encoding", Value: "chunked"}}, "0\r\n\r\n" + smuggled("h2-chunked"), false},
		{"connection", []hpack.HeaderField{{Name: "connection", Value: "keep-alive"}}, execute("h2-connection"), false},
		{"line break in a value", []hpack.HeaderField{{Name: "x-a", Value: "b\r\nTransfer-Encoding: chunked"}}, execute("h2-value"), false},
		{"line break in a name", []hpack.HeaderField{{Name: "x-a\r\ntransfer-encoding", Value: "chunked"}}, execute("h2-name"), false},
		{"capital name", []hpack.HeaderField{{Name: "X-A", Value: "b"}}, execute("h2-capital"), false},
		{"colon in a name", []hpack.HeaderField{{Name: "x:a", Value: "b"}}, execute("h2-colon"), false},
		{"late pseudo-header", []hpack.HeaderField{{Name: "x-a", Value: "b"}, {Name: ":path", Value: "/other"}}, execute("h2-late"), false},
		{"two paths", []hpack.HeaderField{{Name: ":path", Value: "/rpc HTTP/1.1\r\nHost: x"}}, execute("h2-path"), false},
		{"smuggled body", nil, execute("h2-outer") + smuggled("h2-inner"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := p.Count("acme/x", hostile.Invoke)
			http2Call(t, c, test.headers, test.body)
			if n := p.Count("acme/x", hostile.Invoke) - before; n > 1 || n == 1 && !test.once || n == 0 && test.once {
				t.Errorf("%d invocations", n)
			}
		})
	}
	onTheWire(t, p, len(p.All()))
}

// http2Call makes one request by prior knowledge, frame by frame, and waits until
// its stream or its connection has ended.
func http2Call(t *testing.T, c *testbed.Caddy, headers []hpack.HeaderField, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", c.Port("PORT")))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	var block strings.Builder
	encoder := hpack.NewEncoder(&block)
	for _, f := range append([]hpack.HeaderField{
		{Name: ":method", Value: http.MethodPost},
		{Name: ":scheme", Value: "http"},
		{Name: ":authority", Value: "127.0.0.1:" + c.Port("PORT")},
		{Name: ":path", Value: "/rpc"},
		{Name: "content-type", Value: "application/json"},
	}, headers...) {
		_ = encoder.WriteField(f) // to memory
	}
	framer := http2.NewFramer(conn, conn)
	framer.AllowIllegalWrites = true
	for _, err := range []error{
		framer.WriteSettings(),
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte(block.String()), EndHeaders: true}),
		framer.WriteData(1, true, []byte(body)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return // Caddy has closed the connection
		}
		switch f := frame.(type) {
		case *http2.GoAwayFrame, *http2.RSTStreamFrame:
			return
		case *http2.DataFrame:
			if f.StreamEnded() {
				return
			}
		case *http2.HeadersFrame:
			if f.StreamEnded() {
				return
			}
		}
	}
}
