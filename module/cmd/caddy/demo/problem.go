package demo

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
)

// The error codes this provider uses, of the seven in section 8.1.
const (
	codeValidation   = "VALIDATION_ERROR"
	codeAuth         = "AUTH_REQUIRED"
	codePermission   = "PERMISSION_DENIED"
	codeNotFound     = "SKILL_NOT_FOUND"
	codeTimeout      = "INVOCATION_TIMEOUT"
	codeUnreachable  = "ENDPOINT_UNREACHABLE"
	codeIncompatible = "VERSION_INCOMPATIBLE"
)

// A problem is an answer in the unified error format (section 8.2).
type problem struct {
	status    int
	code      string
	message   string
	details   any
	retry     *retry
	challenge string // WWW-Authenticate, which a 401 must carry (RFC 9110, section 15.5.2)
}

type retry struct {
	SuggestedDelayMS int `json:"suggested_delay_ms"`
	MaxAttempts      int `json:"max_attempts"`
}

// A fault is one entry in the details of a validation error (section 8.3.1).
type fault struct {
	Path     string `json:"path"`
	Message  string `json:"message"`
	Expected any    `json:"expected,omitzero"`
	Actual   any    `json:"actual,omitzero"`
}

// A runError is the error member of an error answer and of a failed run.
type runError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Details any    `json:"details,omitzero"`
	Retry   *retry `json:"retry,omitzero"`
}

func (p problem) write(w http.ResponseWriter) error {
	if p.challenge != "" {
		w.Header().Set("WWW-Authenticate", p.challenge)
	}
	if p.retry != nil && p.retry.SuggestedDelayMS >= 1000 {
		w.Header().Set("Retry-After", strconv.Itoa(p.retry.SuggestedDelayMS/1000))
	}
	w.Header().Set("Cache-Control", "no-store")
	return writeJSON(w, p.status, struct {
		Error runError `json:"error"`
	}{runError{p.code, p.message, p.details, p.retry}})
}

func skillNotFound(id string) problem {
	return problem{
		status:  http.StatusNotFound,
		code:    codeNotFound,
		message: "Skill '" + id + "' was not found",
		details: map[string]string{"skill_id": id},
	}
}

func runNotFound(id string) problem {
	return problem{
		status:  http.StatusNotFound,
		code:    codeNotFound,
		message: "Execution '" + id + "' was not found; runs are kept for " + keepEnded.String() + " after they ended",
		details: map[string]string{"execution_id": id},
	}
}

func invalidRequest(status int, message string, faults ...fault) problem {
	return problem{status: status, code: codeValidation, message: message, details: faults}
}

func writeJSON(w http.ResponseWriter, status int, content any) error {
	body, err := json.Marshal(content, json.Deterministic(true))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, err = w.Write(body) //nolint:gosec // JSON, and said to be so: no browser takes it for a page
	return err
}
