package run

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Failure is all that is known about why a skill could not be found, read, invoked
// or followed, or how a run failed. Fronts say it in their own words. What it points
// to may be shared with others, and must not be changed.
type Failure struct { //nolint:errname // it is what a call ends with, and an error only where it is passed as one
	Kind    Kind
	Phase   Phase
	By      Party  // whose finding it is
	Message string // for people; carries no secret
	// Advice is a sentence for callers about what only the operator of the bridge can do; empty: nothing.
	Advice string
	// Ref has the id of the skill's descriptor, once known, and the execution id, once the provider had accepted the run.
	Ref
	Executed Executed
	// HTTPStatus is the provider's, 0 when it did not answer.
	HTTPStatus int
	// URL is that of the document or endpoint at fault, without userinfo and query, if there is one. It is for logs.
	URL string

	// Argument is what the caller's request has to be corrected in; nil: in nothing.
	Argument *Argument
	// Demand is the credential that is missing or was refused; nil: it is about none.
	Demand *Demand
	// Violations are what is wrong with a document.
	Violations []Violation
	// Limit is the operator's that was exceeded; nil: none was.
	Limit *Limit
	// Refused is the bridge's own rule that forbids the request, which only its operator can change; empty: none does.
	Refused Rule
	// Reach is why something can't be reached; nil: that is not the reason.
	Reach *Reach
	// Timeout is the time that was not enough; 0: it was, or is not known.
	Timeout time.Duration
	// Lost tells that the run was accepted, but can't be followed to its end.
	Lost bool
	// Retry suggests to try again; nil: nothing does, or the provider.
	Retry *Retry
	// Provider is what the provider itself has said; nil: nothing.
	Provider *ProviderError

	// Cause is for logs, never for answers.
	Cause error
}

// Argument tells what is at fault in a caller's request.
type Argument struct {
	Field   Field
	Name    string // of the input, or of a field that only a front knows
	Pointer string // JSON Pointer into the arguments
	Reason  Reason
	// Value is what the caller has sent, shortened, if that is repeated.
	Value string
	// Candidates are what may have been meant. May be nil.
	Candidates []string
}

// Field is a part of a caller's request.
type Field uint8

// The parts of a request.
const (
	FieldInputs  Field = iota // the arguments as a whole
	FieldInput                // one of them, by its name
	FieldSkill                // the skill's name
	FieldVersion              // the version that is wanted
	FieldOther                // something that only a front knows, by its name
)

// Reason says what is wrong with a part of a request.
type Reason string

// What can be wrong. Fronts have reasons of their own, too.
const (
	Required    Reason = "required"
	WrongType   Reason = "type"
	WrongSchema Reason = "schema"               // it does not match its schema
	NotFound    Reason = "not_found"            // it names something that is not there
	Ambiguous   Reason = "ambiguous"            // it names several things
	Rejected    Reason = "rejected_by_provider" // the provider does not say it more exactly
	// OverLimit is that of arguments that may well be right, but exceed a limit of the operator's.
	OverLimit Reason = "limit"
	// Unsupported is that of a request which no correction helps.
	Unsupported Reason = "not_supported_by_bridge"
)

// Demand is a credential that is asked for.
type Demand struct {
	By Party // who asks for it
	// OfCaller tells that the caller has to prove who is asking; else the operator of the bridge has to act.
	OfCaller bool
	// Withheld tells that the bridge has it, but may not send it where it is wanted.
	Withheld bool
	Reason   string
	// Quotes tells that the provider has written or chosen some of what follows.
	Quotes bool

	Type                       string // as the descriptor calls it; empty: that is not known
	Header                     string // that carries an API key
	AuthorizationURL, TokenURL string
	Scopes                     map[string]string // name to description; nil: there are none to tell
	Instructions               string
	Parameters                 jsontext.Value // what a custom authentication takes, as the descriptor has it; nil: it is none
}

// NoPrincipal is what a bridge demands of a caller who has not said who is asking.
func NoPrincipal() *Demand {
	return &Demand{By: Bridge, OfCaller: true, Reason: "the request has no principal"}
}

// Violation is one reason why a document is invalid.
type Violation struct {
	// Path is a JSON Pointer to the member at fault. For a required member that
	// is missing it is the pointer that the member would have.
	Path    string `json:"path"`
	Message string `json:"message"`
	// Expected is the expected value, type or form. May be nil.
	Expected jsontext.Value `json:"expected,omitzero"`
	// Actual is what was found: a scalar, or the name of its type. Long strings are cut and end in an ellipsis. May be nil.
	Actual jsontext.Value `json:"actual,omitzero"`
}

// Limit is one of the operator's.
type Limit struct {
	Name string // of its option
	Max  int64
}

// Rule is one of the bridge's own about requests.
type Rule string

// The rules.
const (
	RulePlainHTTP   Rule = "plain_http"  // URLs without TLS
	RuleAddress     Rule = "address"     // addresses that are not public
	RulePort        Rule = "port"        // ports that are not allowed
	RuleHost        Rule = "host"        // hosts whose spelling others may read otherwise
	RuleNoSuchHost  Rule = "no_host"     // names that do not exist
	RuleCertificate Rule = "certificate" // TLS certificates that are not valid
	RuleCredential  Rule = "credential"  // where and how credentials are used
	RuleOther       Rule = "other"       // of the transport
)

// Reach is why something can't be reached.
type Reach struct {
	URL    string // without userinfo and query; empty: it is not told
	Reason string
	// Quotes tells that the provider has chosen the URL.
	Quotes bool
	// Failures is how many in a row have opened the circuit breaker of the host; 0: it is not open.
	Failures    int
	LastFailure string // of these
}

// Retry is when and how often to try again.
type Retry struct {
	After    time.Duration
	Attempts int
}

// ProviderError is what a provider has said of a failure, as it was sent.
type ProviderError struct {
	Code    string         // of a run that failed
	Details jsontext.Value // nil: none
	Retry   jsontext.Value // an object; nil: none
}

// Error implements error.
func (f *Failure) Error() string { return f.Kind.String() + ": " + f.Message }

// Text is the message for callers, with the advice.
func (f *Failure) Text() string {
	if f.Advice == "" {
		return f.Message
	}
	return f.Message + " " + f.Advice
}

// Unwrap gives access to the cause.
func (f *Failure) Unwrap() error { return f.Cause }

// Gone reports whether the provider says that there is no such document or skill any more.
func (f *Failure) Gone() bool { return f.Kind == SkillNotFound && f.By == Provider }

// Expired reports whether the time of the call was up, or it can't be waited for any longer.
func (f *Failure) Expired() bool {
	return f.Kind == DeadlineExceeded || f.Kind == Stopped || f.Kind == ClientGone
}

// Permanent reports whether the failure is a judgement and no passing trouble: what
// was known before must not be used instead.
func (f *Failure) Permanent() bool {
	if f.Expired() || f.Kind == Unreachable || f.Kind == RateLimited {
		return f.Refused != ""
	}
	return true
}

// Again is when and how often to try again; where nothing was executed and time may
// help, but neither the provider nor the failure says when, 3 times after 2 seconds; nil:
// that does not help, or the provider itself says it.
func (f *Failure) Again() *Retry {
	if f.Retry == nil && f.Says().Retry == nil && f.Next() == NextRetry {
		return Again(2*time.Second, 3)
	}
	return f.Retry
}

// Says returns what the provider itself has said, also if that is nothing.
func (f *Failure) Says() ProviderError {
	if f.Provider == nil {
		return ProviderError{}
	}
	return *f.Provider
}

// Quotes reports whether what the failure says beyond its message holds links,
// instructions or other text of the provider's.
func (f *Failure) Quotes() bool {
	return f.Says().Details != nil || f.Demand != nil && f.Demand.Quotes || f.Reach != nil && f.Reach.Quotes
}

// Rewrite passes each text of the failure, but for those of its cause, through one
// function, and each JSON value through another. What it shares with other failures
// stays as it is.
func (f *Failure) Rewrite(text func(string) string, value func(jsontext.Value) jsontext.Value) {
	f.Message, f.Advice, f.URL = text(f.Message), text(f.Advice), text(f.URL)
	if f.Argument != nil {
		a := *f.Argument
		a.Name, a.Pointer, a.Value, a.Candidates = text(a.Name), text(a.Pointer), text(a.Value), nil
		for _, c := range f.Argument.Candidates {
			a.Candidates = append(a.Candidates, text(c))
		}
		f.Argument = &a
	}
	if f.Demand != nil {
		d := *f.Demand
		d.Reason, d.Header, d.Instructions = text(d.Reason), text(d.Header), text(d.Instructions)
		d.AuthorizationURL, d.TokenURL, d.Parameters = text(d.AuthorizationURL), text(d.TokenURL), value(d.Parameters)
		if d.Scopes != nil {
			d.Scopes = make(map[string]string, len(d.Scopes))
			for name, description := range f.Demand.Scopes {
				d.Scopes[text(name)] = text(description)
			}
		}
		f.Demand = &d
	}
	if f.Violations != nil {
		list := make([]Violation, len(f.Violations))
		for i, v := range f.Violations {
			list[i] = Violation{text(v.Path), text(v.Message), value(v.Expected), value(v.Actual)}
		}
		f.Violations = list
	}
	if f.Reach != nil {
		r := *f.Reach
		r.URL, r.Reason, r.LastFailure = text(r.URL), text(r.Reason), text(r.LastFailure)
		f.Reach = &r
	}
	if f.Provider != nil {
		f.Provider = &ProviderError{text(f.Provider.Code), value(f.Provider.Details), value(f.Provider.Retry)}
	}
}

// Again suggests to try again.
func Again(after time.Duration, attempts int) *Retry { return &Retry{after, attempts} }
