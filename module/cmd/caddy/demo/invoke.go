package demo

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"time"
)

const maxRequest = 1 << 20 // bytes

// serveInvocation takes an InvocationRequest and answers with the first
// report of a run (sections 5.3 and 5.4).
func (h *Handler) serveInvocation(w http.ResponseWriter, r *http.Request, slug string) error {
	s := h.catalog.skills[slug]
	if s == nil {
		return skillNotFound(idPrefix + slug).write(w)
	}
	owner, lacking := h.admit(r, s.protection, scopeRun)
	if lacking != nil {
		return lacking.write(w)
	}
	if s.protocol != protocolOfIndex {
		return problem{
			status:  http.StatusUnprocessableEntity,
			code:    codeIncompatible,
			message: "This skill needs a consumer of protocol version " + s.protocol,
			details: map[string]string{"descriptor_version": s.protocol},
		}.write(w)
	}
	body, unreadable := readBody(w, r)
	if unreadable != nil {
		return unreadable.write(w)
	}
	in, faults := readInvocation(body, s.id(), s.inputs)
	if len(faults) > 0 {
		return invalidRequest(http.StatusBadRequest, "Invalid InvocationRequest", faults...).write(w)
	}

	first, err := h.state.runs.start(s, owner, in, len(body))
	switch {
	case errors.Is(err, errFull):
		// none of the seven codes says "too many"; this one says "later"
		return problem{
			status:  http.StatusTooManyRequests,
			code:    codeUnreachable,
			message: "Too many skills are running at once",
			retry:   &retry{SuggestedDelayMS: 1000, MaxAttempts: 3},
		}.write(w)
	case err != nil:
		return problem{
			status:  http.StatusServiceUnavailable,
			code:    codeUnreachable,
			message: "The provider is stopping",
			retry:   &retry{SuggestedDelayMS: 1000, MaxAttempts: 3},
		}.write(w)
	}
	if first.Status.final() {
		return writeReport(w, s, first, http.StatusOK)
	}
	return writeReport(w, s, first, http.StatusAccepted)
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *problem) {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/json" {
		p := invalidRequest(http.StatusUnsupportedMediaType, "The request must be application/json",
			fault{Message: "wrong Content-Type", Expected: "application/json", Actual: r.Header.Get("Content-Type")})
		return nil, &p
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		p := invalidRequest(http.StatusRequestEntityTooLarge, "The request is larger than 1 MiB",
			fault{Message: "too large", Expected: "at most 1048576 bytes"})
		return nil, &p
	}
	if err != nil {
		p := invalidRequest(http.StatusBadRequest, "The request could not be read to its end")
		return nil, &p
	}
	return body, nil
}

// serveRun answers with the state of a run. Its output comes with the status
// too, unless the skill keeps it for the result.
func (h *Handler) serveRun(w http.ResponseWriter, r *http.Request, id string, result bool) error {
	found, ok := h.state.runs.find(id)
	if !ok {
		return runNotFound(id).write(w)
	}
	owner, lacking := h.admit(r, found.skill.protection, scopeRun, scopeRead)
	if lacking != nil {
		return lacking.write(w)
	}
	if owner != found.owner {
		return runNotFound(id).write(w)
	}
	if found.skill.resultOnly && !result {
		found.report.Output = nil
	}
	return writeReport(w, found.skill, found.report, http.StatusOK)
}

func writeReport(w http.ResponseWriter, s *skill, rep report, status int) error {
	w.Header().Set("Cache-Control", "no-store")
	if !rep.Status.final() && s.duration >= time.Second {
		w.Header().Set("Retry-After", "1")
	}
	return writeJSON(w, status, rep)
}
