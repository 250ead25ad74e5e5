package setup_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/setup"
)

// box is a type with a parameter, whose name in Go has brackets, slashes and a colon.
type box[T any] struct {
	Held T `json:"held"`
}

// boxes is an app of Caddy with such types.
type boxes struct {
	Box box[struct {
		Key string `json:"key:~0"`
	}] `json:"box"`
}

func (*boxes) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "boxes", New: func() caddy.Module { return new(boxes) }}
}

func (*boxes) Start() error { return nil }
func (*boxes) Stop() error  { return nil }

// TestSchemaReferences: what a program may contain of others has names in Go that a reference must escape. Each reference is a valid URL without
// escapes, and names a definition that is there.
func TestSchemaReferences(t *testing.T) {
	caddy.RegisterModule(new(boxes))
	setup.Sources = os.DirFS("..")
	text, err := json.Marshal(setup.Schema())
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Defs map[string]jsontext.Value `json:"$defs"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	generic := 0
	for _, found := range regexp.MustCompile(`"\$ref":"((?:[^"\\]|\\.)*)"`).FindAllSubmatch(text, -1) {
		name, isOwn := strings.CutPrefix(string(found[1]), "#/$defs/")
		if strings.Contains(name, "setup_test.box") {
			generic++
		}
		if !isOwn || !regexp.MustCompile(`^[\w.-]+$`).MatchString(name) || len(schema.Defs[name]) == 0 {
			t.Errorf("there is no definition for %s", found[1])
		}
	}
	if generic == 0 {
		t.Error("the type with a parameter is missing")
	}
}
