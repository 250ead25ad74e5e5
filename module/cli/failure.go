package cli

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// wholeError is a failure as JSON. Unknown members are left out.
type wholeError struct {
	Code       document.ErrorCode `json:"code,omitzero"`
	Message    string             `json:"message"`
	Phase      run.Phase          `json:"phase,omitzero"`
	Source     run.Party          `json:"source,omitzero"`
	HTTPStatus int                `json:"http_status,omitzero"`
	Executed   run.Executed       `json:"executed,omitzero"`
	Next       run.Next           `json:"next,omitzero"`
	Details    jsontext.Value     `json:"details,omitzero"`
	Retry      jsontext.Value     `json:"retry,omitzero"`
	URL        string             `json:"url,omitzero"`
}

func newWholeError(f *run.Failure) *wholeError {
	return &wholeError{
		document.CodeOf(f), f.OperatorMessage(), f.Phase, f.By, f.HTTPStatus, f.Executed, f.Next(), front.Details(f), front.Retry(f), f.URL,
	}
}

// failedOutcome is the JSON result of a command that failed.
type failedOutcome struct {
	Error *wholeError `json:"error"`
}

// Unreadable writes why a document could not be read and the advice about it, and returns
// the exit status.
func (e *Endpoint) Unreadable(f *run.Failure) int {
	e.Screen.Complain("%s", f.OperatorMessage())
	e.Screen.showURL(f.URL)
	e.Screen.Advise(e.unreadAdvice(f))
	if e.Screen.AsJSON {
		e.Screen.JSON(failedOutcome{newWholeError(f)})
	}
	return ProtocolError
}

func (s *Screen) showURL(url string) {
	if url != "" {
		s.note("       at " + printable(url))
	}
}
