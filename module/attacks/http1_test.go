package attacks_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// closer is a server of HTTP/1.1 that ends connections where a test says.
type closer struct {
	url string

	mu      sync.Mutex
	at      string                // where a request ends its connection; empty: it is answered
	hold    chan struct{}         // requests are answered when it is closed; nil: at once
	waiting int                   // for that
	seen    map[string]int        // how often a request came, by its skill or call
	open    map[net.Conn]struct{} // connections
}

// Where a connection ends.
const (
	afterHeader     = "after the header"
	afterBody       = "after the body"
	afterReset      = "after the body, with a reset"
	afterHalfStatus = "after half a status line"
	afterInterim    = "after an interim answer"
)

func newCloser(t *testing.T) *closer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &closer{url: "http://" + listener.Addr().String(), seen: map[string]int{}, open: map[net.Conn]struct{}{}}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.open[c] = struct{}{}
			s.mu.Unlock()
			work.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		s.closeAll()
		work.Wait()
	})
	return s
}

// closeAll closes all connections, every other one with a reset.
func (s *closer) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for c := range s.open {
		if n++; n%2 == 0 {
			_ = c.(*net.TCPConn).SetLinger(0)
		}
		_ = c.Close()
	}
}

func (s *closer) serve(c net.Conn) {
	defer func() {
		_ = c.Close()
		s.mu.Lock()
		delete(s.open, c)
		s.mu.Unlock()
	}()
	for r := bufio.NewReader(c); ; {
		request, err := http.ReadRequest(r)
		if err != nil || !s.answer(c, request) {
			return
		}
	}
}

var callID = regexp.MustCompile(`call-[0-9]+`)

// answer answers a request, or reports that the connection ends.
func (s *closer) answer(c net.Conn, r *http.Request) bool {
	s.mu.Lock()
	at, hold, skill := s.at, s.hold, strings.Split(r.URL.Path, "/")[1]
	s.seen[skill]++
	if skill != "fill" { // a request of a connection that was closed may come this late
		hold = nil
	}
	if hold != nil {
		s.waiting++
	}
	s.mu.Unlock()
	if at == afterHeader {
		return false
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	s.mu.Lock()
	s.seen[callID.FindString(r.URL.RawQuery+string(body))]++
	s.mu.Unlock()
	if hold != nil {
		<-hold
	}
	answer := completedOverHTTP2
	if r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/status") {
		answer = `{"execution_id":"run-1","status":"running"}`
	}
	switch at {
	case "":
		_, err = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
		return err == nil
	case afterReset:
		_ = c.(*net.TCPConn).SetLinger(0)
	case afterHalfStatus:
		_, _ = io.WriteString(c, "HTTP/1.1 2")
	case afterInterim:
		_, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\n")
	}
	return false
}

// requests is how many came, by what.
func (s *closer) requests(by string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[by]
}

// endsAt says where requests end their connections from now on.
func (s *closer) endsAt(point string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = point
}

// idle makes a bridge keep n idle connections.
func (s *closer) idle(t *testing.T, c *testbed.Caddy, n int) {
	t.Helper()
	hold := make(chan struct{})
	letGo := sync.OnceFunc(func() { close(hold) })
	t.Cleanup(letGo)
	s.mu.Lock()
	s.at, s.waiting, s.hold = "", 0, hold
	s.mu.Unlock()
	var calls sync.WaitGroup
	for range n {
		calls.Go(func() {
			if a := c.Execute("acme.s.fill", nil); a.Outcome() != "completed" {
				t.Errorf("%v", a)
			}
		})
	}
	testbed.Eventually(t, 30*time.Second, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.waiting == n
	}, "all calls have connections")
	s.mu.Lock()
	s.hold = nil
	s.mu.Unlock()
	letGo()
	calls.Wait()
}

var (
	loggedAttempts = regexp.MustCompile(`"attempts":([0-9]+)`)
	loggedPolls    = regexp.MustCompile(`"polls":([0-9]+)`)
)

// logged are the numbers that the log has for the calls of a skill.
func logged(c *testbed.Caddy, skill string, what *regexp.Regexp) (calls, sum int) {
	for _, line := range c.Log.Lines(`"skill_id":"`+skill+`"`, `"attempts":`) {
		n, _ := strconv.Atoi(what.FindStringSubmatch(line)[1]) // it is a number
		calls, sum = calls+1, sum+n
	}
	return calls, sum
}

// S51: on used connections that a server closes, wherever it does, a request of
// HTTP/1.1 is sent no more than three times, and what executes something once, unless
// the provider consents to more. All that were sent are counted.
func TestS51ClosedConnections(t *testing.T) {
	s := newCloser(t)
	p := hostile.NewProvider(t)
	method := func(name string) func(hostile.Object) {
		return func(d hostile.Object) {
			d["endpoint"].(hostile.Object)["method"] = name
			if name != "GET" {
				d["endpoint"].(hostile.Object)["retry"] = hostile.Object{"max_attempts": 3, "backoff_ms": 1}
			}
		}
	}
	p.Publish(
		hostile.Skill{ID: "s/fill", Endpoint: s.url + "/fill"},
		hostile.Skill{ID: "s/post", Endpoint: s.url + "/post", Edit: method("POST")},
		hostile.Skill{ID: "s/get", Endpoint: s.url + "/get", Edit: method("GET")},
		hostile.Skill{ID: "s/put", Endpoint: s.url + "/put", Edit: method("PUT")},
		hostile.Skill{ID: "s/status", StatusURL: s.url + "/status/{execution_id}"},
	)
	points := []string{afterHeader, afterBody, afterReset, afterHalfStatus, afterInterim}
	for i := range points { // one each, since one that has failed is left alone for a while
		p.Publish(hostile.Skill{ID: fmt.Sprint("s/descriptor", i), DescriptorURL: fmt.Sprint(s.url, "/descriptor", i)})
	}
	p.On("s/status", hostile.Invoke, hostile.Accept(0))
	port := s.url[strings.LastIndexByte(s.url, ':')+1:]
	c := testbed.StartCaddy(t, bridge("allow_anonymous", "allow_networks 127.0.0.0/8", "allow_ports "+port+" {$PORT}", provider(p.URL(), "acme")))
	const connections = 12
	for i, point := range points {
		for skill, most := range map[string]int{"post": 1, "get": 1, "put": 3, fmt.Sprint("descriptor", i): 3} {
			t.Run(point+", "+skill, func(t *testing.T) {
				s.idle(t, c, connections)
				s.endsAt(point)
				before := s.requests(skill)
				calls, counted := logged(c, "s/"+skill, loggedAttempts)
				a := c.Execute("acme.s."+skill, nil)
				n := s.requests(skill) - before
				if n > most || n == 0 || s.requests(a.Call) > most {
					t.Errorf("sent %d times: %v", n, a)
				}
				if a.Outcome() == "completed" {
					t.Errorf("%v", a)
				}
				if strings.HasPrefix(skill, "descriptor") {
					return
				}
				var after int
				testbed.Eventually(t, 30*time.Second, func() bool {
					var ended int
					ended, after = logged(c, "s/"+skill, loggedAttempts)
					return ended == calls+1
				}, "the call is logged")
				if after-counted != n {
					t.Errorf("sent %d times, counted %d times", n, after-counted)
				}
			})
		}
		t.Run(point+", status", func(t *testing.T) {
			if i > 1 {
				longtest.Need(t, longtest.Long)
			}
			s.idle(t, c, connections)
			s.endsAt(point)
			before := s.requests("status")
			calls, counted := logged(c, "s/status", loggedPolls)
			a := c.With(testbed.Timeout(700*time.Millisecond)).Execute("acme.s.status", nil)
			var after int
			testbed.Eventually(t, 30*time.Second, func() bool {
				var ended int
				ended, after = logged(c, "s/status", loggedPolls)
				return ended == calls+1
			}, "the call is logged")
			if n := s.requests("status") - before; n == 0 || n > 3*(after-counted) {
				t.Errorf("%d polls were sent %d times: %v", after-counted, n, a)
			}
		})
	}

	// While connections end that no request uses, those for which one was chosen that has
	// just ended are sent on another one, and execute nothing twice either.
	calls, counted := logged(c, "s/post", loggedAttempts)
	before := s.requests("post")
	const rounds, each = 20, 6
	for range rounds {
		s.idle(t, c, 2*each)
		var answers sync.WaitGroup
		begin := make(chan struct{})
		for range each {
			answers.Go(func() {
				<-begin
				if a := c.Execute("acme.s.post", nil); s.requests(a.Call) > 1 || a.Outcome() == "completed" && s.requests(a.Call) == 0 {
					t.Errorf("executed %d times: %v", s.requests(a.Call), a)
				}
			})
		}
		close(begin)
		s.closeAll()
		answers.Wait()
	}
	var after int
	testbed.Eventually(t, 30*time.Second, func() bool {
		var ended int
		ended, after = logged(c, "s/post", loggedAttempts)
		return ended == calls+rounds*each
	}, "the calls are logged")
	if n := s.requests("post") - before; n > after-counted {
		t.Errorf("sent %d times, counted %d times", n, after-counted)
	}
}
