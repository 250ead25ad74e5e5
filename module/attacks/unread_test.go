package attacks_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// connections returns the connections of a client. With small buffers, what the server sends to a client that reads nothing waits in
// the server's process.
func connections(t *testing.T, ca *hostile.CA, two, small bool) *http.Transport {
	t.Helper()
	own := &http.Transport{TLSClientConfig: ca.ClientConfig(), Protocols: new(http.Protocols)}
	if small {
		own.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerConnection: 1 << 20, MaxReceiveBufferPerStream: 64 << 10}
		own.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			if err == nil {
				_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
			}
			return conn, err
		}
	}
	own.Protocols.SetHTTP1(!two)
	own.Protocols.SetHTTP2(two)
	t.Cleanup(own.CloseIdleConnections)
	return own
}

// S72: streams of a task whose clients read nothing of a large output share its text, whatever the protocol. Other callers are
// answered meanwhile, and a client that reads gets all of it.
func TestS72UnreadStreams(t *testing.T) {
	t.Parallel()
	const size = 9 << 20
	streams := 50
	if longtest.Runs(longtest.Long) {
		streams = 150
	}
	ca := hostile.NewCA(t)
	certificate, key := ca.ServerCertificate()
	for _, test := range []struct {
		name        string
		secure, two bool
	}{{"HTTP/1.1", false, false}, {"TLS HTTP/1.1", true, false}, {"TLS HTTP/2", true, true}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := hostile.NewProvider(t, hostile.Skill{ID: "acme/large"}, hostile.Skill{ID: "acme/now"})
			gate := hostile.NewGate(t)
			p.On("acme/large", hostile.Invoke, hostile.Accept(0))
			p.On("acme/large", hostile.Status, gate.Then(hostile.RawOutput(`"`+strings.Repeat("x", size)+`"`)))
			site, scheme := testbed.Site(agents(p)), "http"
			if test.secure {
				scheme = "https"
				site = strings.Replace(site, "http://127.0.0.1:{$PORT} {\n", "https://127.0.0.1:{$PORT} {\n\ttls "+certificate+" "+key+"\n", 1)
			}
			c := testbed.StartProcess(t, testbed.Limits{OpenFiles: 4096}, site)
			reader := c.Agent(user("ann"))
			reader.URL = scheme + "://127.0.0.1:" + c.Port("PORT") + "/a2a"
			reader.HTTP = &http.Client{Transport: connections(t, ca, test.two, false)}
			id := reader.Invoke("acme.large", true).Task().ID
			testbed.Eventually(t, time.Minute, func() bool { return reader.GetTask(id).Task().State() == "WORKING" }, "the run was accepted")
			before := c.RSS()
			var slow *testbed.Client
			for i := range streams {
				if i%10 == 0 { // so many streams share a connection of HTTP/2
					slow = reader.With()
					slow.HTTP = &http.Client{Transport: connections(t, ca, test.two, true)}
				}
				slow.Unread("SubscribeToTask", hostile.Object{"id": id})
			}
			all := reader.Stream("SubscribeToTask", hostile.Object{"id": id})
			gate.Open()
			var last testbed.Event
			length := 0
			for {
				e, ok := all.Next(time.Minute)
				if !ok {
					break
				}
				last, length = e, length+len(e.Text)
			}
			if length < size || !strings.Contains(last.String(), "COMPLETED") {
				t.Errorf("%d bytes were read, and at last %.300s", length, last.String())
			}
			if a := reader.Invoke("acme.now", false); a.Task().State() != "COMPLETED" {
				t.Errorf("another task: %.300s", a)
			}
			grown := c.RSS() - before
			t.Logf("%d streams that are not read: %d MiB more", streams, grown>>20)
			if !raced && grown > 20*size { // the race detector takes memory of its own
				t.Errorf("%d MiB more", grown>>20)
			}
		})
	}
}
