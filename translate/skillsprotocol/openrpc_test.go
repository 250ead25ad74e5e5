package skillsprotocol_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// TestDiscover: the OpenRPC document has each method with its params, and each error code.
func TestDiscover(t *testing.T) {
	text := result(t, &fakeBridge{}, "rpc.discover", ``)
	doc := decode[struct {
		OpenRPC string `json:"openrpc"`
		Info    struct{ Title, Version string }
		Methods []struct {
			Name   string `json:"name"`
			Params []struct {
				Name string `json:"name"`
			} `json:"params"`
		} `json:"methods"`
		Components struct {
			Errors map[string]struct {
				Code    int    `json:"code"`
				Message string `json:"message"`
			} `json:"errors"`
		} `json:"components"`
	}](t, strings.NewReplacer(`"title"`, `"Title"`, `"version":"`, `"Version":"`, `"info"`, `"Info"`).Replace(text))
	methods := map[string][]string{}
	for _, m := range doc.Methods {
		methods[m.Name] = []string{}
		for _, p := range m.Params {
			methods[m.Name] = append(methods[m.Name], p.Name)
		}
		slices.Sort(methods[m.Name])
	}
	for method, params := range skillsprotocol.MethodParams() {
		if !slices.Equal(methods[method], params) {
			t.Errorf("%s: %q, want %q", method, methods[method], params)
		}
		delete(methods, method)
	}
	if len(methods) > 0 || doc.OpenRPC != "1.3.2" || doc.Info.Version != "v1.2.3" {
		t.Errorf("%v %+v", methods, doc.Info)
	}
	codes := map[int]string{}
	for _, e := range doc.Components.Errors {
		codes[e.Code] = e.Message
	}
	for code, meaning := range skillsprotocol.Codes() {
		if codes[code] == "" {
			t.Errorf("%d (%s) is missing", code, meaning)
		}
	}
}
