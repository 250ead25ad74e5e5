package skillsharing

import (
	"net/http"
	"net/url"
)

// Judge is the judgement on an answer of which only the parts are at hand.
func Judge(status int, header http.Header, body string, phase Phase, knownID string) (*Response, *Error) {
	return judge(&answer{status, header, []byte(body)}, phase, knownID)
}

// ExpandURL puts an execution id into a template.
func ExpandURL(template, executionID string) (*url.URL, error) {
	return expandURL(template, executionID)
}
