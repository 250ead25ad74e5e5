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

// executionFailed is the type of a failed run whose provider named none.
const executionFailed = "EXECUTION_FAILED"

// codeRow says how a kind of failure is answered.
type codeRow struct {
	// Code is the JSON-RPC code.
	Code int
	// Name is the code of the Skill Sharing Protocol, or empty where it has none.
	Name document.ErrorCode
	// Meaning completes the guide's table, and stands in for a missing message.
	Meaning string
}

// codes is the one table from what went wrong to how this protocol says it. The
// guide is made from it too. RunFailed only has a message: a failed run is a result.
var codes = [...]codeRow{
	run.Internal:            {jsonrpc.CodeInternalError, "", "The bridge failed because of a bug"},
	run.InvalidArguments:    {jsonrpc.CodeInvalidParams, document.ValidationError, "The params or the skill's arguments are invalid"},
	run.SkillNotFound:       {jsonrpc.CodeInvalidParams, document.SkillNotFound, "There is no skill of that name or version"},
	run.AuthRequired:        {codeAuthRequired, document.AuthRequired, "A credential is missing or was refused"},
	run.PermissionDenied:    {codePermissionDenied, document.PermissionDenied, "The credential does not allow this"},
	run.DeadlineExceeded:    {codeInvocationTimeout, document.InvocationTimeout, "The deadline passed before the provider accepted a run, or the bridge was stopped"},
	run.Unreachable:         {codeEndpointUnreachable, document.EndpointUnreachable, "The provider can't be reached"},
	run.VersionIncompatible: {codeVersionIncompatible, document.VersionIncompatible, "The skill needs a newer protocol than the bridge speaks"},
	run.InvalidDocument:     {codeValidationError, document.ValidationError, "A document that the provider publishes is invalid"},
	run.ProviderFault:       {codeProviderError, document.InvalidProviderResponse, "The provider's answer is invalid"},
	run.RateLimited:         {codeRateLimited, document.RateLimited, "Too many requests at once"},
	run.Stopped:             {codeInvocationTimeout, document.InvocationTimeout, "The bridge was stopped before the run had ended"},
	run.ClientGone:          {codeInvocationTimeout, document.InvocationTimeout, "The caller disconnected before the run ended"},
	run.RunFailed:           {Meaning: "The run failed and the provider gave no reason"},
}

// rowOf never fails: a kind that is not in the table is a bug of the bridge.
func rowOf(kind run.Kind) codeRow {
	if int(kind) >= len(codes) {
		return codes[run.Internal]
	}
	return codes[kind]
}

// named reports whether a failure is answered with the name of its row. The
// bridge's own finding about arguments has none: the Skills Protocol says
// it with param and reason.
func named(kind run.Kind, by run.Party) bool {
	return kind != run.InvalidArguments || by == run.Provider
}
