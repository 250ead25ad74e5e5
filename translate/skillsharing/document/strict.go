package document

import "github.com/skill-bridge/caddy-skill-bridge/translate/run"

// CheckResponse returns what the protocol's JSON Schema says against an InvocationResponse (section 5.4); nil: nothing. Runs are
// followed by less: see [Response].
func CheckResponse(body []byte) []run.Violation { return Standard.validate("InvocationResponse", body) }
