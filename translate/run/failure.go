package run

import (
	"cmp"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Failure says why a skill could not be found, read, invoked or followed, or how a run failed.
// Each front translates it into an error of its protocol. Failures may share what their
// pointers, slices and maps point to, so that it must not be changed. Its JSON is what the ledger stores of a run that has ended.
type Failure struct { //nolint:errname // it is a result first, and an error second
	Kind    Kind   `json:"kind"`
	Phase   Phase  `json:"phase,omitzero"`
	By      Party  `json:"by,omitzero"` // that found it
	Message string `json:"message"`     // for people; carries no secret
	// Advice is a sentence about what the operator of the bridge can do; empty: there is none.
	Advice string `json:"advice,omitzero"`
	// Ref has the skill's id, once it is known, and the execution id, once the provider has accepted the run.
	Ref      `json:"-"`
	Executed Executed `json:"executed"`
	// HTTPStatus is the status of the provider's answer; 0: there was none.
	HTTPStatus int `json:"http_status,omitzero"`
	// URL is the URL of the document or endpoint, without userinfo and query, for logs.
	URL string `json:"-"`

	// Argument is the part of the caller's request that is wrong; nil: none is.
	Argument *Argument `json:"-"`
	// Demand is the credential that is missing or was refused; nil: none.
	Demand *Demand `json:"-"`
	// Violations are the reasons why a document is invalid.
	Violations []Violation `json:"-"`
	// Limit is the operator's limit that was exceeded; nil: none was.
	Limit *Limit `json:"-"`
	// Refused is the bridge's rule that forbids the request to the provider; empty: none does. Only the operator can
	// change it.
	Refused Rule `json:"-"`
	// Reach says why the provider can't be reached; nil: there is another reason.
	Reach *Reach `json:"-"`
	// Timeout is the timeout that has passed; 0: none has, or it is not known.
	Timeout time.Duration `json:"timeout_ns,omitzero"`
	// Lost means that the run was accepted, but can't be followed to its end.
	Lost bool `json:"lost,omitzero"`
	// Retry is the bridge's suggestion to try again; nil: there is none.
	Retry *Retry `json:"-"`
	// Provider is the provider's own error; nil: there is none.
	Provider *ProviderError `json:"provider,omitzero"`

	// Cause is for logs, never for answers.
	Cause error `json:"-"`
}

// Argument is a part of a caller's request that is wrong.
type Argument struct {
	Field   Field
	Name    string // of the input, or of a field that only a front knows
	Pointer string // JSON Pointer into the arguments
	Reason  Reason
	// Value is what the caller has sent, shortened; empty: answers don't repeat it.
	Value string
	// Candidates are values that would be right. May be nil.
	Candidates []string
	// Expected and Actual are those of a [Violation], for answers in the form of the providers' protocol. May be nil.
	Expected, Actual jsontext.Value
	// Unread are the sources that were not searched for the value, since they could not be read. May be nil.
	Unread []string
}

// Field is a part of a caller's request.
type Field uint8

// The parts of a request.
const (
	FieldInputs  Field = iota // the arguments as a whole
	FieldInput                // one argument; Name is its name
	FieldSkill                // the skill's name
	FieldVersion              // the skill's version
	FieldOther                // a field that only the front knows; Name is its name
)

// Reason says what is wrong with a part of a request.
type Reason string

// The reasons that are not specific to one front.
const (
	Required    Reason = "required"
	WrongType   Reason = "type"
	WrongSchema Reason = "schema"               // it does not match its schema
	NotFound    Reason = "not_found"            // it names something that does not exist
	Ambiguous   Reason = "ambiguous"            // it matches several things
	Asked       Reason = "asked"                // the caller is asked for it, and the next message may have it
	Rejected    Reason = "rejected_by_provider" // the provider gives no other reason
	// OverLimit is for arguments that exceed a limit of the operator.
	OverLimit Reason = "limit"
	// OnlyRead is for calls of skills that are instructions to read, and can't be executed.
	OnlyRead Reason = "not_executable"
	// Unsupported is for requests that the bridge can't execute, however they are corrected.
	Unsupported Reason = "not_supported_by_bridge"
)

// OfBridge reports whether a limit of the bridge as a whole was exceeded, so that nothing can be read or done at the moment, whatever source
// the request is about.
func (f *Failure) OfBridge() bool { return f.Limit != nil && f.Limit.OfBridge }

// Asks reports whether the caller is asked for something that is missing, so that the call is no failure.
func (f *Failure) Asks() bool { return f.Argument != nil && f.Argument.Reason == Asked }

// Demand is a demand for a credential.
type Demand struct {
	By Party // that demands it
	// CallerActs means that the caller has to authenticate; else the operator of the bridge has to act.
	CallerActs bool
	// Withheld means that the bridge has the credential, but must not send it to this host.
	Withheld bool
	Reason   string
	// FromProvider means that the provider supplied some of the fields below.
	FromProvider bool

	Type                       string // auth type of the descriptor; empty: it is not known
	Header                     string // for an API key
	AuthorizationURL, TokenURL string
	// ConnectURL is a page of the bridge where the caller's user connects an account of their own; empty: that would not help. It contains
	// nothing of a user.
	ConnectURL   string
	Scopes       map[string]string // descriptions by name; nil: there are none
	Instructions string
	Parameters   jsontext.Value // of a custom authentication, as in the descriptor; nil: it is another type
}

// LinkScopes returns the scopes that a [Demand.ConnectURL] is for.
func LinkScopes(connectURL string) []string {
	u, err := url.Parse(connectURL)
	if err != nil {
		return nil
	}
	return strings.Fields(u.Query().Get("scopes"))
}

// NoPrincipal is the demand of a bridge that refuses anonymous callers.
func NoPrincipal() *Demand {
	return &Demand{By: Bridge, CallerActs: true, Reason: "the request has no principal"}
}

// Violation is one reason why a document is invalid.
type Violation struct {
	// Path is a JSON Pointer to the invalid member, also if the member is missing.
	Path    string `json:"path"`
	Message string `json:"message"`
	// Expected is the expected value, type or form. May be nil.
	Expected jsontext.Value `json:"expected,omitzero"`
	// Actual is the actual value if it is a scalar, else its type. Long strings are cut and end in an ellipsis. May be nil.
	Actual jsontext.Value `json:"actual,omitzero"`
}

// Limit is a limit that the operator has set.
type Limit struct {
	Name string // of its option
	Max  int64
	// Own means that it bounds only the caller, so that the operator need not act.
	Own bool
	// OfBridge means that it bounds the bridge as a whole; else only one source, host, publisher or caller.
	OfBridge bool
}

// Rule is a rule of the bridge about requests to providers.
type Rule string

// The rules, by what they forbid.
const (
	RulePlainHTTP   Rule = "plain_http"  // URLs without TLS
	RuleAddress     Rule = "address"     // addresses that are not public
	RulePort        Rule = "port"        // ports that are not allowed
	RuleHost        Rule = "host"        // hosts whose spelling is ambiguous
	RuleNoSuchHost  Rule = "no_host"     // hosts that do not exist
	RuleCertificate Rule = "certificate" // invalid TLS certificates
	RuleNotTLS      Rule = "not_tls"     // servers that do not speak TLS at URLs with https
	RuleCredential  Rule = "credential"  // credentials for a host or in a form that is not allowed
	RuleOther       Rule = "other"       // of the transport
)

// Reach says why a URL can't be reached.
type Reach struct {
	URL    string // without userinfo and query; empty: it is not shown
	Reason string
	// FromProvider means that the provider has chosen the URL.
	FromProvider bool
	// Failures is the number of consecutive failures that opened the circuit breaker of the host; 0: it is not open.
	Failures    int
	LastFailure string
	// ForOperator is the message of the failure for the operator, if it says more: callers must not find out what is in the operator's network.
	// Empty: it does not.
	ForOperator string
}

// Retry is a suggestion to try again after a delay.
type Retry struct {
	After    time.Duration
	Attempts int
	Joins    bool // the same call gets the run that there is, if the skill was executed
}

// ProviderError is the error in a provider's answer, as it was sent.
type ProviderError struct {
	Code    string         `json:"code,omitzero"`    // of a failed run
	Details jsontext.Value `json:"details,omitzero"` // nil: none
	Retry   jsontext.Value `json:"retry,omitzero"`   // an object; nil: none
}

// Error implements error.
func (f *Failure) Error() string { return f.Kind.String() + ": " + f.Message }

// Text returns the message and the advice, which is to open the link if the user can connect an account.
func (f *Failure) Text() string {
	if f.Executed == ExecutedYes {
		return f.TextBefore("the run can be followed then")
	}
	return f.TextBefore("then call again")
}

// TextBefore is Text with what comes after the user has connected an account.
func (f *Failure) TextBefore(next string) string {
	advice := f.Advice
	if f.Next() == NextConnect {
		advice = "Ask the user to open " + f.Demand.ConnectURL + " and to connect an account there; " + next + "."
	}
	return strings.TrimSuffix(f.Message+" "+advice, " ")
}

// AskOperator begins an [Failure.Advice] for callers that only the operator can follow: what to do follows after " to ", or where to look after ": ".
const AskOperator = "Ask the operator of the bridge"

// OperatorAdvice returns the advice as the operator reads it in a log or a table: addressed to the operator, without one that only points to
// the log.
func (f *Failure) OperatorAdvice() string {
	rest, asks := strings.CutPrefix(f.Advice, AskOperator)
	if !asks {
		return f.Advice
	}
	to, asks := strings.CutPrefix(rest, " to ")
	if !asks || to == "" {
		return ""
	}
	return strings.ToUpper(to[:1]) + to[1:]
}

// OperatorMessage returns the message for the operator.
func (f *Failure) OperatorMessage() string {
	if f.Reach == nil {
		return f.Message
	}
	return cmp.Or(f.Reach.ForOperator, f.Message)
}

// OperatorText returns the [Failure.OperatorMessage] and the [Failure.OperatorAdvice].
func (f *Failure) OperatorText() string {
	return strings.TrimSuffix(f.OperatorMessage()+" "+f.OperatorAdvice(), " ")
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Cause }

// Gone reports whether the provider has answered that the descriptor or skill does not exist.
func (f *Failure) Gone() bool { return f.Kind == SkillNotFound && f.By == Provider }

// EndsRun reports whether the failure says how a run has ended, or that this can't be learned.
func (f *Failure) EndsRun() bool { return f.Kind == RunFailed || f.Lost }

// NotOffered reports whether a run can't be followed since its skill can't be found, which may pass.
func (f *Failure) NotOffered() bool {
	return f.Lost && (f.Phase == PhaseDiscovery || f.Phase == PhaseDescriptor)
}

// WrongOrigin reports whether a server has answered a request for an index with something that can't be used as one: that it has none, a page for
// people, another document, no HTTP. Most likely, the operator has configured the wrong URL; a caller can use no skill of the source.
func (f *Failure) WrongOrigin() bool {
	return f.Phase == PhaseDiscovery && !errors.Is(f.Cause, ErrEntry) && (f.Kind == ProviderFault || f.Kind == InvalidDocument)
}

// ErrPassing is the cause of a failure to read the state of a run that may pass, although its kind does not say so: the answer was HTTP 500,
// or that the provider does not know the run, while not all of its servers may have learned of it.
var ErrPassing = errors.New("the same request may succeed later")

// ErrEntry is the cause of a failure that an index can be used, but not its entry of the one skill.
var ErrEntry = errors.New("the index has an entry that can't be used")

// MayPass reports whether the cause is [ErrPassing].
func (f *Failure) MayPass() bool { return errors.Is(f.Cause, ErrPassing) }

// Expired reports whether the call ended before there was an answer: by its deadline, a stop of the
// bridge, or because the caller is gone or has canceled it.
func (f *Failure) Expired() bool {
	return f.Kind == DeadlineExceeded || f.Kind == Stopped || f.Kind == CallerGone || f.Kind == CallerCanceled
}

// Permanent reports whether the failure is not temporary, so that a stale document must not be
// used instead. A certificate is likely to be renewed soon, and TLS to be switched on again.
func (f *Failure) Permanent() bool {
	if f.MayPass() || f.Expired() || f.Kind == Unreachable || f.Kind == RateLimited {
		return f.Refused != "" && f.Refused != RuleCertificate && f.Refused != RuleNotTLS
	}
	return true
}

// RetryHint returns the bridge's suggestion to try again: Retry, or 3 times after 2 seconds if
// the next step is to retry and there is no other suggestion. nil: there is none, or the
// provider has made one.
func (f *Failure) RetryHint() *Retry {
	if f.Retry == nil && f.ProviderSaid().Retry == nil && f.Next() == NextRetry {
		return RetryIn(2*time.Second, 3)
	}
	return f.Retry
}

// ProviderSaid returns the provider's error, or a zero one.
func (f *Failure) ProviderSaid() ProviderError {
	if f == nil || f.Provider == nil {
		return ProviderError{}
	}
	return *f.Provider
}

// HasProviderText reports whether the details of the failure have links, instructions or other text
// of the provider.
func (f *Failure) HasProviderText() bool {
	return f.ProviderSaid().Details != nil || f.Demand != nil && f.Demand.FromProvider || f.Reach != nil && f.Reach.FromProvider
}

// Rewrite replaces each text and each JSON value of the failure by the result of a function. It
// leaves the cause, and copies what the failure may share with others.
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
		d.ConnectURL = text(d.ConnectURL)
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
		r.URL, r.Reason, r.LastFailure, r.ForOperator = text(r.URL), text(r.Reason), text(r.LastFailure), text(r.ForOperator)
		f.Reach = &r
	}
	if f.Provider != nil {
		f.Provider = &ProviderError{text(f.Provider.Code), value(f.Provider.Details), value(f.Provider.Retry)}
	}
}

// RetryIn returns a [Retry].
func RetryIn(after time.Duration, attempts int) *Retry {
	return &Retry{After: after, Attempts: attempts}
}

// NotExecuted is the failure of a call that the bridge ends before anything is executed.
func NotExecuted(kind Kind, phase Phase, message string) *Failure {
	return &Failure{Kind: kind, Phase: phase, By: Bridge, Executed: ExecutedNo, Message: message}
}

// WrongArgument is the failure of a call whose argument the bridge refuses before anything is executed.
func WrongArgument(a Argument, message string) *Failure {
	f := NotExecuted(InvalidArguments, PhaseInvoke, message)
	f.Argument = &a
	return f
}

// NeedsCredential is the failure of a call that lacks a credential.
func NeedsCredential(d *Demand, message string) *Failure {
	f := NotExecuted(AuthRequired, PhaseAuth, message)
	f.Demand = d
	return f
}

// TooMuch is the failure of a call that exceeds a limit.
func TooMuch(phase Phase, message string, limit Limit, retry *Retry) *Failure {
	f := NotExecuted(RateLimited, phase, message)
	f.Limit, f.Retry = &limit, retry
	return f
}

// Busy is the failure of a call whose deadline passed before its work in the bridge had a turn.
func Busy(phase Phase, message string) *Failure {
	f := NotExecuted(RateLimited, phase, message)
	f.Reach, f.Retry = &Reach{Reason: "the bridge is busy"}, RetryIn(time.Second, 3)
	return f
}

// StorageFailed is the failure of a call while the database can't be used. The message is a sentence without its end: the advice follows.
func StorageFailed(phase Phase, executed Executed, message string, err error) *Failure {
	return &Failure{
		Kind: Internal, Phase: phase, By: Bridge, Executed: executed, Retry: RetryIn(2*time.Second, 5), Cause: err,
		Message: "Internal error: " + message + "; " + StorageAdvice(err),
	}
}
