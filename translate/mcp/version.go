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

// The versions of MCP.
const (
	version20260728 = "2026-07-28"
	version20251125 = "2025-11-25"
	version20250618 = "2025-06-18"
	version20250326 = "2025-03-26"
)

// AllVersions are the versions of MCP that can be served, the newest first.
func AllVersions() []string {
	return []string{version20260728, version20251125, version20250618, version20250326}
}

// isModern reports whether the requests of a version describe themselves.
func isModern(version string) bool { return version == version20260728 }

// saysModern reports whether a request is of a modern client. Some clients of legacy servers send Mcp-Method, too, but never
// without their version.
func (r *request) saysModern() bool {
	if r.meta.Version != nil {
		return true
	}
	if r.HTTP == nil || r.Method == methodInitialize { // which negotiates a legacy version, whatever the header says
		return false
	}
	said := r.HTTP.Header[wire.HeaderVersion]
	if len(said) > 0 {
		return slices.ContainsFunc(said, func(v string) bool { return isModern(wire.Trim(v)) })
	}
	return len(r.HTTP.Header[wire.HeaderMethod]) > 0
}

// legacyVersion returns the version of a legacy request. If the field is empty, or is there twice, it is none.
func (r *request) legacyVersion() string {
	if r.HTTP == nil || len(r.HTTP.Header[wire.HeaderVersion]) == 0 {
		return version20250326
	}
	version, _ := wire.Field(r.HTTP.Header, wire.HeaderVersion)
	return version
}

// newestLegacy is the version that initialize offers to clients that ask for one that is not served; empty: none is served.
func (o *Options) newestLegacy() string {
	for _, v := range o.Versions {
		if !isModern(v) {
			return v
		}
	}
	return ""
}

func (o *Options) serves(version string) bool { return slices.Contains(o.Versions, version) }

// checkHeader checks that the header of a modern request repeats what its body says, so that proxies can rely on it.
func (r *request) checkHeader() *jsonrpc.Error {
	if r.HTTP == nil {
		return nil
	}
	if said, ok := wire.Field(r.HTTP.Header, wire.HeaderVersion); !ok {
		return headerMismatch("the field MCP-Protocol-Version is missing or is there more than once")
	} else if version := jsonrpc.Text(r.meta.Version); said != version {
		return headerMismatch("the field MCP-Protocol-Version says " + quoted(said) + ", and _meta says " + quoted(version))
	}
	if version := jsonrpc.Text(r.meta.Version); !isModern(version) || !r.front.Options.serves(version) {
		return r.unsupportedVersion(version)
	}
	if said, ok := wire.Field(r.HTTP.Header, wire.HeaderMethod); !ok || said != r.Method {
		return headerMismatch("the field Mcp-Method must say the method " + quoted(r.Method))
	}
	name, named := wire.NameParams[r.Method]
	if value := r.Param(name).Value; named && value.Kind() == '"' && !wire.Repeats(r.HTTP.Header, wire.HeaderName, jsonrpc.Text(value)) {
		return headerMismatch("the field Mcp-Name must say the " + name + " of the params")
	}
	return nil // the method refuses other params
}

// Profile returns the JSON-RPC profile of MCP: only 2025-03-26 has batches, of up to maxBatch elements, ids are texts or whole numbers,
// errors without a readable id have none, and requests that are none have the HTTP status 400.
func (o *Options) Profile(maxBatch int) jsonrpc.Profile {
	return jsonrpc.Profile{
		MaxBatch: maxBatch, TakesBatch: o.takesBatch,
		OmitNullID: true, WholeIDs: true,
		MediaTypes:         []string{"application/json"},
		NotificationStatus: http.StatusAccepted,
		TakesResponse: func(r *http.Request) bool {
			said, _ := wire.Field(r.Header, wire.HeaderVersion)
			return !isModern(said)
		},
		ErrorStatus: func(code int) int {
			if code == jsonrpc.CodeInvalidRequest {
				return http.StatusBadRequest
			}
			return 0
		},
		ErrorData: wire.EnvelopeData,
		Refuse:    refuse,
		TooLarge:  tooLarge,
	}
}

// takesBatch reports whether an HTTP request is one of 2025-03-26, whose servers have to take batches (2025-03-26, Base Protocol, Batching).
func (o *Options) takesBatch(r *http.Request) bool {
	if len(r.Header[wire.HeaderVersion]) == 0 {
		return len(r.Header[wire.HeaderMethod]) == 0 && o.serves(version20250326)
	}
	said, _ := wire.Field(r.Header, wire.HeaderVersion)
	return said == version20250326 && o.serves(said)
}

// refuse returns the error for an HTTP request whose body is not read.
func refuse(status int, reason string) *jsonrpc.Error {
	if front.RefusedCaller(status, reason) != nil {
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
