package skillsharing

import (
	"cmp"
	"context"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Caller identifies who invokes skills (section 5.3). It never contains credentials.
type Caller struct {
	ID   string // unique identifier
	Type string // for example "service"
}

// Priority is the execution priority of an invocation (section 5.3).
type Priority = string

// The priorities of the protocol.
const (
	PriorityLow    Priority = "low"
	PriorityNormal Priority = "normal"
	PriorityHigh   Priority = "high"
)

// Priorities are all priorities, the lowest first.
var Priorities = []Priority{PriorityLow, PriorityNormal, PriorityHigh}

// Invocation is one call of a skill (section 5.3).
type Invocation struct {
	// Inputs is a JSON object, which is sent unchanged; nil: an empty object.
	Inputs jsontext.Value
	// Caller is who the provider is told is calling; zero: the client's.
	Caller Caller
	// Priority is sent as context.priority; empty: normal.
	Priority Priority
	// TraceID is sent as context.trace_id.
	TraceID string
	// Timeout is sent as context.timeout_ms; 0: none is sent. It sets no deadline: that is the context's.
	Timeout time.Duration
	// TraceParent is the traceparent header of the invocation (W3C Trace Context, section 3.2); empty: it has none.
	TraceParent string
}

// skillRequest makes an authenticated request to one of a skill's URLs.
func (c *Client) skillRequest(ctx context.Context, s *discovery.Skill, phase run.Phase, method string, u *url.URL, body []byte, traceParent string) (*exchange.Request, *run.Failure) {
	header := exchange.SharedHeader
	if body != nil {
		header = s.HeaderWithBody
	}
	if s.NeedsCredential() || traceParent != "" { // fields will be added to the header
		header = maps.Clone(header) // the values are shared, and never changed in place
	}
	if traceParent != "" {
		header["Traceparent"] = []string{traceParent}
	}
	if e := c.judgeURL(ctx, s, u); e != nil {
		return nil, e
	}
	req := c.NewRequest(ctx, phase, method, u, c.identifiedTo(s), header, body)
	if !s.NeedsCredential() {
		return req, nil
	}
	return req, c.AuthError(ctx, &s.Auth, c.Credentials.Authenticate(ctx, c.Authentication(ctx, &s.Auth, &req.Request, body)))
}

// identifiedTo returns the hosts to which the client certificate may be shown in requests to the URLs in a descriptor; nil: none, also if the descriptor came
// from another host.
func (c *Client) identifiedTo(s *discovery.Skill) *credential.AllowedHosts {
	if c.Anonymous || s.Stranger(c.AllowedHosts) != nil {
		return nil
	}
	return c.AllowedHosts
}

// invocation returns the URL and the body of an invocation, and the memory of a long body, which has to be released. The body is an
// InvocationRequest. If the method has no body, the inputs are in the query.
func (c *Client) invocation(s *discovery.Skill, inv *Invocation) (*url.URL, []byte, *exchange.Memory, error) {
	inputs := inv.Inputs
	if inputs == nil {
		inputs = jsontext.Value("{}")
	}
	if !s.SendsBody() {
		u, err := withQuery(s.InvokeURL, inputs)
		return u, nil, nil, err
	}
	caller := cmp.Or(inv.Caller, c.Caller)
	size := len(inputs) + len(s.ID) + len(caller.ID) + 256
	var body []byte
	memory := exchange.BorrowMemory(size)
	if memory != nil {
		body = memory.Text
	} else {
		body = make([]byte, 0, size)
	}
	body = append(body, `{"caller":{"id":`...)
	body = appendString(body, caller.ID)
	body = append(body, `,"type":`...)
	body = appendString(body, caller.Type)
	body = append(body, `},"skill_id":`...)
	body = appendString(body, s.ID)
	body = append(body, `,"inputs":`...)
	body = append(body, inputs...)
	body = append(body, `,"context":{"trace_id":`...)
	body = appendString(body, inv.TraceID)
	body = append(body, `,"priority":`...)
	body = appendString(body, cmp.Or(inv.Priority, PriorityNormal))
	if inv.Timeout > 0 {
		body = append(body, `,"timeout_ms":`...)
		body = strconv.AppendInt(body, max(1, inv.Timeout.Milliseconds()), 10)
	}
	body = append(body, "}}"...)
	if memory != nil {
		memory.Text = body
	}
	return s.InvokeURL, body, memory, nil
}

// appendString appends a JSON string. It replaces invalid UTF-8.
func appendString(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // the only error is bad UTF-8, which is replaced
	return b
}

// withQuery adds inputs to the query of a URL: strings as they are, other values
// as compact JSON. It leaves out inputs whose names are already in the query: the
// provider has set these, and servers differ in which of two values they use.
func withQuery(u *url.URL, inputs jsontext.Value) (*url.URL, error) {
	query := []byte(u.RawQuery)
	fixed := parametersOf(u.RawQuery)
	for quoted, value := range jsonrpc.Members(inputs) {
		name := string(jsonrpc.Unquote(quoted))
		if fixed[parameterName(name)] {
			continue
		}
		plain, ok := document.Text(value)
		if !ok {
			value = value.Clone()
			if err := value.Compact(jsontext.AllowDuplicateNames(true)); err != nil {
				return nil, err
			}
			plain = string(value)
		}
		if len(query) > 0 {
			query = append(query, '&')
		}
		query = append(append(append(query, url.QueryEscape(name)...), '='), url.QueryEscape(plain)...)
	}
	extended := *u
	extended.RawQuery = string(query)
	return &extended, nil
}

// parametersOf returns the names of the parameters in a query, in the form of parameterName; nil: there are none.
func parametersOf(query string) map[string]bool {
	if query == "" {
		return nil
	}
	names := make(map[string]bool)
	for _, parameter := range strings.FieldsFunc(query, func(r rune) bool { return r == '&' || r == ';' }) {
		name, _, _ := strings.Cut(parameter, "=")
		if decoded, err := url.QueryUnescape(name); err == nil {
			name = decoded
		}
		names[parameterName(name)] = true
	}
	return names
}

// parameterName returns the same text for all names that some server reads as one parameter: some servers ignore case, and
// some read a[], a[b] and " a" as a, and a.b and "a b" as a_b.
func parameterName(name string) string {
	name = strings.TrimSpace(name)
	if end := strings.IndexAny(name, "[\x00"); end > 0 {
		name = name[:end]
	}
	return strings.ToLower(dotsAndSpaces.Replace(name))
}

var dotsAndSpaces = strings.NewReplacer(".", "_", " ", "_", "+", "_")
