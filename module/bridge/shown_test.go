package bridge_test

import (
	"encoding/json" // what Caddy's adapter writes with
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/skill-bridge/caddy-skill-bridge/module/bridge"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/manuals"
)

// unshown are options that need a file of a form that examples can't have, or are words of options that are shown.
var unshown = map[string]bool{
	"a2a.sign": true, "a2a.sign.file": true, "a2a.sign.key_id": true, "circuit_breaker.off": true,
	"old_seal_key": true, "webhooks.secrets": true, "webhooks.allow_any_port": true,
}

// TestEveryOptionIsShown: each option stands in an example or in a Caddyfile of a manual, which other tests load: what none needs has no user.
// Those of modules that are configured on their own are not looked at.
func TestEveryOptionIsShown(t *testing.T) {
	shown := map[string]bool{}
	examples, err := filepath.Glob(filepath.Join(manuals.Repository(t), "caddyfile-examples", "*.Caddyfile"))
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range examples {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		addOptions(t, shown, string(text))
	}
	for _, block := range manuals.In(t, "caddyfile") {
		addOptions(t, shown, block.Text)
	}
	all := map[string]bool{}
	addFields(all, "", reflect.TypeFor[bridge.Handler]())
	if len(all) < 80 {
		t.Fatalf("only %d options were found", len(all))
	}
	for _, option := range slices.Sorted(maps.Keys(all)) {
		if shown[option] == unshown[option] {
			t.Errorf("%s: in an example or in a Caddyfile of a manual: %t", option, shown[option])
		}
	}
}

// addOptions adds the JSON paths of the options of all bridges in a Caddyfile.
func addOptions(t *testing.T, to map[string]bool, caddyfile string) {
	t.Helper()
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		t.Logf("%.60q: %v", caddyfile, err)
		return
	}
	for _, handler := range handlersIn(t, config) {
		addMembers(to, "", handler)
	}
}

func addMembers(to map[string]bool, path string, raw json.RawMessage) {
	var list []json.RawMessage
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		for _, element := range list {
			addMembers(to, path, element)
		}
	} else if json.Unmarshal(raw, &object) == nil {
		for name, member := range object {
			to[path+name] = true
			addMembers(to, path+name+".", member)
		}
	}
}

// addFields adds the JSON paths of the fields of a type.
func addFields(to map[string]bool, path string, of reflect.Type) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return
	}
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			addFields(to, path, f.Type)
		case f.IsExported() && name != "" && name != "-":
			to[path+name] = true
			addFields(to, path+name+".", f.Type)
		}
	}
}
