package publish_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/cli/lint"
	"github.com/skill-bridge/caddy-skill-bridge/translate/publish"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// base is where the skills of these tests are served.
const base = "https://api.example.com/skill-sharing"

// files writes files to a new folder, and returns its path.
func files(tb testing.TB, texts map[string]string) string {
	tb.Helper()
	folder := tb.TempDir()
	for name, text := range texts {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return folder
}

func fileURL(path ...string) *url.URL {
	return &url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(path...))}
}

func all() *publish.Options {
	return &publish.Options{Namespace: "example.com", Include: []string{"*"}}
}

// translated returns what a document publishes.
func translated(t *testing.T, text string, options *publish.Options) *publish.API {
	t.Helper()
	api, err := publish.Read(t.Context(), nil, fileURL(files(t, map[string]string{"openapi.yaml": text}), "openapi.yaml"), options)
	if err != nil {
		t.Fatal(err)
	}
	sound(t, api)
	api.Skills, api.LeftOut = publish.Merge([]*publish.API{api})
	return api
}

// sound tests that bridges take each descriptor without a warning.
func sound(t *testing.T, api *publish.API) {
	t.Helper()
	for _, s := range api.Skills {
		text := s.Descriptor(base, "Pets")
		skill, err := discovery.NewSkill(text, nil)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for _, warning := range lint.Descriptor(t.Context(), text, skill, lint.Allowed{}) {
			if !strings.Contains(warning.Message, "is plain HTTP") { // of the token URL that the document has
				t.Errorf("%s: %s %s", s.ID, warning.Path, warning.Message)
			}
		}
		if e := s.Entry(base); e.ID != skill.ID || e.Name != skill.Name || e.Description != skill.Description || e.Version != skill.Version || e.Access != skill.Access || e.CapabilityType != skill.CapabilityType {
			t.Errorf("the entry %+v differs from the descriptor", e)
		}
	}
}

// notPublished returns what of an API is no skill.
func notPublished(api *publish.API) []publish.LeftOut {
	return slices.DeleteFunc(slices.Clone(api.LeftOut), func(l publish.LeftOut) bool { return l.Published })
}

// only returns the only skill of an API, and its descriptor.
func only(t *testing.T, api *publish.API) (*publish.Skill, *document.Descriptor) {
	t.Helper()
	if len(api.Skills) != 1 || len(api.LeftOut) > 0 {
		t.Fatalf("%d skills; left out: %v", len(api.Skills), api.LeftOut)
	}
	d, err := document.ParseDescriptor(api.Skills[0].Descriptor(base, "Pets"))
	if err != nil {
		t.Fatal(err)
	}
	return api.Skills[0], d
}

// operation returns a document with one operation, in flow style, and what else the document has.
func operation(version, methodAndPath, operation string, rest ...string) string {
	method, path, _ := strings.Cut(methodAndPath, " ")
	return fmt.Sprintf("%s\ninfo: {title: Pets, version: v1.2}\npaths: {%q: {%s: %s}}\n%s", version, path, strings.ToLower(method), operation, strings.Join(rest, "\n"))
}

const (
	v2  = `swagger: "2.0"`
	v30 = `openapi: 3.0.3`
	v31 = `openapi: 3.1.0`
)

// same compares a value, as JSON, with JSON.
func same(t *testing.T, what string, got any, want string) {
	t.Helper()
	text := jsonvalue.Marshal(got)
	var a, b any
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatalf("%s: %v", want, err)
	}
	if err := json.Unmarshal(text, &a); err != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("%s:\n got %s\nwant %s", what, text, want)
	}
}

// left returns the reason why the only operation of a document is no skill.
func left(t *testing.T, api *publish.API) string {
	t.Helper()
	if len(api.Skills) != 0 || len(api.LeftOut) != 1 {
		t.Fatalf("%d skills; left out: %v", len(api.Skills), api.LeftOut)
	}
	return api.LeftOut[0].Reason
}
