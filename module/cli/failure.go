package cli

import (
	"fmt"
	"time"

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

func newWholeError(f *run.Failure, next run.Next) *wholeError {
	details := front.Details(f)
	if isLate(f) {
		details = fmt.Appendf(nil, `{"waited_ms":%d}`, f.Timeout.Milliseconds())
	}
	return &wholeError{
		document.CodeOf(f), f.OperatorMessage(), f.Phase, f.By, f.HTTPStatus, f.Executed, next, details, front.Retry(f), f.URL,
	}
}

// failedOutcome is the JSON result of a command that failed.
type failedOutcome struct {
	Error *wholeError `json:"error"`
}

// late returns a copy of a timeout of the bridge with the whole time that the command waited. The
// original has only the time of one of the command's calls. Other failures are returned unchanged.
func late(f *run.Failure, waited time.Duration) *run.Failure {
	if !isLate(f) {
		return f
	}
	own := *f // f may be shared
	own.Timeout = waited
	switch {
	case document.IsDocument(f.Phase):
		own.Message = fmt.Sprintf("The provider's documents could not be read within %s.", seconds(waited))
	case f.ExecutionID != "":
		own.Message = fmt.Sprintf("The run had not ended after %s.", seconds(waited))
	default:
		own.Message = fmt.Sprintf("The provider had not accepted the run after %s.", seconds(waited))
	}
	return &own
}

// isLate reports whether a failure is a timeout of the bridge.
func isLate(f *run.Failure) bool {
	return f != nil && f.Kind == run.DeadlineExceeded && f.By == run.Bridge
}

// explain writes a failure and the advice about it.
func (p *Provider) explain(f *run.Failure, next string) {
	p.Screen.Complain("%s", f.OperatorMessage())
	about := string(document.CodeOf(f))
	if f.HTTPStatus != 0 {
		about += fmt.Sprintf(", HTTP %d", f.HTTPStatus)
	}
	p.Screen.note(fmt.Sprintf("       (%s, phase %s, executed: %s)", printable(about), f.Phase, f.Executed))
	p.showURL(f)
	if f.Kind == run.InvalidDocument {
		fmt.Fprint(p.Screen.Err, faultLines(faultsOf(f)))
	}
	p.Screen.Advise(next)
}

func (p *Provider) showURL(f *run.Failure) {
	if f.URL != "" {
		p.Screen.note("       at " + printable(f.URL))
	}
}
