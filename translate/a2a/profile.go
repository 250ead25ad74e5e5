package a2a

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/message"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Profile returns the JSON-RPC profile of A2A: batches have up to maxBatch elements, null is a valid id, and errors have the HTTP
// status 200, malformed JSON too, since the clients of 0.1 read nothing else.
func Profile(maxBatch int) jsonrpc.Profile {
	messages := map[int]string{}
	for _, code := range []int{jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, jsonrpc.CodeInternalError} {
		messages[code] = wire.Message(code)
	}
	return jsonrpc.Profile{
		MaxBatch:    maxBatch,
		NullID:      true,
		Methods:     slices.Sorted(slices.Values(Methods())),
		ParseStatus: http.StatusOK,
		Messages:    messages,
		MediaTypes:  []string{"application/json", "application/a2a+json"},
		Allow:       "GET, HEAD, POST",
		ErrorData:   envelopeData,
		ErrorForm:   errorForm,
		Refuse:      refuse,
		TooLarge:    tooLarge,
		LimitNames:  front.LimitNames(),
	}
}

// errorForm converts an error of package jsonrpc for a client that states a version before 1.0: its data becomes one object.
func errorForm(r *http.Request, e *jsonrpc.Error) *jsonrpc.Error {
	if said, _ := saidVersion(r); said == 0 || said == wire.V10 {
		return e
	}
	w := front.Writer{Buf: []byte{'{'}}
	add := func(name, value jsontext.Value) bool {
		w.Next()
		w.Buf = append(append(append(w.Buf, name...), ':'), value...)
		return true
	}
	jsonrpc.EachMember(e.Data[1:len(e.Data)-1], func(name, value jsontext.Value) bool { // the only element of the array
		switch string(name) {
		case `"@type"`:
		case `"metadata"`:
			jsonrpc.EachMember(value, add)
		default:
			add(name, value)
		}
		return true
	})
	w.Close()
	own := *e
	own.Data = w.Buf
	return &own
}

// envelopeData returns the data of errors of package jsonrpc, in the form of A2A 1.0, since the version is not known there.
func envelopeData(code int, reason string, limit *jsonrpc.Limit) jsontext.Value {
	facts := map[string]string{"detail": reason}
	if limit != nil && limit.Name != "" {
		facts["limit"] = limit.String()
	}
	return wire.Error(wire.V10, code, "", "", facts).Data
}

// tooLarge returns the error for an answer that exceeds the memory for answers. The client can read fewer tasks at a time.
func tooLarge(req *jsonrpc.Request, _ *jsonrpc.Error) *jsonrpc.Error {
	r := &request{Request: req, front: new(Front)}
	said, _ := saidVersion(req.HTTP)
	r.version = dialectOf(said, methods[req.Method], req.Method)
	limit, most := req.AnswerLimit()
	return r.failureError(&run.Failure{
		Kind: run.RateLimited, Phase: run.PhaseResult, By: run.Bridge, Executed: run.ExecutedMaybe,
		Message: "There is no room for this answer (limits " + limit + ": " + strconv.FormatInt(most, 10) + " bytes): read the task again, or fewer tasks at once.",
		Limit:   &run.Limit{Name: limit, Max: most}, Retry: run.RetryIn(time.Second, 3),
	})
}

// refuse returns the error for an HTTP request whose body is not read.
func refuse(status int, reason string) *jsonrpc.Error {
	switch status {
	case http.StatusUnsupportedMediaType:
		return contentTypeNotSupported(wire.V10, reason)
	case http.StatusUnauthorized:
		failure := front.Unauthenticated(reason)
		return wire.BridgeError(wire.V10, codeAuthRequired, message.Text(failure), failure, false)
	}
	return nil
}
