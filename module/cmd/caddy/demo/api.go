package demo

import (
	_ "embed"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

const maxRequest = 1 << 20 // bytes

// An object is a JSON object.
type object = map[string]any

// A failure is the error of an answer.
type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Details any    `json:"details,omitzero"`
}

//go:embed openapi.yaml
var openAPI string

// routes returns the handler of all requests.
func (h *Handler) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /openapi.yaml", document(openAPI))
	mux.HandleFunc("POST /summarize", slowly(time.Duration(h.RunTime), operation(summary{Sentences: 3}, summarize)))
	mux.HandleFunc("POST /markdown", operation(source{}, renderMarkdown))
	mux.HandleFunc("POST /qr-code", h.withKey(operation(symbol{Scale: 8}, drawQRCode)))
	mux.HandleFunc("POST /csv-to-json", operation(table{}, readCSV))
	mux.HandleFunc("POST /diff", h.withToken(operation(texts{Context: 3}, diffTexts)))
	mux.HandleFunc("POST /token", h.serveToken)
	mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "This API grants OAuth 2.0 client credentials only: POST to /token instead.", http.StatusBadRequest)
	})
	return mux
}

// document returns the handler of an OpenAPI document, which says where tokens are.
func document(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write([]byte(strings.ReplaceAll(text, "{origin}", "http://"+r.Host))) //nolint:gosec // YAML, for the one who sent the host; the client may be gone
	}
}

// operation returns the handler of an operation, whose inputs have defaults.
func operation[In any](defaults In, work func(In) (any, *failure)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		in := defaults
		if err := json.UnmarshalRead(http.MaxBytesReader(w, r.Body, maxRequest), &in); err != nil {
			refuse(w, http.StatusBadRequest, failure{Code: "INVALID_INPUT", Message: "The body is none of this operation: " + err.Error()})
			return
		}
		out, fault := work(in)
		if fault != nil {
			refuse(w, http.StatusBadRequest, *fault)
			return
		}
		writeJSON(w, http.StatusOK, out)
	}
}

// slowly makes an operation take a while.
func slowly(takes time.Duration, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		defer inProgress.begin()()
		select {
		case <-time.After(takes):
			next(w, r)
		case <-r.Context().Done():
		}
	}
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, status int, f failure) { writeJSON(w, status, object{"error": f}) }

func writeJSON(w http.ResponseWriter, status int, content any) {
	body, err := json.Marshal(content, json.Deterministic(true))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone
}
