package discovery

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/turns"
)

// Skill is a valid descriptor, made ready to be used many times.
type Skill struct {
	*document.Descriptor
	// Document is the descriptor as published.
	Document jsontext.Value

	URL       *url.URL   // scheme, host and port are those that the descriptor came from, after redirects
	Way       []*url.URL // what redirected there, from elsewhere: it chose which document there is the descriptor
	InvokeURL *url.URL
	URLs      []*url.URL // of the endpoint, and of status and result if these are elsewhere
	inputs    *inputs.Inputs
	// Polled is the host that is asked about runs, with the port: the host of the status URL or else of the result URL, spelled in
	// the same way wherever it is named. If the descriptor comes from another host, its name
	// stands before it, so that such skills have a polling budget of their own. Empty: runs can't be followed.
	Polled string

	HeaderWithBody http.Header // of requests with a body, without a credential; not to be changed

	verdicts verdicts
}

// sharedHeaderWithJSON is the header of requests with JSON in their bodies, without a credential; not to be changed.
var sharedHeaderWithJSON = withContentType("application/json")

func withContentType(mediaType string) http.Header {
	header := exchange.SharedHeader.Clone()
	header["Content-Type"] = []string{mediaType}
	return header
}

// NewSkill validates a descriptor that was read from source; nil: it is only to be
// validated. The error is a [*run.Failure].
func NewSkill(text []byte, source *url.URL) (*Skill, error) {
	return newSkill(&document.Standard, text, source)
}

// newSkill is NewSkill for a descriptor that way led to by redirects.
func newSkill(l *document.Limits, text []byte, source *url.URL, way ...*url.URL) (*Skill, error) {
	var checked *inputs.Inputs
	d, err := l.ReadDescriptor(text, func(params []document.Parameter, schemas []any) (flaws jsonvalue.Violations) {
		checked, flaws = inputs.New(l, params, func(i int) (any, *run.Violation) { return schemas[i], nil })
		return flaws
	})
	if err != nil {
		return nil, err
	}
	s := &Skill{Descriptor: d, Document: bytes.Clone(text), URL: source, inputs: checked}
	if s.InvokeURL, err = document.ParseEndpointURL(d.Endpoint.URL); err != nil {
		return nil, invalidURL("/endpoint/url", err)
	}
	if source == nil || source.Scheme == s.InvokeURL.Scheme && source.Host == s.InvokeURL.Host {
		s.URL = s.InvokeURL // nothing else of it counts, and there may be many skills
	}
	for _, u := range way {
		if !sameAuthority(u, source) {
			s.Way = append(s.Way, u)
		}
	}
	s.HeaderWithBody = sharedHeaderWithJSON
	if t := d.Endpoint.ContentType; t != "" && t != "application/json" {
		s.HeaderWithBody = withContentType(t)
	}
	s.URLs = []*url.URL{s.InvokeURL}
	for _, t := range []struct{ pointer, template string }{
		{"/endpoint/status_url", d.Endpoint.StatusURL}, {"/endpoint/result_url", d.Endpoint.ResultURL},
	} {
		if t.template == "" {
			continue
		}
		u, err := document.TemplateURL(t.template)
		if err != nil {
			return nil, invalidURL(t.pointer, err)
		}
		if s.Polled == "" {
			s.Polled = hostOf(u)
			if from := hostOf(s.URL); from != s.Polled {
				s.Polled = from + " " + s.Polled
			}
		}
		if u.Scheme != s.InvokeURL.Scheme || u.Host != s.InvokeURL.Host {
			s.URLs = append(s.URLs, u)
		}
	}
	return s, nil
}

// hostOf is the canonical host and port of a URL.
func hostOf(u *url.URL) string {
	host, err := credential.AuthorityOf(u)
	if err != nil {
		return u.Host // no request can reach it
	}
	if canonical := host.String(); canonical != u.Host {
		return canonical
	}
	return u.Host // one copy is enough: there may be many skills
}

func invalidURL(pointer string, err error) *run.Failure {
	return document.InvalidDescriptor("The descriptor has an unusable URL.", run.Violation{Path: pointer, Message: err.Error()})
}

// CheckInputs judges arguments by the descriptor's input definitions. It returns
// nil if they fit, or if the context ends before there was time to judge. Arguments may come
// as a text or as members. The work counts in checks, which a request shares; nil: it has none.
// Checks that take long wait for turns, which a source's skills and principals get one after another.
func (s *Skill) CheckInputs(ctx context.Context, principal string, args jsonrpc.Object, checks *inputs.Checks) *run.Failure {
	if checks == nil {
		checks = new(inputs.Checks)
	}
	var e *run.Failure
	if args.Members != nil {
		e = s.inputs.CheckMembers(ctx, turns.Line{Principal: principal, SkillID: s.ID}, args.Members, checks)
	} else {
		e = s.inputs.Check(ctx, turns.Line{Principal: principal, SkillID: s.ID}, args.Text, checks)
	}
	if e != nil {
		e.SkillID = s.ID
	}
	return e
}

// Hosts reports whether a may receive secrets for both the descriptor and the
// endpoint of the skill.
func (s *Skill) Hosts(a *credential.AllowedHosts) bool {
	return s.Stranger(a) == nil && a.Includes(s.InvokeURL)
}

// Stranger is a URL outside of a that decided about the descriptor: where
// it came from, or what redirected there; nil: there is none.
func (s *Skill) Stranger(a *credential.AllowedHosts) *url.URL {
	if !a.Includes(s.URL) {
		return s.URL
	}
	for _, u := range s.Way {
		if !a.Includes(u) {
			return u
		}
	}
	return nil
}

// NeedsCredential reports whether requests to the skill carry a credential.
func (s *Skill) NeedsCredential() bool { return s.Auth.Type != document.AuthNone }

// Followable reports whether an accepted run can be followed.
func (s *Skill) Followable() bool { return s.Endpoint.StatusURL != "" || s.Endpoint.ResultURL != "" }

// SendsBody reports whether the invocation carries an InvocationRequest. GET and
// DELETE give a body no meaning (RFC 9110, section 9.3): they carry the inputs
// in the query.
func (s *Skill) SendsBody() bool {
	return !slices.Contains([]string{"GET", "DELETE"}, s.Endpoint.Method)
}

// Timeout is the timeout in the descriptor, 0 if there is none.
func (s *Skill) Timeout() time.Duration { return document.Milliseconds(s.Endpoint.TimeoutMS) }

// LoggedURL is the URL of a phase as logs show it, the same for all runs and without
// a query; empty if the phase has none of the skill's.
func (s *Skill) LoggedURL(phase run.Phase) string {
	template := ""
	switch phase {
	case run.PhaseInvoke:
		template = s.Endpoint.URL
	case run.PhasePoll:
		template = cmp.Or(s.Endpoint.StatusURL, s.Endpoint.ResultURL)
	case run.PhaseResult:
		template = s.Endpoint.ResultURL
	}
	bare, _, _ := strings.Cut(template, "?")
	return bare
}
