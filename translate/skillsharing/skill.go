package skillsharing

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

	"github.com/skill-bridge/caddy-skill-bridge/translate/rawobject"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Skill is a valid descriptor, made ready to be used many times.
type Skill struct {
	*Descriptor
	// Document is the descriptor as published.
	Document jsontext.Value

	url      *url.URL   // scheme, host and port are those that the descriptor came from, after redirects
	way      []*url.URL // what redirected there, from elsewhere: it chose which document there is the descriptor
	endpoint *url.URL
	urls     []*url.URL // of the endpoint, and of status and result if these are elsewhere
	inputs   *Inputs
	// polled is who is asked about runs, with the port: the host of the status URL or else of the result URL, spelled in
	// the same way wherever it is named. If the descriptor comes from elsewhere, that is named before it: whoever
	// publishes skills that ask another's host takes nothing of what that host's own may ask. Empty: runs can't be followed.
	polled string

	headerWithBody http.Header // of requests with a body, but for a credential; not to be changed

	verdicts verdicts
}

// What all requests have in common, and those with JSON in their bodies, but for a
// credential; not to be changed.
var (
	sharedHeader         = http.Header{"Accept": {"application/json"}, "Accept-Encoding": {coding}, "User-Agent": {userAgent}}
	sharedHeaderWithJSON = withContentType("application/json")
)

func withContentType(mediaType string) http.Header {
	header := sharedHeader.Clone()
	header["Content-Type"] = []string{mediaType}
	return header
}

// NewSkill validates a descriptor that was read from source; nil: it is only to be
// validated. The error is a [*run.Failure].
func NewSkill(document []byte, source *url.URL) (*Skill, error) {
	return standard.newSkill(document, source)
}

// newSkill is NewSkill for a descriptor that way led to by redirects.
func (l *Limits) newSkill(document []byte, source *url.URL, way ...*url.URL) (*Skill, error) {
	d, inputs, err := l.readDescriptor(document)
	if err != nil {
		return nil, err
	}
	s := &Skill{Descriptor: d, Document: bytes.Clone(document), url: source, inputs: inputs}
	if s.endpoint, err = parseEndpointURL(d.Endpoint.URL); err != nil {
		return nil, invalidURL("/endpoint/url", err)
	}
	if source == nil || source.Scheme == s.endpoint.Scheme && source.Host == s.endpoint.Host {
		s.url = s.endpoint // nothing else of it counts, and there may be many skills
	}
	for _, u := range way {
		if !sameAuthority(u, source) {
			s.way = append(s.way, u)
		}
	}
	s.headerWithBody = sharedHeaderWithJSON
	if t := d.Endpoint.ContentType; t != "" && t != "application/json" {
		s.headerWithBody = withContentType(t)
	}
	s.urls = []*url.URL{s.endpoint}
	for _, t := range []struct{ pointer, template string }{
		{"/endpoint/status_url", d.Endpoint.StatusURL}, {"/endpoint/result_url", d.Endpoint.ResultURL},
	} {
		if t.template == "" {
			continue
		}
		u, err := templateURL(t.template)
		if err != nil {
			return nil, invalidURL(t.pointer, err)
		}
		if s.polled == "" {
			s.polled = hostOf(u)
			if from := hostOf(s.url); from != s.polled {
				s.polled = from + " " + s.polled
			}
		}
		if u.Scheme != s.endpoint.Scheme || u.Host != s.endpoint.Host {
			s.urls = append(s.urls, u)
		}
	}
	return s, nil
}

// hostOf is the canonical host and port of a URL.
func hostOf(u *url.URL) string {
	host, err := authorityOf(u)
	if err != nil {
		return u.Host // which can hardly be reached
	}
	if canonical := host.String(); canonical != u.Host {
		return canonical
	}
	return u.Host // one copy is enough: there may be many skills
}

func invalidURL(pointer string, err error) *run.Failure {
	return InvalidDescriptor("The descriptor has an unusable URL.", run.Violation{Path: pointer, Message: err.Error()})
}

// InvalidDescriptor is the failure of an invalid descriptor (section 8.3.1).
func InvalidDescriptor(message string, violations ...run.Violation) *run.Failure {
	return &run.Failure{
		Kind: run.InvalidDocument, Message: message, Phase: run.PhaseDescriptor, By: run.Bridge,
		Executed: run.ExecutedNo, Violations: violations,
	}
}

// CheckInputs judges arguments by the descriptor's input definitions. It returns
// nil if they fit, or if the context ends before there was time to judge. Their members
// may be given, if they are at hand. What it takes counts among checks; nil: alone.
// Checks that take long have turns: those of a source for one skill and principal after another.
func (s *Skill) CheckInputs(ctx context.Context, principal string, args jsontext.Value, members []rawobject.Member, checks *Checks) *run.Failure {
	if checks == nil {
		checks = new(Checks)
	}
	var e *run.Failure
	if members != nil {
		e = s.inputs.checkMembers(ctx, asker{principal, s.ID}, members, checks)
	} else {
		e = s.inputs.check(ctx, asker{principal, s.ID}, args, checks)
	}
	if e != nil {
		e.SkillID = s.ID
	}
	return e
}

// Hosts reports whether a may receive secrets for both the descriptor and the
// endpoint of the skill.
func (s *Skill) Hosts(a *Audience) bool { return s.stranger(a) == nil && a.Includes(s.endpoint) }

// stranger is what decided about the descriptor, though a may receive no secrets there: where
// it came from, or what redirected there. It is nil if there is none.
func (s *Skill) stranger(a *Audience) *url.URL {
	if !a.Includes(s.url) {
		return s.url
	}
	for _, u := range s.way {
		if !a.Includes(u) {
			return u
		}
	}
	return nil
}

// needsCredential reports whether requests to the skill carry a credential.
func (s *Skill) needsCredential() bool { return s.Auth.Type != AuthNone }

// Followable reports whether an accepted run can be followed.
func (s *Skill) Followable() bool { return s.Endpoint.StatusURL != "" || s.Endpoint.ResultURL != "" }

// sendsBody reports whether the invocation carries an InvocationRequest. GET and
// DELETE give a body no meaning (RFC 9110, section 9.3): they carry the inputs
// in the query.
func (s *Skill) sendsBody() bool {
	return !slices.Contains([]string{"GET", "DELETE"}, s.Endpoint.Method)
}

// Timeout is the one that the descriptor states, 0 if it states none.
func (s *Skill) Timeout() time.Duration { return milliseconds(s.Endpoint.TimeoutMS) }

// loggedURL is the URL that a phase is about, the same for all runs and without
// its query; empty if that is none of the skill's.
func (s *Skill) loggedURL(phase run.Phase) string {
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
