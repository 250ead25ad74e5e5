package observe

import (
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Reports have the words of the front that was called.
func TestFronts(t *testing.T) {
	fronts := Fronts{
		"one": {
			Param: func(a *run.Argument) string { return "one." + a.Name },
			Code:  func(*translate.Call, *run.Run) int { return -1 },
		},
		"other": {Code: func(*translate.Call, *run.Run) int { return -2 }},
	}
	for front, want := range map[string]struct {
		param string
		code  int
	}{"one": {"one.city", -1}, "other": {"city", -2}, "": {"city", 0}} {
		param, code := fronts.param(front, &run.Argument{Name: "city"}), fronts.code(&translate.Call{Caller: run.Caller{Front: front}}, new(run.Run))
		if param != want.param || code != want.code {
			t.Errorf("%q: %q, %d, want %+v", front, param, code, want)
		}
	}
}
