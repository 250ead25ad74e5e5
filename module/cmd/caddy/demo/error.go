package demo

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
)

// The error codes of section 8.1 that this provider uses.
const (
	codeValidation   = "VALIDATION_ERROR"
	codeAuth         = "AUTH_REQUIRED"
	codeNotFound     = "SKILL_NOT_FOUND"
	codeTimeout      = "INVOCATION_TIMEOUT"
	codeUnreachable  = "ENDPOINT_UNREACHABLE"
	codeIncompatible = "VERSION_INCOMPATIBLE"
)

// A runError is the member error of an error answer and of a failed run (section 8.2).
type runError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Details any    `json:"details,omitzero"`
	Retry   *retry `json:"retry,omitzero"`
}

type retry struct {
	SuggestedDelayMS int `json:"suggested_delay_ms"`
	MaxAttempts      int `json:"max_attempts"`
}

// refuse sends an error in the unified error format.
func refuse(w http.ResponseWriter, status int, e runError) {
	if e.Retry != nil && e.Retry.SuggestedDelayMS >= 1000 {
		w.Header().Set("Retry-After", strconv.Itoa(e.Retry.SuggestedDelayMS/1000))
	}
	writeJSON(w, status, object{"error": e})
}

func writeJSON(w http.ResponseWriter, status int, content any) {
	body, err := json.Marshal(content, json.Deterministic(true))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone
}
