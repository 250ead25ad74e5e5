package demo

import (
	"cmp"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const maxRequest = 1 << 20 // bytes

// An invocation has the used members of a valid InvocationRequest (section 5.3).
type invocation struct {
	arguments arguments
	timeout   time.Duration // 0: none in the request
}

// Arguments are the inputs of a run by name, with defaults.
type arguments object

func (a arguments) text(name string) string {
	s, _ := a[name].(string)
	return s
}

func (a arguments) number(name string) int {
	n, _ := a[name].(float64)
	return int(n)
}

// requestSchema returns the schema of a skill's requests.
func (s *skill) requestSchema() (*jsonschema.Schema, error) {
	inputs, required := object{}, []any{}
	for _, in := range s.descriptor.Inputs {
		inputs[in.Name] = in.Schema
		if in.Required {
			required = append(required, in.Name)
		}
	}
	text, name := object{"type": "string"}, object{"type": "string", "minLength": 1.0}
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{}) // the schemas have no references
	err := c.AddResource("urn:request", object{
		"type": "object", "required": []any{"caller", "skill_id", "inputs"},
		"properties": object{
			"caller": object{
				"type": "object", "required": []any{"id", "type"},
				"properties": object{"id": name, "type": name, "credentials": object{"type": "object"}},
			},
			"skill_id": object{"const": s.descriptor.ID},
			"inputs":   object{"type": "object", "required": required, "properties": inputs},
			"context": object{"type": "object", "properties": object{
				"trace_id":   text,
				"priority":   object{"enum": []any{"low", "normal", "high"}},
				"timeout_ms": object{"type": "number", "exclusiveMinimum": 0.0},
			}},
		},
	})
	if err != nil {
		return nil, err
	}
	return c.Compile("urn:request")
}

// A fault is an entry in the details of a validation error (section 8.3.1).
type fault struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// readInvocation parses and validates an InvocationRequest.
func (s *skill) readInvocation(body []byte) (in invocation, faults []fault) {
	var request any
	if json.Unmarshal(body, &request) != nil {
		return in, []fault{{Message: "the body is not JSON with unique member names in UTF-8"}}
	}
	if err, ok := errors.AsType[*jsonschema.ValidationError](s.request.Validate(request)); ok {
		for _, unit := range err.BasicOutput().Errors {
			if unit.Error != nil {
				faults = append(faults, fault{unit.InstanceLocation, unit.Error.String()})
			}
		}
		slices.SortFunc(faults, func(a, b fault) int {
			return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Message, b.Message))
		})
		return in, faults
	}
	members := request.(object)
	in.arguments = members["inputs"].(object)
	for _, input := range s.descriptor.Inputs {
		if in.arguments[input.Name] == nil {
			in.arguments[input.Name] = input.Default
		}
	}
	context, _ := members["context"].(object)
	ms, _ := context["timeout_ms"].(float64)
	// All runs are shorter than twice maxRunTime, so a longer timeout has no effect.
	in.timeout = time.Duration(min(ms, float64(2*maxRunTime.Milliseconds())) * float64(time.Millisecond))
	return in, nil
}

// serveInvocation starts a run for an InvocationRequest and answers with its first report (sections
// 5.3 and 5.4).
func (h *Handler) serveInvocation(w http.ResponseWriter, r *http.Request, s *skill) {
	if !h.admit(w, r, s) {
		return
	}
	if version := s.descriptor.Protocol.Version; version != protocolOfIndex {
		refuse(w, http.StatusUnprocessableEntity, runError{
			Code:    codeIncompatible,
			Message: "This skill needs a consumer of protocol version " + version,
			Details: object{"descriptor_version": version},
		})
		return
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, runError{Code: codeValidation, Message: "The request must be application/json"})
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, runError{Code: codeValidation, Message: "The request is larger than 1 MiB, or incomplete"})
		return
	}
	in, faults := s.readInvocation(body)
	if len(faults) > 0 {
		refuse(w, http.StatusBadRequest, runError{Code: codeValidation, Message: "Invalid InvocationRequest", Details: faults})
		return
	}
	first, ok := h.runs.start(s, s.takes(time.Duration(h.RunTime)), in, len(body))
	switch {
	case !ok:
		// The protocol has no code for too many runs.
		refuse(w, http.StatusTooManyRequests, runError{
			Code:    codeUnreachable,
			Message: "Too many skills are running at once",
			Retry:   &retry{SuggestedDelayMS: 1000, MaxAttempts: 3},
		})
	case first.Status.final():
		writeJSON(w, http.StatusOK, first)
		h.runs.noteRead(first.ExecutionID)
	default:
		h.writeReport(w, s, first, http.StatusAccepted)
	}
}

// serveRun answers with the status of a run, and with its output, unless that is only at the result
// URL.
func (h *Handler) serveRun(w http.ResponseWriter, r *http.Request, result bool) {
	id := r.PathValue("id")
	s, rep, ok := h.runs.find(id)
	if !ok {
		refuse(w, http.StatusNotFound, runError{
			Code:    codeNotFound,
			Message: "Execution '" + id + "' was not found; runs are kept for " + keepEnded.String() + " after they ended",
			Details: object{"execution_id": id},
		})
		return
	}
	if !h.admit(w, r, s) {
		return
	}
	more := s.resultOnly && !result && rep.Status == completed // the output is elsewhere
	if more {
		rep.Output = nil
	}
	h.writeReport(w, s, rep, http.StatusOK)
	if rep.Status.final() && !more {
		h.runs.noteRead(id)
	}
}

func (h *Handler) writeReport(w http.ResponseWriter, s *skill, rep report, status int) {
	if !rep.Status.final() && s.takes(time.Duration(h.RunTime)) >= time.Second {
		w.Header().Set("Retry-After", "1")
	}
	writeJSON(w, status, rep)
}
