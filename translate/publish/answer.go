package publish

import (
	"cmp"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/encoding/htmlindex"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// Bounds of answers of the API.
const (
	MaxAnswer  = 10 << 20 // bytes of the body
	maxDepth   = 1000     // arrays and objects of JSON within each other; what is deeper is text
	maxMessage = 1000     // characters of a message
	maxDetails = 64 << 10 // bytes of the details of an error
	maxType    = 200      // characters of a media type
)

// refusals are the statuses of answers that mean that nothing was executed: they are passed on, in the form of section 8.2.
var refusals = []int{
	http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusUnprocessableEntity, http.StatusTooManyRequests,
	http.StatusServiceUnavailable,
}

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
	r := &Result{Status: "failed", HTTPStatus: http.StatusOK, RetryAfter: exchange.RetryAfter(header)}
	name := strings.TrimSpace(fmt.Sprintf("HTTP %d %s", status, http.StatusText(status)))
	switch {
	case status/100 == 2 && len(body) > MaxAnswer:
		r.Error = &Error{Code: "TOO_LARGE", Message: fmt.Sprintf("The answer of the API has more than %d MiB.", MaxAnswer>>20)}
		return r
	case status/100 == 2:
		r.Status, r.Output = "completed", o.outputOf(header.Get("Content-Type"), body)
		return r
	case status/100 == 3:
		r.Error = &Error{Message: "The API answered " + name + ", and redirects are not followed here."}
	case status == http.StatusGatewayTimeout:
		r.Status, r.Error = "timeout", errorOf(name, header, body)
	default:
		r.Error = errorOf(name, header, body)
	}
	r.Error.Code = cmp.Or(string(codes[status]), r.Error.Code, nameOf(status))
	if slices.Contains(refusals, status) {
		r.Status, r.HTTPStatus = "", status
	}
	if challenge := header.Values("WWW-Authenticate"); challenge != nil {
		r.Header = http.Header{"Www-Authenticate": slices.Clone(challenge)}
		if required := scopes.FindStringSubmatch(strings.Join(challenge, ", ")); required != nil && status == http.StatusForbidden {
			r.Error.Details = detailsOf(map[string]any{"required_scopes": strings.Fields(required[1])})
		}
	}
	if status == http.StatusUnauthorized && o.Demand.Type != "" {
		r.Error.Details = detailsOf(o.Demand)
	}
	return r
}

// scopes finds the scopes in a challenge (RFC 6750, section 3).
var scopes = regexp.MustCompile(`\bscope="([^"]*)"`)

func detailsOf(v any) jsontext.Value {
	text, _ := json.Marshal(v) // of valid texts only
	return text
}

// ownCode is how codes of APIs look that can be one of a run.
var ownCode = regexp.MustCompile(`^[A-Za-z][\w.-]{0,63}$`)

// nameOf returns the name of a status as a code.
func nameOf(status int) string {
	name := strings.NewReplacer(" ", "_", "-", "_", "'", "").Replace(http.StatusText(status))
	return cmp.Or(strings.ToUpper(name), fmt.Sprintf("HTTP_%d", status))
}

// errorOf returns the error in the body of an answer: in the form of RFC 9457, with an error that has a message, or as a text.
func errorOf(status string, header http.Header, body []byte) *Error {
	var problem struct {
		Title   jsontext.Value `json:"title"`
		Detail  jsontext.Value `json:"detail"`
		Message jsontext.Value `json:"message"`
	}
	members := document.ParseMembers(body, maxDepth)
	said := members.RunError()
	e := &Error{Code: ownCode.FindString(said.Code), Details: said.Details}
	if value := jsontext.Value(document.WithoutBOM(body)); members.Valid {
		_ = json.Unmarshal(value, &problem) // or it has none of these
		if e.Details == nil && (value.Kind() == '{' || value.Kind() == '[') {
			e.Details = value
		}
		e.Details = document.BoundedDetails(e.Details, maxDetails)
	} else if text, ok := textIn(header.Get("Content-Type"), body); ok && strings.HasPrefix(header.Get("Content-Type"), "text/plain") {
		said.Message = status + ": " + strings.TrimSpace(text)
	}
	title, _ := document.Text(problem.Title)
	detail, _ := document.Text(problem.Detail)
	message, _ := document.Text(problem.Message)
	if title != "" && detail != "" {
		title += ": "
	}
	e.Message = cmp.Or(safetext.Line(cmp.Or(said.Message, title+detail, message), maxMessage), "The API answered "+status+".")
	return e
}

// outputOf returns the body of an answer as an output: JSON as it is, text as a string, anything else in base64, as the fronts read it. Some servers say
// something else of the JSON that the document promises.
func (o *Operation) outputOf(contentType string, body []byte) jsontext.Value {
	text, isText := textIn(contentType, body)
	isPromised := o.Accept != nil && !slices.ContainsFunc(o.Accept, func(promised string) bool { return !isJSON(promised) })
	value := jsontext.Value(document.WithoutBOM([]byte(text)))
	if !isText {
		value = body
	}
	switch {
	case len(body) == 0:
		return jsontext.Value("null")
	case (contentType == "" || isJSON(contentType) || isPromised) && !jsonrpc.Deeper(value, maxDepth) && value.IsValid():
		return value
	case isText:
		return jsonvalue.Quoted(text)
	}
	return detailsOf(struct {
		MediaType string `json:"media_type"`
		Base64    []byte `json:"base64"`
	}{safetext.Line(cmp.Or(contentType, http.DetectContentType(body)), maxType), body})
}

// textTypes are how media types of texts end that do not begin with text/.
var textTypes = []string{"csv", "graphql", "javascript", "json", "sql", "urlencoded", "xml", "yaml"}

// textIn returns the text of a body with a Content-Type, by its charset. A text that names none is in UTF-8 or, as on old servers, in windows-1252.
func textIn(contentType string, body []byte) (text string, ok bool) {
	essence, parameters, _ := mime.ParseMediaType(contentType)
	isText := strings.HasPrefix(essence, "text/") || slices.ContainsFunc(textTypes, func(end string) bool { return strings.HasSuffix(essence, end) })
	charset := cmp.Or(parameters["charset"], "windows-1252")
	switch {
	case contentType == "":
		return string(body), safetext.IsText(body)
	case !isText:
		return "", false
	case utf8.Valid(body) && (parameters["charset"] == "" || strings.EqualFold(charset, "utf-8")):
		return string(body), true
	}
	known, err := htmlindex.Get(charset)
	if err != nil {
		return "", false
	}
	decoded, err := known.NewDecoder().Bytes(body)
	return string(decoded), err == nil
}

// isJSON reports whether a media type is one of JSON.
func isJSON(mediaType string) bool {
	essence, _, _ := strings.Cut(mediaType, ";")
	return strings.HasSuffix(strings.ToLower(strings.TrimSpace(essence)), "json")
}
