package observe

import (
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Front has the words of one front that logs and traces use.
type Front struct {
	// Param returns the name of the param that an argument is; nil: it is the argument's own name.
	Param func(a *run.Argument) string
	// Code returns the code of the JSON-RPC error that a call is answered with; 0: it is answered with a result. nil: 0.
	Code func(c *translate.Call, o *run.Run) int
}

// Fronts are the fronts of a handler by name, as in [run.Caller].
type Fronts map[string]Front

func (all Fronts) param(front string, a *run.Argument) string {
	if param := all[front].Param; param != nil {
		return param(a)
	}
	return a.Name
}

func (all Fronts) code(c *translate.Call, o *run.Run) int {
	if code := all[c.Front].Code; code != nil {
		return code(c, o)
	}
	return 0
}
