package hostile

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// A Part is a kind of URL of a provider.
type Part string

// The parts of a provider. Index, Registry and Token belong to no skill; their skill id is empty.
const (
	Index      Part = "index"
	Descriptor Part = "descriptors"
	Invoke     Part = "run"
	Status     Part = "status"
	Result     Part = "result"
	Token      Part = "token"
	Registry   Part = "registry" // has the skills of the index; its URL is the base of GET <url>/skills
)

const (
	indexPath = "/.well-known/skill-sharing" // Skill Sharing Protocol, section 4.3
	loopback  = "127.0.0.1"
)

// A Provider publishes skills on a loopback port with the Skill Sharing Protocol, and misbehaves as
// a test configures it.
type Provider struct {
	*listener
	*journal
	*runs
	tb      testing.TB
	scheme  string
	work    sync.WaitGroup
	hanging atomic.Int64

	mu      sync.Mutex
	host    string
	skills  []*Skill
	scripts map[target]*script
	closed  bool
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

// NewProvider starts a provider without TLS.
func NewProvider(tb testing.TB, skills ...Skill) *Provider {
	tb.Helper()
	return newProvider(tb, "http", new(listener), skills)
}

// NewTLSProvider starts a provider with a certificate of that kind.
func NewTLSProvider(tb testing.TB, ca *CA, kind Certificate, skills ...Skill) *Provider {
	tb.Helper()
	return newProvider(tb, "https", &listener{tls: ca.serverConfig(kind), stalled: kind == StalledHandshake}, skills)
}

func newProvider(tb testing.TB, scheme string, l *listener, skills []Skill) *Provider {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &Provider{
		listener: l, journal: newJournal(tb), runs: newRuns(),
		tb: tb, scheme: scheme, host: loopback, scripts: map[target]*script{},
	}
	server := &http.Server{ //nolint:gosec // tests may use slow clients
		Handler:     http.HandlerFunc(p.serve),
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // connections break on purpose
	}
	l.tb, l.server, l.open = tb, server, map[*conn]struct{}{}
	p.Publish(skills...)
	tb.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		cancel()
		p.Down()
		_ = server.Close() // Disconnect closes hijacked connections
		p.Disconnect()
		p.work.Wait()
	})
	p.Up()
	return p
}

// URL returns the provider's origin.
func (p *Provider) URL() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.scheme + "://" + net.JoinHostPort(p.host, p.Port())
}

// As sets the host in the provider's documents and in [Provider.URL]. The default is 127.0.0.1.
func (p *Provider) As(host string) *Provider {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.host = host
	return p
}

// URLOf returns the URL of a part of a skill.
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

// TokenURL returns the URL of the provider's token endpoint.
func (p *Provider) TokenURL() string { return p.URLOf("", Token) }

// Publish adds skills, or replaces skills with the same ids.
func (p *Provider) Publish(skills ...Skill) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range skills {
		p.skills = append(slices.DeleteFunc(p.skills, func(old *Skill) bool { return old.ID == s.ID }), &s)
	}
}

// Withdraw removes a skill.
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

func (p *Provider) index() Object {
	base := p.URL()
	p.mu.Lock()
	defer p.mu.Unlock()
	entries := []Object{}
	for _, s := range p.skills {
		if !s.Unlisted {
			entries = append(entries, s.entry(base))
		}
	}
	return Object{"protocol": Object{"version": "1.0.0"}, "provider": Object{"name": "Test"}, "skills": entries}
}

// On sets the actions for the requests for a part of a skill, in order. The last action is repeated.
// Without actions, [Usual] answers again.
func (p *Provider) On(id string, part Part, actions ...Action) {
	p.tb.Helper()
	if len(actions) == 0 {
		actions = []Action{Usual()}
	}
	p.Script(id, part, func(n int) Action { return actions[min(n, len(actions))-1] })
}

// Script chooses the action of a request for a part of a skill by the number of the request since
// this call, from 1. Choose may be called concurrently.
func (p *Provider) Script(id string, part Part, choose func(n int) Action) {
	p.tb.Helper()
	if ofSkill := part != Index && part != Token && part != Registry; ofSkill != (id != "") || ofSkill && p.skill(id) == nil {
		p.tb.Fatalf("there is no %s of the skill %q", part, id)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.scripts[target{id, part}] = &script{choose: choose}
}

// action returns the action of the nth request for a target, and the number of the request for that
// action.
func (p *Provider) action(t target, n int) (Action, int) {
	p.mu.Lock()
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

// Hanging returns the number of requests that are in [Hang], [HangMidBody] and similar actions.
func (p *Provider) Hanging() int { return int(p.hanging.Load()) }

// Lean stops recording requests, ended runs and received bytes, so that a long test can measure
// memory. Requests are still counted.
func (p *Provider) Lean() {
	p.listener.lean()
	p.journal.lean()
	p.runs.lean()
}

// begin registers a request with work. It reports false if the test has ended.
func (p *Provider) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.work.Add(1)
	}
	return !p.closed
}

// maxRead is the maximum number of bytes that are read of a request's body.
const maxRead = 64 << 20

func (p *Provider) serve(w http.ResponseWriter, r *http.Request) {
	if !p.begin() {
		panic(http.ErrAbortHandler)
	}
	defer p.work.Done()
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRead))
	if err != nil {
		panic(http.ErrAbortHandler) // the client has disconnected
	}
	request, n := p.record(newRequest(r, body))
	x := &Exchange{HTTP: r, Request: request, provider: p}
	x.Writer = &writer{ResponseWriter: w, exchange: x}
	defer x.finish()
	var action Action
	action, x.Number = p.action(target{request.Skill, request.Part}, n)
	action(x)
}
