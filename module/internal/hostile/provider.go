package hostile

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// A Part is one of the things that a provider is asked for.
type Part string

// The parts of a provider. Index, Registry and Token belong to no skill: their id
// is empty.
const (
	Index      Part = "index"
	Descriptor Part = "descriptors"
	Invoke     Part = "run"
	Status     Part = "status"
	Result     Part = "result"
	Token      Part = "token"
	Registry   Part = "registry" // lists what the index does; its URL is the base of GET <url>/skills
)

const (
	indexPath = "/.well-known/skill-sharing" // Skill Sharing Protocol, section 4.3
	loopback  = "127.0.0.1"
)

// A Provider publishes skills on a loopback port as the Skill Sharing Protocol
// says, and misbehaves as a test says.
type Provider struct {
	tb       testing.TB
	port     string
	scheme   string
	tls      *tls.Config
	stalled  bool // TLS handshakes are
	server   *http.Server
	incoming chan net.Conn
	ctx      context.Context // ends with the test
	cancel   context.CancelFunc
	work     sync.WaitGroup

	accepted atomic.Int64
	hanging  atomic.Int64

	mu        sync.Mutex
	host      string
	listener  net.Listener // nil: down
	open      map[*conn]struct{}
	captured  []*conn
	hook      func(n int, c net.Conn) bool
	skills    []*Skill
	scripts   map[target]*script
	runs      map[string]*run
	runsMade  int
	requests  []*Request
	counts    map[target]int
	calls     map[string]*tally
	forbidden []string
	closed    bool

	lean atomic.Bool
}

// target is a part of a skill.
type target struct {
	skill string
	part  Part
}

type script struct {
	choose func(n int) Action
	asked  int
}

// tally is what came of one call.
type tally struct{ posts, executions int }

// NewProvider starts a provider without TLS.
func NewProvider(tb testing.TB, skills ...Skill) *Provider {
	tb.Helper()
	p := newProvider(tb, "http")
	p.Publish(skills...)
	p.start()
	return p
}

// NewTLSProvider starts a provider with a certificate of that kind.
func NewTLSProvider(tb testing.TB, ca *CA, kind Certificate, skills ...Skill) *Provider {
	tb.Helper()
	p := newProvider(tb, "https")
	p.stalled = kind == StalledHandshake
	p.tls = ca.serverConfig(kind)
	p.Publish(skills...)
	p.start()
	return p
}

func newProvider(tb testing.TB, scheme string) *Provider {
	tb.Helper()
	p := &Provider{
		tb: tb, scheme: scheme, host: loopback, incoming: make(chan net.Conn),
		open: map[*conn]struct{}{}, scripts: map[target]*script{}, runs: map[string]*run{},
		counts: map[target]int{}, calls: map[string]*tally{},
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.server = &http.Server{ //nolint:gosec // clients that are slow are a test's business
		Handler:     http.HandlerFunc(p.serve),
		BaseContext: func(net.Listener) context.Context { return p.ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // connections break on purpose
	}
	return p
}

func (p *Provider) start() {
	p.tb.Helper()
	p.tb.Cleanup(p.close)
	p.work.Go(func() { _ = p.server.Serve((*inbox)(p)) }) // ends with the test
	p.Up()
}

func (p *Provider) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.Down()
	_ = p.server.Close() // what it can't close is closed below
	p.Disconnect()
	p.work.Wait()
}

// Up listens again after [Provider.Down], on the same port.
func (p *Provider) Up() {
	p.tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		return
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, p.port))
	if err != nil {
		p.tb.Fatalf("a provider can't listen: %v", err)
	}
	p.listener = listener
	_, p.port, _ = net.SplitHostPort(listener.Addr().String()) // it is one
	p.work.Go(func() { p.accept(listener) })
}

// Down stops listening, so that connections are refused. Those that exist stay:
// see [Provider.Disconnect].
func (p *Provider) Down() {
	p.mu.Lock()
	listener := p.listener
	p.listener = nil
	p.mu.Unlock()
	if listener != nil {
		_ = listener.Close() // nothing can be done about it
	}
}

// Disconnect closes all connections.
func (p *Provider) Disconnect() {
	p.mu.Lock()
	open := slices.Collect(maps.Keys(p.open))
	p.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // nothing can be done about it
	}
}

// OnConnection calls hook with each new connection and its number, before
// anything is read. It reports whether the connection is to be served; if not, it
// is closed.
func (p *Provider) OnConnection(hook func(n int, c net.Conn) (serve bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hook = hook
}

func (p *Provider) accept(listener net.Listener) {
	for {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		n := int(p.accepted.Add(1))
		p.work.Go(func() { p.greet(n, c) })
	}
}

// greet gives a connection to the server.
func (p *Provider) greet(n int, raw net.Conn) {
	c := &conn{Conn: raw, tcp: raw.(*net.TCPConn), provider: p}
	p.mu.Lock()
	hook := p.hook
	p.open[c] = struct{}{}
	if !p.lean.Load() {
		p.captured = append(p.captured, c)
	}
	p.mu.Unlock()
	if p.ctx.Err() != nil || (hook != nil && !hook(n, raw)) {
		_ = c.Close() // nothing can be done about it
		return
	}
	if p.stalled {
		_, _ = io.Copy(io.Discard, raw) // until the client goes or the test ends
		_ = c.Close()                   // nothing can be done about it
		return
	}
	if p.tls != nil {
		c.Conn = tls.Server(raw, p.tls)
	}
	select {
	case p.incoming <- c:
	case <-p.ctx.Done():
		_ = c.Close() // nothing can be done about it
	}
}

// inbox is the server's listener, which outlives the provider's own.
type inbox Provider

func (i *inbox) Accept() (net.Conn, error) {
	select {
	case c := <-i.incoming:
		return c, nil
	case <-i.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (*inbox) Close() error     { return nil }
func (i *inbox) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// connKey is the context key of a request's connection.
type connKey struct{}

// maxCaptured is how much of what a connection brought is kept.
const maxCaptured = 64 << 10

// conn is a connection that remembers what it brought, and counts what it took.
type conn struct {
	net.Conn // over TLS if there is TLS
	tcp      *net.TCPConn
	provider *Provider
	written  atomic.Int64
	last     *Request // used by one request at a time
	mu       sync.Mutex
	read     []byte
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if keep := min(n, maxCaptured-len(c.read)); keep > 0 && !c.provider.lean.Load() {
		c.read = append(c.read, b[:keep]...)
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.written.Add(int64(n))
	return n, err
}

// Close closes the connection at once. TLS is not told: it would wait for the
// peer to read.
func (c *conn) Close() error {
	c.forget()
	return c.tcp.Close()
}

// reset closes the connection with an RST.
func (c *conn) reset() {
	_ = c.tcp.SetLinger(0) // of an open connection
	_ = c.Close()          // nothing can be done about it
}

func (c *conn) forget() {
	c.provider.mu.Lock()
	defer c.provider.mu.Unlock()
	delete(c.provider.open, c)
}

// URL is the provider's origin, below which its documents are.
func (p *Provider) URL() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.scheme + "://" + net.JoinHostPort(p.host, p.port)
}

// As gives the provider another host than 127.0.0.1 in its own documents and in
// [Provider.URL].
func (p *Provider) As(host string) *Provider {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.host = host
	return p
}

// Port is the provider's.
func (p *Provider) Port() string { return p.port }

// URLOf is where a part of a skill is.
func (p *Provider) URLOf(id string, part Part) string {
	switch part {
	case Index:
		return p.URL() + indexPath
	case Token, Registry:
		return p.URL() + "/" + string(part)
	default:
		return p.URL() + at(part, id)
	}
}

// TokenURL is the provider's token endpoint.
func (p *Provider) TokenURL() string { return p.URLOf("", Token) }

// Publish adds skills, or replaces those of the same id.
func (p *Provider) Publish(skills ...Skill) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range skills {
		p.skills = append(slices.DeleteFunc(p.skills, func(old *Skill) bool { return old.ID == s.ID }), &s)
	}
}

// Withdraw takes a skill away.
func (p *Provider) Withdraw(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.skills = slices.DeleteFunc(p.skills, func(s *Skill) bool { return s.ID == id })
}

func (p *Provider) skill(id string) *Skill {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.IndexFunc(p.skills, func(s *Skill) bool { return s.ID == id }); i >= 0 {
		return p.skills[i]
	}
	return nil
}

// On sets what happens to the requests for a part of a skill, in order. The last
// action is repeated; without any, everything is as usual again.
func (p *Provider) On(id string, part Part, actions ...Action) {
	p.tb.Helper()
	if len(actions) == 0 {
		actions = []Action{Usual()}
	}
	p.Script(id, part, func(n int) Action { return actions[min(n, len(actions))-1] })
}

// Script chooses what happens to a request for a part of a skill by its number,
// which starts anew with 1. Choose may be called concurrently.
func (p *Provider) Script(id string, part Part, choose func(n int) Action) {
	p.tb.Helper()
	if ofSkill := part != Index && part != Token && part != Registry; ofSkill != (id != "") || ofSkill && p.skill(id) == nil {
		p.tb.Fatalf("there is no %s of the skill %q", part, id)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.scripts[target{id, part}] = &script{choose: choose}
}

// action counts a request and tells what happens to it.
func (p *Provider) action(t target) (Action, int) {
	p.mu.Lock()
	p.counts[t]++
	n := p.counts[t]
	s := p.scripts[t]
	if s != nil {
		s.asked++
		n = s.asked
	}
	p.mu.Unlock()
	if s == nil {
		return Usual(), n
	}
	return s.choose(n), n
}

// begin counts a request as work, unless the test has ended.
func (p *Provider) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.work.Add(1)
	}
	return !p.closed
}

// maxRead is the most that is read of a request's body.
const maxRead = 64 << 20

func (p *Provider) serve(w http.ResponseWriter, r *http.Request) {
	if !p.begin() {
		panic(http.ErrAbortHandler)
	}
	defer p.work.Done()
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRead))
	if err != nil {
		panic(http.ErrAbortHandler) // the client gave up
	}
	x := &Exchange{HTTP: r, provider: p}
	x.Request = p.record(r, body)
	x.Writer = &writer{ResponseWriter: w, exchange: x}
	defer x.finish()
	action, n := p.action(target{x.Request.Skill, x.Request.Part})
	x.Number = n
	action(x)
}

// A Request is what a provider received.
type Request struct {
	Part      Part   // empty: a path that is none of the provider's
	Skill     string // its id
	Execution string // the execution id, if the part is Status or Result
	Call      string // which call it belongs to, if the part is Invoke
	Method    string
	Target    string // path and query, as they were sent
	Host      string
	Header    http.Header
	Body      string
	At        time.Time
	Remote    string // the client's address
	Client    string // the name in the client's certificate; empty: it has shown none

	conn   *conn
	from   int64        // what the connection had written before
	to     atomic.Int64 // and until the next request; 0: there is none yet
	status atomic.Int64
}

// Sent is how many bytes of the answer the provider has been rid of until now.
// What the client has not read of them is in the buffers of the kernel, which
// [EndlessBody], [EndlessHeaders] and [Bomb] keep small on the provider's side.
func (r *Request) Sent() int64 {
	if to := r.to.Load(); to > 0 {
		return to - r.from
	}
	return r.conn.written.Load() - r.from
}

// Status is that of the answer, or 0 as long as there is none, or none that is HTTP.
func (r *Request) Status() int { return int(r.status.Load()) }

func (p *Provider) record(r *http.Request, body []byte) *Request {
	c := r.Context().Value(connKey{}).(*conn)
	q := &Request{
		Method: r.Method, Target: r.RequestURI, Host: r.Host, Header: r.Header.Clone(), Body: string(body),
		At: time.Now(), Remote: r.RemoteAddr, conn: c, from: c.written.Load(),
	}
	if secure, ok := c.Conn.(*tls.Conn); ok {
		for _, shown := range secure.ConnectionState().PeerCertificates {
			q.Client = shown.Subject.CommonName
		}
	}
	if c.last != nil {
		c.last.to.Store(q.from)
	}
	c.last = q
	q.Part, q.Skill, q.Execution = place(r.URL.EscapedPath())
	if q.Part == Invoke {
		q.Call = callOf(r.URL, body)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.lean.Load() {
		p.requests = append(p.requests, q)
	}
	if q.Part == Invoke {
		t := p.calls[q.Call]
		if t == nil {
			t = new(tally)
			p.calls[q.Call] = t
		}
		t.posts++
		t.executions++
	}
	for _, text := range p.forbidden {
		if where := q.find(text); where != "" {
			p.tb.Errorf("%s %s has %q in its %s", q.Method, q.Target, text, where)
		}
	}
	return q
}

// callOf is the id that a client gave a call, in its argument "call".
func callOf(u *url.URL, body []byte) string {
	var invocation struct {
		Inputs struct {
			Call string `json:"call"`
		} `json:"inputs"`
	}
	if json.Unmarshal(body, &invocation) == nil && invocation.Inputs.Call != "" {
		return invocation.Inputs.Call
	}
	return u.Query().Get("call")
}

// find tells where in a request a text is, also if it is encoded there.
func (r *Request) find(text string) (where string) {
	holds := func(s string) bool {
		if strings.Contains(s, text) {
			return true
		}
		plain, err := url.QueryUnescape(s)
		return err == nil && strings.Contains(plain, text)
	}
	user, password, _ := (&http.Request{Header: r.Header}).BasicAuth()
	switch {
	case holds(r.Target), holds(r.Host):
		return "URL"
	case holds(r.Body):
		return "body"
	case holds(user), holds(password):
		return "Authorization"
	}
	for name, values := range r.Header {
		if holds(name) || slices.ContainsFunc(values, holds) {
			return "header " + name
		}
	}
	return ""
}

// executes tells, of the status of an answer, whether it leaves open that the
// skill was executed.
func executes(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusGone, http.StatusUnprocessableEntity, http.StatusTooManyRequests:
		return false
	}
	return true
}

// answered notes the status of an answer.
func (p *Provider) answered(r *Request, status int) {
	r.status.Store(int64(status))
	if r.Part != Invoke || executes(status) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.calls[r.Call]; t != nil {
		t.executions--
	}
}

// Requests returns those for a part of a skill, in the order in which they came.
func (p *Provider) Requests(id string, part Part) []*Request {
	return slices.DeleteFunc(p.All(), func(r *Request) bool { return r.Skill != id || r.Part != part })
}

// All returns all requests, in the order in which they came.
func (p *Provider) All() []*Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

// Count is how many requests there were for a part of a skill.
func (p *Provider) Count(id string, part Part) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[target{id, part}]
}

// Connections is how many were accepted.
func (p *Provider) Connections() int { return int(p.accepted.Load()) }

// Open is how many connections are open.
func (p *Provider) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

// Hanging is how many requests are in [Hang], [HangMidBody] and their like now.
func (p *Provider) Hanging() int { return int(p.hanging.Load()) }

// Captured is what each connection brought, byte for byte and without TLS, up to
// 64 KiB.
func (p *Provider) Captured() []string {
	p.mu.Lock()
	conns := slices.Clone(p.captured)
	p.mu.Unlock()
	read := make([]string, 0, len(conns))
	for _, c := range conns {
		c.mu.Lock()
		read = append(read, string(c.read))
		c.mu.Unlock()
	}
	return read
}

// Posts is how many invocations of one call arrived.
func (p *Provider) Posts(call string) int { return p.tally(call).posts }

// Executions is how many times one call was executed, as far as the provider's
// answers leave that open: all that arrived, but those answered with 401, 403,
// 404, 405, 410, 422 or 429.
func (p *Provider) Executions(call string) int { return p.tally(call).executions }

func (p *Provider) tally(call string) tally {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.calls[call]; t != nil {
		return *t
	}
	return tally{}
}

// Duplicates returns the calls that were executed more than once, with how often.
// Invocations without an id of a call are not among them.
func (p *Provider) Duplicates() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := map[string]int{}
	for call, t := range p.calls {
		if call != "" && t.executions > 1 {
			found[call] = t.executions
		}
	}
	return found
}

// Forget drops what is known of a call and returns how many times it was executed.
func (p *Provider) Forget(call string) (executions int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.calls[call]; t != nil {
		executions = t.executions
	}
	delete(p.calls, call)
	return executions
}

// Lean keeps no requests from now on, nor runs that have ended, nor what
// connections brought: only numbers, so that a long test can measure memory.
func (p *Provider) Lean() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lean.Store(true)
	p.requests, p.captured = nil, nil
}

// MustNotReceive fails the test when a request has one of the texts in its URL,
// a header (credentials of basic authentication decoded) or its body, now or later.
func (p *Provider) MustNotReceive(texts ...string) {
	p.tb.Helper()
	p.mu.Lock()
	p.forbidden = append(p.forbidden, texts...)
	p.mu.Unlock()
	for _, text := range texts {
		for _, r := range p.Received(text) {
			p.tb.Errorf("%s %s has %q in its %s", r.Method, r.Target, text, r.find(text))
		}
	}
}

// Received returns the requests that have a text anywhere.
func (p *Provider) Received(text string) []*Request {
	return slices.DeleteFunc(p.All(), func(r *Request) bool { return r.find(text) == "" })
}

// run is an execution that was accepted.
type run struct {
	id, skill, call string
	running         int  // polls that still find it running
	failing         bool // how it ends
	viaResult       bool // its output is only at the result URL
}

func (p *Provider) newRun(x *Exchange, r run) *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runsMade++
	r.id, r.skill, r.call = "run-"+strconv.Itoa(p.runsMade), x.Request.Skill, x.Request.Call
	p.runs[r.id] = &r
	return &r
}

// poll returns the state of a run after one more poll.
func (p *Provider) poll(id string) (run, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.runs[id]
	if r == nil {
		return run{}, ""
	}
	if r.running > 0 {
		r.running--
		return *r, "running"
	}
	if p.lean.Load() && !r.viaResult {
		delete(p.runs, id)
	}
	if r.failing {
		return *r, "failed"
	}
	return *r, "completed"
}

// ended returns a run that was accepted.
func (p *Provider) ended(id string) (run, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.runs[id]
	if r == nil {
		return run{}, false
	}
	if p.lean.Load() {
		delete(p.runs, id)
	}
	return *r, true
}

// Runs is how many were accepted.
func (p *Provider) Runs() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runsMade
}

// Accepted returns the ids of the runs that were accepted for a call.
func (p *Provider) Accepted(call string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ids []string
	for id, r := range p.runs {
		if r.call == call {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
