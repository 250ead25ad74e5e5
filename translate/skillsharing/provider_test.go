package skillsharing_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/sample"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

const (
	forecast  = sample.Descriptor
	acmeIndex = sample.Index
)

var edited = sample.Edited

func quote(s string) string { return strconv.Quote(s) }

func problem(tb testing.TB, err error) *run.Failure {
	tb.Helper()
	e, ok := errors.AsType[*run.Failure](err)
	if !ok {
		tb.Fatalf("got %v, want a *run.Failure", err)
	}
	return e
}

func parseURL(tb testing.TB, text string) *url.URL {
	tb.Helper()
	u, err := url.Parse(text)
	if err != nil {
		tb.Fatal(err)
	}
	return u
}

// runID is the id of the run that polls ask about.
const runID = "exec-1"

// retryOf is when the provider or this package says to try again; nil: neither does.
func retryOf(e *run.Failure) jsontext.Value {
	if e.Retry == nil && e.ProviderSaid().Retry == nil {
		return nil
	}
	return front.Retry(e)
}

// provider is a real server that answers as a test says and remembers what it
// was asked.
type provider struct {
	*httptest.Server
	mu     sync.Mutex
	routes map[string][]http.HandlerFunc
	seen   []seenRequest
}

// seenRequest is a request as it arrived.
type seenRequest struct {
	route string // method and request target
	body  string
	*http.Request
}

func newProvider(tb testing.TB) *provider {
	tb.Helper()
	p := &provider{routes: map[string][]http.HandlerFunc{}}
	p.Server = httptest.NewServer(p)
	tb.Cleanup(p.Close)
	return p
}

func newTLSProvider(tb testing.TB) *provider {
	tb.Helper()
	p := &provider{routes: map[string][]http.HandlerFunc{}}
	p.Server = httptest.NewUnstartedServer(p)
	p.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // handshakes fail on purpose
	p.StartTLS()
	tb.Cleanup(p.Close)
	return p
}

// tlsConfig trusts the certificate that all these servers have.
func (p *provider) tlsConfig() *tls.Config {
	own := p.Client().Transport.(*http.Transport).TLSClientConfig
	if own == nil {
		return nil
	}
	return &tls.Config{RootCAs: own.RootCAs}
}

// on sets the answers to a method and path, in order. The last one is repeated.
func (p *provider) on(route string, answers ...http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.routes[route] = answers
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	route := r.Method + " " + r.URL.Path
	p.mu.Lock()
	p.seen = append(p.seen, seenRequest{r.Method + " " + r.RequestURI, string(body), r})
	answers := p.routes[route]
	if len(answers) > 1 {
		p.routes[route] = answers[1:]
	}
	p.mu.Unlock()
	if len(answers) == 0 {
		http.NotFound(w, r)
		return
	}
	answers[0](w, r)
}

// requests are those seen so far.
func (p *provider) requests() []seenRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.seen)
}

// answers is an answer with a status, a body, and names and values of header fields.
func answers(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // the test sees whether it arrived
	}
}

// drops closes the connection instead of answering.
func drops(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// breaksOff closes the connection in the middle of an answer.
func breaksOff(w http.ResponseWriter, r *http.Request) { breaksOffWith(200)(w, r) }

// breaksOffWith is breaksOff with a status.
func breaksOffWith(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"status":`)    // the test sees whether it arrived
		_ = http.NewResponseController(w).Flush() // also this
		panic(http.ErrAbortHandler)
	}
}

// hangs answers when the client has gone.
func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// scripted is a transport that answers as a test says, for tests with a clock of
// their own.
type scripted struct {
	start   time.Time
	mu      sync.Mutex // for answers and asked
	answers []scriptedAnswer
	asked   []asked
	open    atomic.Int32 // bodies not closed yet
}

type scriptedAnswer func(*http.Request) (*http.Response, error)

// asked is a request that a scripted transport was given.
type asked struct {
	at     time.Duration
	route  string
	header http.Header
}

// script makes a transport that gives answers in order. The last one is repeated.
func script(tb testing.TB, answers ...scriptedAnswer) *scripted {
	tb.Helper()
	s := &scripted{start: time.Now(), answers: answers}
	tb.Cleanup(func() {
		if n := s.open.Load(); n != 0 {
			tb.Errorf("%d bodies were not closed", n)
		}
	})
	return s
}

func (s *scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.asked = append(s.asked, asked{time.Since(s.start), r.Method + " " + r.URL.String(), r.Header.Clone()})
	s.mu.Unlock()
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body) // it is in memory
		_ = r.Body.Close()                 // it is in memory
	}
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GetConn != nil {
		trace.GetConn(r.URL.Host)
	}
	s.mu.Lock()
	answer := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	s.mu.Unlock()
	resp, err := answer(r)
	if resp != nil {
		s.open.Add(1)
		resp.Body = &countedBody{Reader: resp.Body, open: &s.open}
	}
	return resp, err
}

// times are when the requests were made.
func (s *scripted) times() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var times []time.Duration
	for _, a := range s.asked {
		times = append(times, a.at)
	}
	return times
}

type countedBody struct {
	io.Reader
	once sync.Once
	open *atomic.Int32
}

func (b *countedBody) Close() error {
	b.once.Do(func() { b.open.Add(-1) })
	return nil
}

// says is an answer with a status, a body, and names and values of header fields.
func says(status int, body string, header ...string) scriptedAnswer {
	return func(r *http.Request) (*http.Response, error) {
		wrote(r)
		recorder := httptest.NewRecorder()
		answers(status, body, header...)(recorder, r)
		return recorder.Result(), nil
	}
}

// cutOff is what comes of a request whose connection breaks after it was written.
func cutOff(r *http.Request) (*http.Response, error) {
	wrote(r)
	return nil, io.EOF
}

// notConnected is what comes of a request for which there is no connection.
func notConnected(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

// silent waits for an answer until the request's time is up.
func silent(r *http.Request) (*http.Response, error) {
	wrote(r)
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func wrote(r *http.Request) {
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.WroteHeaders != nil {
		trace.WroteHeaders()
	}
}

// times repeats an answer.
func times(n int, a scriptedAnswer) []scriptedAnswer { return slices.Repeat([]scriptedAnswer{a}, n) }

// accepts, runs and completes are the usual answers about [run].
const (
	accepts   = `{"execution_id":"exec-1","status":"accepted","skill_id":"acme/forecast"}`
	runs      = `{"execution_id":"exec-1","status":"running"}`
	completes = `{"execution_id":"exec-1","status":"completed","output":{"ok":true}}`
)

// watcher is an Observer that remembers.
type watcher struct {
	mu        sync.Mutex
	exchanges []exchange.Exchange
	notices   []exchange.Notice
}

func (w *watcher) Exchange(_ context.Context, e *exchange.Exchange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.exchanges = append(w.exchanges, *e)
}

func (w *watcher) Notice(_ context.Context, n *exchange.Notice) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notices = append(w.notices, *n)
}

// attribute is one of a notice's.
func attribute(n exchange.Notice, name string) string {
	for _, a := range n.Attrs {
		if a.Key == name {
			return a.Value.String()
		}
	}
	return ""
}

// keyed are credentials that set a header.
type keyed struct {
	mu      sync.Mutex
	key     string
	more    []string // further secrets
	types   []document.AuthType
	err     error
	applied []credential.Authentication
}

func (k *keyed) Supports(auth *document.Auth) bool {
	return auth == nil || k.types == nil || slices.Contains(k.types, auth.Type)
}

func (k *keyed) Authenticate(_ context.Context, a *credential.Authentication) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.applied = append(k.applied, *a)
	if k.err != nil {
		return k.err
	}
	a.Request.Header.Set("X-Key", k.key)
	return nil
}

func (k *keyed) Secrets() []string { return append([]string{k.key}, k.more...) }

// renewing are credentials that can be renewed.
type renewing struct {
	keyed
	renewals  int
	exhausted bool
	failures  []error // of the first renewals
}

var errNoToken = errors.New("the token endpoint wants more than this")

func (r *renewing) Renew(_ context.Context, a *credential.Authentication) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.Request == nil || a.Request.URL == nil || a.Request.Header.Get("X-Key") != r.key {
		return false, errors.New("which request was refused is not said")
	}
	r.renewals++
	if len(r.failures) > 0 {
		err := r.failures[0]
		r.failures = r.failures[1:]
		return false, err
	}
	if r.exhausted {
		return false, nil
	}
	r.key += "'"
	return true, nil
}

// newClient makes a client of a provider at origin with what else a test sets.
func newClient(tb testing.TB, origin string, transport http.RoundTripper, trust ...string) *skillsharing.Client {
	tb.Helper()
	u, err := url.Parse(origin)
	if err != nil {
		tb.Fatal(err)
	}
	audience, err := credential.NewAllowedHosts(u, trust)
	if err != nil {
		tb.Fatal(err)
	}
	return &skillsharing.Client{
		Reader: discovery.Reader{Sender: exchange.Sender{
			Source: "acme", Origin: u, AllowedHosts: audience, Transport: transport,
			MaxResponseSize: 1 << 20, Limits: document.DefaultLimits(), AllowHTTP: true, Observer: new(watcher),
		}},
		Caller:  skillsharing.Caller{ID: "edge-1", Type: "service"},
		Polling: skillsharing.Polling{Plan: polling.Backoff{Initial: 500 * time.Millisecond, Longest: 5 * time.Second}},
	}
}

// newTransport is a transport like the one of a server's own client.
func newTransport(tb testing.TB) *http.Transport {
	tb.Helper()
	transport := new(http.Transport)
	tb.Cleanup(transport.CloseIdleConnections)
	return transport
}

// acme is where the skills of most tests are.
const acme = "https://acme.example"

// skillAt makes a skill whose URLs are all below a base, with edits.
func skillAt(tb testing.TB, base string, edits ...string) *discovery.Skill {
	tb.Helper()
	edits = append([]string{
		"/endpoint/url=" + quote(base+"/run"),
		"/endpoint/status_url=" + quote(base+"/status/{execution_id}"),
		"/endpoint/result_url=" + quote(base+"/result/{execution_id}"),
	}, edits...)
	source := base + "/skill.json"
	if i := slices.IndexFunc(edits, func(e string) bool { return strings.HasPrefix(e, "source=") }); i >= 0 {
		source = strings.TrimPrefix(edits[i], "source=")
		edits = slices.Delete(edits, i, i+1)
	}
	skill, err := discovery.NewSkill(edited(tb, forecast, edits...), parseURL(tb, source))
	if err != nil {
		tb.Fatal(err)
	}
	return skill
}

// submit invokes a skill with no arguments to speak of.
func submit(ctx context.Context, c *skillsharing.Client, s *discovery.Skill) (*document.Response, *run.Failure, skillsharing.Stats) {
	var effort skillsharing.Stats
	r, e := c.Submit(ctx, s, &skillsharing.Invocation{Inputs: []byte(`{"location":"Tokyo"}`), TraceID: "t1", Timeout: time.Second}, &effort)
	return r, e, effort
}

// wantError checks what an error is about.
func wantError(tb testing.TB, e *run.Failure, code run.Kind, executed run.Executed) {
	tb.Helper()
	switch {
	case e == nil:
		tb.Fatalf("no error, want %s", code)
	case e.Kind != code || e.Executed != executed:
		tb.Errorf("%s, executed: %s; want %s, executed: %s (%s)", e.Kind, e.Executed, code, executed, e.Message)
	}
	if e.Message == "" || e.Phase == "" || e.By == "" {
		tb.Errorf("incomplete: %+v", e)
	}
}

// indexOf returns the index of a provider.
func indexOf(ctx context.Context, c *skillsharing.Client) (*document.Index, *run.Failure) {
	lists, e := c.Indexes(ctx, nil, time.Time{})
	if e != nil {
		return nil, e
	}
	return lists[0], nil
}

// registryOf returns the skills of a type of a registry. The client is for this type only.
func registryOf(ctx context.Context, c *skillsharing.Client, t document.CapabilityType) (*document.Index, *run.Failure) {
	if c.Registry == nil {
		c.Registry = []document.CapabilityType{t}
	}
	return indexOf(ctx, c)
}
