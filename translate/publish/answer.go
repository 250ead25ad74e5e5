package publish

import (
	"cmp"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// Bounds of answers of the API.
const (
	MaxAnswer  = 10 << 20 // bytes of the body
	maxMessage = 1000     // characters of a message
	maxDetails = 64 << 10 // bytes of the details of an error
	maxType    = 200      // characters of a media type

	// maxDepth bounds arrays and objects of JSON within each other: what is deeper is text. Bridges read the output within the answer of the publisher.
	maxDepth = document.MaxDepth - 2
)

// codes are those of errors by the status of the answer. For other statuses, it is the API's own code or the name of the status.
var codes = map[int]document.ErrorCode{
	http.StatusUnauthorized:        document.AuthRequired,
	http.StatusForbidden:           document.PermissionDenied,
	http.StatusNotFound:            "NOT_FOUND", // the skill is there
	http.StatusRequestTimeout:      document.InvocationTimeout,
	http.StatusUnprocessableEntity: document.ValidationError,
	http.StatusTooManyRequests:     document.RateLimited,
	http.StatusBadGateway:          document.EndpointUnreachable,
	http.StatusServiceUnavailable:  document.EndpointUnreachable,
	http.StatusGatewayTimeout:      document.InvocationTimeout,
}

// Result returns what an answer of the API means. A body longer than [MaxAnswer] is too large, so it need not be read further than one byte more.
// The texts in it are untrusted; messages are bounded, and without control characters.
func (o *Operation) Result(status int, header http.Header, body []byte) *Result {
	if status/100 == 2 && len(body) <= MaxAnswer {
		return &Result{Run: run.Run{State: run.Completed, Output: o.outputOf(header.Get("Content-Type"), body)}}
	}
	name := strings.TrimSpace(fmt.Sprintf("HTTP %d %s", status, http.StatusText(status)))
	var code, message string
	var details jsontext.Value
	switch status / 100 {
	case 2:
		code, message = "TOO_LARGE", fmt.Sprintf("The answer of the API has more than %d MiB.", MaxAnswer>>20)
	case 3:
		message = "The API answered " + name + ", and redirects are not followed here."
	default:
		code, message, details = errorOf(name, header, body)
	}
	r := &Result{Header: http.Header{}}
	if challenge := header.Values("WWW-Authenticate"); challenge != nil {
		r.Header["Www-Authenticate"] = slices.Clone(challenge)
		if required := scopes.FindStringSubmatch(strings.Join(challenge, ", ")); required != nil && status == http.StatusForbidden {
			details = jsonvalue.Marshal(map[string]any{"required_scopes": strings.Fields(required[1])})
		}
	}
	if status == http.StatusUnauthorized && o.Demand.Type != "" {
		details = jsonvalue.Marshal(o.Demand)
	}
	r.Run = Failed(cmp.Or(codes[status], document.ErrorCode(cmp.Or(code, nameOf(status)))), message, details).Run
	if pause := exchange.RetryAfter(header); pause > 0 {
		r.Failure.Provider.Retry = Retry(pause)
		r.Header.Set("Retry-After", strconv.Itoa(int((pause+time.Second-1)/time.Second)))
	}
	switch {
	case status == http.StatusGatewayTimeout:
		r.State = run.TimedOut
	case codes[status] != "" && status != http.StatusNotFound && status != http.StatusBadGateway: // else the skill is there, and may have been executed
		r.Refused = status // it is passed on, in the form of section 8.2
	}
	return r
}

// Failed is the result of an operation that ends with an error. Details may be nil.
func Failed(code document.ErrorCode, message string, details jsontext.Value) *Result {
	return &Result{Run: run.Run{State: run.Failed, Failure: &run.Failure{
		Kind: run.RunFailed, Phase: run.PhaseInvoke, By: run.Provider, Executed: run.ExecutedYes, Message: message,
		Provider: &run.ProviderError{Code: string(code), Details: details},
	}}}
}

// Retry is the advice to try again after a pause.
func Retry(pause time.Duration) jsontext.Value {
	return jsonvalue.Marshal(map[string]int64{"suggested_delay_ms": pause.Milliseconds(), "max_attempts": 3})
}

// scopes finds the scopes in a challenge (RFC 6750, section 3).
var scopes = regexp.MustCompile(`\bscope="([^"]*)"`)

// ownCode is how codes of APIs look that can be one of a run.
var ownCode = regexp.MustCompile(`^[A-Za-z][\w.-]{0,63}$`)

// nameOf returns the name of a status as a code.
func nameOf(status int) string {
	name := strings.NewReplacer(" ", "_", "-", "_", "'", "").Replace(http.StatusText(status))
	return cmp.Or(strings.ToUpper(name), fmt.Sprintf("HTTP_%d", status))
}

// errorOf returns the error in the body of an answer: in the form of RFC 9457, with an error that has a message, or as a text.
func errorOf(status string, header http.Header, body []byte) (code, message string, details jsontext.Value) {
	var problem struct {
		Title   jsontext.Value `json:"title"`
		Detail  jsontext.Value `json:"detail"`
		Message jsontext.Value `json:"message"`
	}
	members := document.ParseMembers(body, maxDepth)
	said := members.RunError()
	details = said.Details
	if value := jsontext.Value(document.WithoutBOM(body)); members.Valid {
		_ = json.Unmarshal(value, &problem) // or it has none of these
		if details == nil && (value.Kind() == '{' || value.Kind() == '[') {
			details = value
		}
		details = document.BoundedDetails(details, maxDetails)
	} else if declared := header.Get("Content-Type"); strings.HasPrefix(declared, "text/plain") && isText(declared, body) {
		said.Message = status + ": " + strings.TrimSpace(string(body))
	}
	title, detail := jsonrpc.Text(problem.Title), jsonrpc.Text(problem.Detail)
	if title != "" && detail != "" {
		title += ": "
	}
	message = cmp.Or(safetext.Line(cmp.Or(said.Message, title+detail, jsonrpc.Text(problem.Message)), maxMessage), "The API answered "+status+".")
	return ownCode.FindString(said.Code), message, details
}

// outputOf returns the body of an answer as an output: JSON as it is, text as a string, anything else in base64, as the fronts read it. Some servers say
// something else of the JSON that the document promises.
func (o *Operation) outputOf(contentType string, body []byte) jsontext.Value {
	isPromised := o.Accept != nil && !slices.ContainsFunc(o.Accept, func(promised string) bool { return !isJSON(promised) })
	value := jsontext.Value(document.WithoutBOM(body))
	switch {
	case len(body) == 0:
		return jsontext.Value("null")
	case (contentType == "" || isJSON(contentType) || isPromised) && !jsonrpc.Deeper(value, maxDepth) && value.IsValid():
		return value
	case isJSON(contentType) && !jsonrpc.Deeper(value, maxDepth): // as bridges read the answers of providers
		if repaired := document.Repaired(value); repaired != nil {
			return repaired
		}
	}
	if isText(contentType, body) {
		return jsonvalue.Quoted(string(body))
	}
	return jsonvalue.Marshal(struct {
		MediaType string `json:"media_type"`
		Base64    []byte `json:"base64"`
	}{safetext.Line(cmp.Or(contentType, http.DetectContentType(body)), maxType), body})
}

// textTypes are how media types of texts end that do not begin with text/.
var textTypes = []string{"csv", "graphql", "javascript", "json", "sql", "urlencoded", "xml", "yaml"}

// isText reports whether the body of an answer with a Content-Type is a text in UTF-8.
func isText(contentType string, body []byte) bool {
	if contentType == "" {
		return safetext.IsText(body)
	}
	essence := front.Essence(contentType)
	_, parameters, _ := mime.ParseMediaType(contentType)
	isNamed := strings.HasPrefix(essence, "text/") || slices.ContainsFunc(textTypes, func(end string) bool { return strings.HasSuffix(essence, end) })
	return isNamed && slices.Contains([]string{"", "utf-8", "us-ascii"}, strings.ToLower(parameters["charset"])) && utf8.Valid(body)
}
