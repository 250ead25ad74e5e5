package discovery

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema/modern"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/skillsite"
)

// Skill is a valid descriptor with the values that are computed from it once.
type Skill struct {
	*document.Descriptor
	// Document is the descriptor as published.
	Document jsontext.Value
	// Files are those of a skill that a site publishes, which is read and can't be executed; nil: it is another skill.
	Files *skillsite.Files

	URL       *url.URL   // scheme, host and port are those that the descriptor came from, after redirects
	Way       []*url.URL // URLs on other hosts that redirected to the descriptor, and so chose the document
	InvokeURL *url.URL
	URLs      []*url.URL // the endpoint, and the status and result URLs if they are on other hosts
	inputs    *inputs.Inputs
	output    func() *inputs.Inputs // has the output as its only input
	// Polled is the key of the skill's polling budget: the canonical host and port of the status URL or, if there is
	// none, of the result URL. If the descriptor comes from another host, the key begins with that host, so that such
	// skills have a separate budget. Empty: runs can't be followed.
	Polled string

	// HeaderWithBody is the header of requests with a body, without a credential. It must not be changed, and is nil if no request can have
	// the type of body that the endpoint takes.
	HeaderWithBody http.Header

	Held *Held // nil: it is the newest descriptor

	usage
}

// sharedHeaderWithJSON is the header of requests with JSON in their bodies, without a credential; not to be changed.
var sharedHeaderWithJSON = withContentType("application/json")

func withContentType(mediaType string) http.Header {
	header := exchange.SharedHeader.Clone()
	header["Content-Type"] = []string{mediaType}
	return header
}

// NewSkill validates a descriptor that was read from source. source may be nil if the skill will
// not be invoked. The error is a [*run.Failure].
func NewSkill(text []byte, source *url.URL) (*Skill, error) {
	return newSkill(&document.Standard, text, source)
}

// newSkill is NewSkill for a descriptor to which the URLs in way redirected.
func newSkill(l *document.Limits, text []byte, source *url.URL, way ...*url.URL) (*Skill, error) {
	var checked *inputs.Inputs
	d, err := l.ReadDescriptor(text, func(params []document.Parameter, schemas []any) (flaws jsonvalue.Violations) {
		checked, flaws = inputs.New(l, params, schemas)
		return flaws
	})
	if err != nil {
		return nil, err
	}
	s := &Skill{Descriptor: d, Document: bytes.Clone(text), URL: source, inputs: checked}
	d.Output.Schema = modern.Text(d.Output.Schema)
	s.output = newOutput(l, d.Output.Schema)
	if s.InvokeURL, err = document.ParseEndpointURL(d.Endpoint.URL); err != nil {
		return nil, invalidURL("/endpoint/url", err)
	}
	if source == nil || SameOrigin(source, s.InvokeURL) {
		s.URL = s.InvokeURL // only these parts are used; one copy saves memory
	}
	for _, u := range way {
		if !sameAuthority(u, source) {
			s.Way = append(s.Way, u)
		}
	}
	switch t := d.Endpoint.ContentType; {
	case t == "" || t == "application/json":
		s.HeaderWithBody = sharedHeaderWithJSON
	case d.Endpoint.TakesJSON():
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
		if !SameOrigin(u, s.InvokeURL) {
			s.URLs = append(s.URLs, u)
		}
	}
	return s, nil
}

// SameOrigin reports whether two URLs have the same scheme, host and port, as they are written.
func SameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }

// hostOf returns the canonical host and port of a URL.
func hostOf(u *url.URL) string {
	host, err := credential.AuthorityOf(u)
	if err != nil {
		return u.Host // no request to it is possible
	}
	if canonical := host.String(); canonical != u.Host {
		return canonical
	}
	return u.Host // the same text, without a copy
}

func invalidURL(pointer string, err error) *run.Failure {
	return document.Unusable(run.PhaseDescriptor, "The descriptor has an unusable URL.", run.Violation{Path: pointer, Message: err.Error()})
}

// CheckInputs checks arguments by the descriptor's input definitions. It returns nil if they are valid,
// or if the context ends before they were checked. checks counts the work of all checks for one
// request; nil: this is the only check. Long checks wait for turns, which the skills and principals of
// a source get in rotation.
func (s *Skill) CheckInputs(ctx context.Context, principal string, arguments jsonrpc.Object, checks *inputs.Checks) *run.Failure {
	return s.inputs.Check(ctx, share.Line{Principal: principal, SkillID: s.ID}, arguments, checks)
}

// RestoredInputs returns arguments with the inputs' own names instead of those that the JSON Schema for models has.
func (s *Skill) RestoredInputs(arguments jsonrpc.Object) (jsonrpc.Object, *run.Failure) {
	return s.inputs.Restored(arguments)
}

// UnknownInputs returns the names of arguments that the descriptor does not define, at most most. It returns none of arguments
// whose Members are not known.
func (s *Skill) UnknownInputs(arguments jsonrpc.Object, most int) []string {
	return s.inputs.Unknown(arguments.Members, most)
}

// CheckGiven is [Skill.CheckInputs] without the failure of a required input that is missing. The names of those are missing,
// in the order of the descriptor.
func (s *Skill) CheckGiven(ctx context.Context, principal string, arguments jsonrpc.Object, checks *inputs.Checks) (missing []string, invalid *run.Failure) {
	return s.inputs.CheckGiven(ctx, share.Line{Principal: principal, SkillID: s.ID}, arguments, checks)
}

// Hosts reports whether a includes the hosts of the descriptor and its redirects, and of the endpoint.
func (s *Skill) Hosts(a *credential.AllowedHosts) bool {
	return s.Stranger(a) == nil && a.Includes(s.InvokeURL)
}

// Stranger returns the URL of the descriptor, or of a redirect to it, that a does not
// include; nil: there is none.
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

// SendsBody reports whether the body of the invocation is an InvocationRequest. In GET and DELETE, a body
// has no meaning (RFC 9110, section 9.3): the inputs are in the query.
func (s *Skill) SendsBody() bool {
	return !slices.Contains([]string{"GET", "DELETE"}, s.Endpoint.Method)
}

// Unsupported returns the failure of calls of a skill that follows the protocol, but takes bodies that are not JSON; nil: the bridge can
// send them, or sends none.
func (s *Skill) Unsupported() *run.Failure {
	if s.HeaderWithBody != nil || s.Files != nil || !s.SendsBody() {
		return nil
	}
	contentType := s.Endpoint.ContentType
	message := fmt.Sprintf("The skill takes requests of the type %s, and bridges send only JSON.", safetext.Line(contentType, maxShownType))
	f := run.NotExecuted(run.NotSupported, run.PhaseDescriptor, message)
	f.SkillID, f.Violations = s.ID, []run.Violation{{
		Path: "/endpoint/content_type", Message: "is not a JSON media type, and bridges send only JSON",
		Expected: jsonvalue.Quoted("application/json"), Actual: jsonvalue.Shown(contentType),
	}}
	return f
}

// maxShownType bounds a media type in a message, in characters.
const maxShownType = 100

// Timeout returns the timeout in the descriptor, or 0 if there is none.
func (s *Skill) Timeout() time.Duration { return document.Milliseconds(s.Endpoint.TimeoutMS) }

// LoggedURL returns the URL of a phase for logs: the same for all runs, and without
// a query; empty: the skill has no URL for the phase.
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

// outputName is the name under which an output is checked.
const outputName = "output"

// newOutput returns the compiled schema of an output when it is needed first; nil: there is none, or none that the bridge can apply. An invalid one does
// not make the descriptor invalid (section 5.6), since outputs are the provider's own.
func newOutput(l *document.Limits, text jsontext.Value) func() *inputs.Inputs {
	if text.Kind() != '{' {
		return func() *inputs.Inputs { return nil }
	}
	return sync.OnceValue(func() *inputs.Inputs {
		value, flaw := jsonvalue.Read(text, schema.ArgumentBounds)
		if flaw != nil {
			return nil
		}
		checked, flaws := inputs.New(l, []document.Parameter{{Name: outputName, Schema: text}}, []any{value})
		if len(flaws) > 0 {
			return nil
		}
		return checked
	})
}

// OutputSchema returns the JSON Schema of the output; nil: the descriptor has none that the bridge can apply. s may be nil.
func (s *Skill) OutputSchema() jsontext.Value {
	if s == nil || s.output() == nil {
		return nil
	}
	return s.Output.Schema
}

// CheckOutput checks an output by the schema of the descriptor. It returns nil if the output is valid, or if there is no schema. checks
// counts the work, as in [Skill.CheckInputs].
func (s *Skill) CheckOutput(ctx context.Context, principal string, output jsontext.Value, checks *inputs.Checks) *run.Failure {
	of := s.output()
	if of == nil {
		return nil
	}
	only := jsonrpc.Object{Members: []jsonrpc.Member{{Name: jsontext.Value(`"` + outputName + `"`), Value: output}}}
	fault := of.Check(ctx, share.Line{Principal: principal, SkillID: s.ID}, only, checks)
	if fault != nil { // it calls the output an argument
		problem := strings.TrimPrefix(fault.Message, `argument "`+outputName+`"`)
		fault.Message = "the output" + strings.Replace(problem, ": /"+outputName+"/", ": /", 1)
	}
	return fault
}
