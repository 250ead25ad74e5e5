package skillsprotocol

import (
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Codes of the range that JSON-RPC leaves to servers (JSON-RPC 2.0, section
// 5.1). The block is unused by the other agent protocols.
const (
	codeAuthRequired        = -32050
	codePermissionDenied    = -32051
	codeInvocationTimeout   = -32052
	codeEndpointUnreachable = -32053
	codeVersionIncompatible = -32054
	codeValidationError     = -32055
	codeProviderError       = -32056
	codeRateLimited         = -32057
)

// codeRow is the error for one kind of failure.
type codeRow struct {
	// Code is the JSON-RPC code.
	Code int
	// Meaning is for the guide's table, and the message of failures without one.
	Meaning string
}

// codes maps kinds of failures to errors of this protocol. The guide has it as a table.
// RunFailed has only a message, since a failed run is a result.
var codes = [...]codeRow{
	run.Internal:            {jsonrpc.CodeInternalError, "The bridge failed because of a bug"},
	run.InvalidArguments:    {jsonrpc.CodeInvalidParams, "The params or the skill's arguments are invalid"},
	run.SkillNotFound:       {jsonrpc.CodeInvalidParams, "There is no skill of that name or version"},
	run.AuthRequired:        {codeAuthRequired, "A credential is missing or was refused"},
	run.PermissionDenied:    {codePermissionDenied, "The credential does not allow this"},
	run.DeadlineExceeded:    {codeInvocationTimeout, "The deadline passed before the provider accepted a run, or the bridge was stopped"},
	run.Unreachable:         {codeEndpointUnreachable, "The provider can't be reached"},
	run.VersionIncompatible: {codeVersionIncompatible, "The skill needs a newer protocol than the bridge speaks"},
	run.InvalidDocument:     {codeValidationError, "A document that the provider publishes is invalid, or asks for requests that the bridge can't send"},
	run.NotSupported:        {codeValidationError, "The skill takes requests of a type that the bridge can't send"},
	run.ProviderFault:       {codeProviderError, "The provider's answer is invalid"},
	run.RateLimited:         {codeRateLimited, "Too many requests at once"},
	run.Stopped:             {codeInvocationTimeout, "The bridge was stopped before the run had ended"},
	run.CallerGone:          {codeInvocationTimeout, "The caller disconnected before the run ended"},
	run.CallerCanceled:      {codeInvocationTimeout, "The caller canceled the call before the run ended"},
	run.RunFailed:           {Meaning: "The run failed and the provider gave no reason"},
}

// rowOf returns the row of a kind. A kind that is not in the table is a bug of the bridge.
func rowOf(kind run.Kind) codeRow {
	if int(kind) >= len(codes) {
		return codes[run.Internal]
	}
	return codes[kind]
}

// nameOf returns the code of the Skill Sharing Protocol for a kind of errors; empty: it has none.
func nameOf(kind run.Kind) document.ErrorCode {
	if kind == run.RunFailed || int(kind) >= len(codes) {
		return ""
	}
	return document.CodeOf(&run.Failure{Kind: kind})
}
