package translate

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
)

// Call is an agent's wish to have a skill executed, free of the words of the
// protocol it arrived in.
type Call struct {
	run.Caller

	// Name is the skill's name as the agent wrote it. A name that the operator gave comes first; then a namespace
	// at its beginning says which source decides; and a bare id counts only where there is a single source.
	Name string
	// Inputs are those of the skill, and sent as they are; no text is an empty object. They are not used any more when
	// [Bridge.Start] returns.
	Inputs jsonrpc.Object
	// Checks counts what checking arguments takes, for all calls of one request; nil: for this one alone.
	Checks *inputs.Checks
	// Answer bounds what is kept for the answer, which it shares with those of other calls; nil: nothing does.
	Answer exchange.AnswerBudget
	// Version, if not empty, must be the one the provider offers.
	Version string
	// Timeout is the agent's own; 0 when it stated none.
	Timeout time.Duration
	// Wait, if not nil, is how long the agent waits, from the call's arrival, for a run that was accepted. If it has not
	// ended by then, that is the answer, and no failure. The call's timeout bounds it.
	Wait *time.Duration
}

// Listing is the answer to a [Query].
type Listing struct {
	// Skills in the byte order of their names.
	Skills []catalog.Entry
	// Unavailable are the sources that could not be read.
	Unavailable []catalog.Unavailable
}

// Query selects skills.
type Query struct {
	run.Caller

	Namespace string // only this one; empty: all
}

// Description is all that is known about one skill.
type Description struct {
	Name       string // what [Call.Name] accepts
	Namespace  string
	Descriptor *document.Descriptor
	// Document is the descriptor as published.
	Document jsontext.Value
	// InputSchema is a JSON Schema object for the arguments, made from the descriptor's inputs.
	InputSchema jsontext.Value
	// Denied is why a call would be refused for want of a credential, before anything is sent; nil: nothing is known
	// against it.
	Denied *run.Failure
}
