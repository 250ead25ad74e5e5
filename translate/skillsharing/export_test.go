package skillsharing

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Judge is the judgement on an answer of which only the parts are at hand.
func Judge(status int, header http.Header, body string, phase run.Phase, knownID string) (*Response, *run.Failure) {
	return new(Client).judge(&answer{status: status, header: header, body: []byte(body)}, asked{phase: phase, executionID: knownID})
}

// ScrubOutput is an output without a secret.
func ScrubOutput(output jsontext.Value, secret string) jsontext.Value {
	return (&Client{Credentials: onlySecret(secret)}).scrubOutput(output)
}

// onlySecret are credentials that do nothing.
type onlySecret string

func (onlySecret) Suits(*Auth) bool { return false }

func (onlySecret) Authenticate(context.Context, *Authentication) error { return nil }

func (s onlySecret) Secrets() []string { return []string{string(s)} }

// ExpandURL puts an execution id into a template.
func ExpandURL(template, executionID string) (*url.URL, error) {
	return expandURL(template, executionID)
}

// FailHost counts a failure of a URL's host.
func FailHost(b *Breakers, text string) {
	u, err := url.Parse(text)
	if err != nil {
		panic(err)
	}
	p, _ := b.enter("test", "", u, run.PhaseInvoke)
	p.fail("test")
}

// HostsInTrouble is how many hosts have a breaker.
func HostsInTrouble(b *Breakers) int { return len(b.breakers) }

// Repeating is how many of some calls at a time may repeat their invocation.
func Repeating(b *RetryBudget, calls int) (n int) {
	all := make([]spending, calls)
	for i := range all {
		b.begin(&all[i])
	}
	for i := range all {
		if all[i].mayRepeat() {
			n++
		}
	}
	for i := range all {
		all[i].end()
	}
	return n
}

// RepeatingBeside is how many of some calls at a time may repeat their invocation while
// others are repeated by the transport.
func RepeatingBeside(b *RetryBudget, calls, others int) int {
	all := make([]spending, others)
	for i := range all {
		b.begin(&all[i])
		defer all[i].end()
		o := outgoing{call: &all[i]}
		for range 3 {
			o.noteHeaders()
		}
	}
	return Repeating(b, calls)
}

// Followers is how many runs are being followed.
func (c *Client) Followers() int {
	c.followers.mu.Lock()
	defer c.followers.mu.Unlock()
	return len(c.followers.runs)
}

// Misses counts what fails at hosts that are not the source's own.
type Misses struct{ misses }

// NewMisses returns misses of which so many a minute are accepted, and so many at once of
// URLs that have not failed.
func NewMisses(perMinute, untried int) *Misses {
	return &Misses{misses{perMinute: perMinute, untried: untried}}
}

// Begin counts a request that begins, unless it may not: then it says for how long. End
// is to be called when it has landed.
func (m *Misses) Begin(host, publisher, url string, kept bool) (end func(well bool), pause time.Duration) {
	r, pause := m.begin(authority{host, "443"}, publisher, url, kept)
	return func(well bool) {
		how := landedBadly
		if well {
			how = landedWell
		}
		m.end([]request{r}, 0, how)
	}, pause
}

// Hosts is how many are kept in mind.
func (m *Misses) Hosts() int { return len(m.hosts) }

// URLs is how many that have failed are kept in mind.
func (m *Misses) URLs() int { return m.urls }

// Publishers is how many are kept in mind, for each host.
func (m *Misses) Publishers() int { return m.publishers }

// CompileInputs is the function of that name, with limits.
func (l *Limits) CompileInputs(params []Parameter) (*Inputs, error) { return l.compileInputs(params) }

// CheckWith is Check with what the checks of a request have taken so far.
func (in *Inputs) CheckWith(ctx context.Context, args jsontext.Value, checks *Checks) *run.Failure {
	return in.check(ctx, asker{}, args, checks)
}

// NewSkill is the function of that name, with limits.
func (l *Limits) NewSkill(document []byte, source *url.URL) (*Skill, error) {
	return l.newSkill(document, source)
}

// Bytes is what the compiled schemas take.
func (p *Schemas) Bytes() int { return p.bytes }

// takeAll takes all turns, until release is called.
func (t *turns) takeAll() (release func()) {
	for i := range t.atOnce {
		t.take(context.Background(), strconv.Itoa(i), asker{})
	}
	return func() {
		for i := range t.atOnce {
			t.end(strconv.Itoa(i))
		}
	}
}

// TakeDescriptorTurns has no descriptor judged, until release is called.
func TakeDescriptorTurns() (release func()) { return descriptorTurns.takeAll() }

// CheckWhileBusy checks arguments for a call that has been cancelled, while all processors for
// checks that take long are taken: only a check that does not wait for one finds a fault.
func CheckWhileBusy(in *Inputs, args jsontext.Value, checks *Checks) *run.Failure {
	defer checkTurns.takeAll()()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return in.check(ctx, asker{}, args, checks)
}

// CheckUntil checks arguments while all processors for checks that take long are taken.
func CheckUntil(deadline time.Time, in *Inputs, args jsontext.Value) *run.Failure {
	defer checkTurns.takeAll()()
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	return in.check(ctx, asker{}, args, new(Checks))
}
