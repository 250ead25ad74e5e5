package skillsharing

import (
	"bytes"
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Caller identifies who invokes skills (section 5.3). Credentials never travel in it.
type Caller struct {
	ID   string // unique identifier
	Type string // for example "service"
}

// Priority is the execution priority of an invocation (section 5.3).
type Priority string

// The priorities of the protocol.
const (
	PriorityLow    Priority = "low"
	PriorityNormal Priority = "normal"
	PriorityHigh   Priority = "high"
)

// Invocation is one call of a skill (section 5.3).
type Invocation struct {
	// Inputs is a JSON object, sent as it is; nil is an empty one.
	Inputs jsontext.Value
	// TraceID is sent as context.trace_id.
	TraceID string
	// Timeout is sent as context.timeout_ms. The deadline itself is the context's.
	Timeout time.Duration
	// TraceParent is the traceparent header of the invocation (W3C Trace Context, section 3.2); empty: it has none.
	TraceParent string
	// Until is when the caller needs an answer, whether the run has ended or not; zero: when it has ended.
	Until time.Time
}

// requestOptions are parts that only some requests have.
type requestOptions struct {
	wait        time.Duration // for which the provider is asked to hold the answer back
	traceParent string        // header
}

// skillRequest makes an authenticated request to one of a skill's URLs.
func (c *Client) skillRequest(ctx context.Context, s *discovery.Skill, phase run.Phase, method string, u *url.URL, body []byte, options requestOptions) (*exchange.Request, *run.Failure) {
	header := exchange.SharedHeader
	if body != nil {
		header = s.HeaderWithBody
	}
	if s.NeedsCredential() || options != (requestOptions{}) { // which will be added
		header = header.Clone()
	}
	if options.wait > 0 {
		prefer(header, options.wait)
	}
	if options.traceParent != "" {
		header["Traceparent"] = []string{options.traceParent}
	}
	if e := c.Permitted(ctx, u, run.PhaseInvoke); e != nil {
		return nil, e
	}
	req := c.NewRequest(ctx, phase, method, u, c.ofSkill(s), header, body)
	return req, c.authenticate(ctx, s, &req.Request, body)
}

// ofSkill is the identity of the requests that a descriptor asks for.
func (c *Client) ofSkill(s *discovery.Skill) exchange.Identity {
	if c.Anonymous {
		return exchange.Identity{}
	}
	return exchange.Identity{Hosts: c.AllowedHosts, Descriptor: s}
}

// invocation builds the URL and body of an invocation: an InvocationRequest, or
// the inputs in the query where the method has no body.
func (c *Client) invocation(s *discovery.Skill, inv *Invocation) (*url.URL, []byte, error) {
	inputs := inv.Inputs
	if inputs == nil {
		inputs = jsontext.Value("{}")
	}
	if !s.SendsBody() {
		u, err := withQuery(s.InvokeURL, inputs)
		return u, nil, err
	}
	body := make([]byte, 0, len(inputs)+len(s.ID)+len(c.Caller.ID)+256)
	body = append(body, `{"caller":{"id":`...)
	body = appendString(body, c.Caller.ID)
	body = append(body, `,"type":`...)
	body = appendString(body, c.Caller.Type)
	body = append(body, `},"skill_id":`...)
	body = appendString(body, s.ID)
	body = append(body, `,"inputs":`...)
	body = append(body, inputs...)
	body = append(body, `,"context":{"trace_id":`...)
	body = appendString(body, inv.TraceID)
	body = append(body, `,"priority":`...)
	body = appendString(body, string(c.Priority))
	body = append(body, `,"timeout_ms":`...)
	body = strconv.AppendInt(body, max(1, inv.Timeout.Milliseconds()), 10)
	return s.InvokeURL, append(body, "}}"...), nil
}

// appendString appends a JSON string. What can't be encoded is replaced.
func appendString(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // the only error is bad UTF-8, which is replaced
	return b
}

// withQuery adds inputs to a URL's query: strings as they are, other values as
// compact JSON. What the query has already is the provider's to say: inputs of the
// same name are left out, since each server takes another one of two.
func withQuery(u *url.URL, inputs jsontext.Value) (*url.URL, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(inputs), jsontext.AllowDuplicateNames(true))
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	query := u.RawQuery
	fixed := parametersOf(query)
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		key, taken := url.QueryEscape(name.String()), fixed[parameterName(name.String())]
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		if taken {
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
		if query != "" {
			query += "&"
		}
		query += key + "=" + url.QueryEscape(plain)
	}
	extended := *u
	extended.RawQuery = query
	return &extended, nil
}

// parametersOf are the names of a query's parameters, nil if it has none.
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

// parameterName is the same for all names that a server may take for one parameter: some servers don't tell upper from lower case, and some read a[], a[b], " a"
// as a, and a.b and "a b" as a_b.
func parameterName(name string) string {
	name = strings.TrimSpace(name)
	if end := strings.IndexAny(name, "[\x00"); end > 0 {
		name = name[:end]
	}
	return strings.ToLower(dotsAndSpaces.Replace(name))
}

var dotsAndSpaces = strings.NewReplacer(".", "_", " ", "_", "+", "_")
