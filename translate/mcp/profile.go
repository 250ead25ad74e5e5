package mcp

import (
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Profile returns the JSON-RPC profile of MCP: no batches, ids are texts or whole numbers, errors without a readable id have none,
// and requests that are none have the HTTP status 400.
func Profile() jsonrpc.Profile {
	return jsonrpc.Profile{
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
		ErrorData:  envelopeData,
		TooLarge:   tooLarge,
		LimitNames: front.LimitNames(),
	}
}

// envelopeData returns the data of errors of package jsonrpc.
func envelopeData(_ int, reason string, limit *jsonrpc.Limit) jsontext.Value {
	var w front.Writer
	w.Open()
	w.Text("reason", reason)
	if limit != nil && limit.Name != "" {
		w.Raw("details", front.LimitDetails(limit.Name, limit.Max))
	}
	w.Close()
	return w.Buf
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
