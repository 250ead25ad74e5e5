package mcp

import (
	"net/http"
	"slices"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Profile returns the JSON-RPC profile of MCP: only 2025-03-26 has batches, of up to maxBatch elements, ids are texts or whole numbers,
// errors without a readable id have none, and requests that are none have the HTTP status 400.
func (o *Options) Profile(maxBatch int) jsonrpc.Profile {
	return jsonrpc.Profile{
		MaxBatch: maxBatch, TakesBatch: o.takesBatch,
		OmitNullID: true, WholeIDs: true,
		Methods:            slices.Sorted(slices.Values(Methods())),
		MediaTypes:         []string{"application/json"},
		NotificationStatus: http.StatusAccepted,
		TakesResponse: func(r *http.Request) bool {
			said, _ := wire.Field(r.Header, headerVersion)
			return !isModern(said)
		},
		ErrorStatus: func(code int) int {
			if code == jsonrpc.CodeInvalidRequest {
				return http.StatusBadRequest
			}
			return 0
		},
		ErrorData:  wire.EnvelopeData,
		Refuse:     refuse,
		TooLarge:   tooLarge,
		LimitNames: front.LimitNames(),
	}
}

// takesBatch reports whether an HTTP request is one of 2025-03-26, whose servers have to take batches (2025-03-26, Base Protocol, Batching).
func (o *Options) takesBatch(r *http.Request) bool {
	if len(r.Header[headerVersion]) == 0 {
		return len(r.Header[headerMethod]) == 0 && o.serves(version20250326)
	}
	said, _ := wire.Field(r.Header, headerVersion)
	return said == version20250326 && o.serves(said)
}

// refuse returns the error for an HTTP request whose body is not read.
func refuse(status int, reason string) *jsonrpc.Error {
	if status == http.StatusUnauthorized {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: reason}
	}
	return nil
}

// tooLarge returns the error for an answer that exceeds the memory for answers. If the answer is an error, it is that error without
// its data. Results of runs do not come here: their calls know the run.
func tooLarge(req *jsonrpc.Request, fault *jsonrpc.Error) *jsonrpc.Error {
	executed := run.ExecutedNo
	switch req.Method {
	case methodCallTool:
		executed = run.ExecutedMaybe
	case methodGetTask, methodGetPrompt:
		executed = run.ExecutedYes
	}
	failure := exchange.NoRoom(req, "", "", executed, req.Method == methodGetTask)
	e := failureError(failure, "")
	if fault != nil {
		e.Code, e.Message, e.Status = fault.Code, safetext.Line(fault.Message, maxMessage), fault.Status
	}
	return e
}
