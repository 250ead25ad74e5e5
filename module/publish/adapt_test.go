package publish_test

import (
	"bytes"
	"encoding/json" // what Caddy's adapter writes with
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/skill-bridge/caddy-skill-bridge/module/publish"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/manuals"
)

var update = flag.Bool("update", false, "write what the adapter answers into the golden file")

// The directive with all options is adapted to the JSON that stands after the separator, and is ordered before blocks and skill_bridge.
func TestAdapt(t *testing.T) {
	const file, separator = "../../testdata/adapt/publish/everything.caddyfiletest", "----------\n"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text, want, _ := strings.Cut(string(data), separator)
	config, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), nil)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	var got bytes.Buffer
	if err := json.Indent(&got, config, "", "\t"); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, []byte(text+separator+got.String()+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got.String()+"\n" != want {
		t.Errorf("got\n%s\nwant\n%s", &got, want)
	}
}

// Each fault of a block is an error that says what to write.
func TestFaults(t *testing.T) {
	const openapi = "openapi a.yaml {\n\tinclude *\n}\n"
	for name, c := range map[string]struct{ block, fault string }{
		"nothing":            {"", "there is nothing to publish: add openapi with a document, or skills with a folder of descriptors"},
		"argument":           {"openapi a.yaml b.yaml", "openapi takes a file or a URL (arguments given: 2)"},
		"no include":         {"openapi a.yaml", "openapi needs include with the operations to publish"},
		"unknown option":     {openapi + "includes x", "unknown option \"includes\" of skill_publish"},
		"unknown in openapi": {"openapi a.yaml {\n\tincludes x\n}", "did you mean include?"},
		"http":               {"openapi http://example.com/a.yaml {\n\tinclude *\n}", "is read without TLS"},
		"access":             {"openapi a.yaml {\n\tinclude *\n\taccess secret\n}", "access \"secret\" is none of public, restricted and private"},
		"rename":             {"openapi a.yaml {\n\tinclude *\n\trename a b\n}", "the id \"b\" of a is not one such as pets/list"},
		"second rename":      {"openapi a.yaml {\n\tinclude *\n\trename a b/c\n\trename d e\n}", "the id \"e\" of d is not one such as pets/list: the second part is missing, at Testfile:5"},
		"rename to runs":     {"openapi a.yaml {\n\tinclude *\n\trename a runs/b\n}", "namespace \"runs\" is taken"},
		"renamed twice":      {"openapi a.yaml {\n\tinclude *\n\trename a b/c\n\trename a b/d\n}", "operation \"a\" is renamed twice"},
		"output_schema":      {"openapi a.yaml {\n\tinclude *\n\toutput_schema no\n}", "output_schema \"no\" is neither on nor off"},
		"url with a path":    {openapi + "url https://example.com/api", "is no origin"},
		"url":                {openapi + "url example.com", "is not an absolute https or http URL"},
		"namespace":          {openapi + "namespace a/b", "namespace \"a/b\" has a character"},
		"namespace skills":   {openapi + "namespace skills", "namespace \"skills\" is taken: runs and skills are other paths"},
		"path":               {openapi + "path skills", "is not a path such as /skill-sharing"},
		"well-known":         {openapi + "path /.well-known/x", "is not below /.well-known"},
		"async_after":        {openapi + "async_after never", "async_after \"never\" is neither a duration, such as 2s, nor off"},
		"timeout":            {openapi + "timeout 1us", "timeout 1µs is too short"},
		"seal_key":           {openapi + "seal_key x", "unknown option \"seal_key\""},
		"keep":               {openapi + "keep 1s", "keep 1s is too short"},
		"networks":           {openapi + "allow_networks x", "network \"x\" is neither an address nor a CIDR range"},
		"private_for":        {openapi + "private_for http.auth.user.id", "private_for \"http.auth.user.id\" has to be one placeholder, such as {http.auth.user.id}"},
		"private_for a text": {openapi + "private_for {http.auth.user.id}x", "has to be one placeholder"},
		"private_for all":    {openapi + "private_for {env.HOME}", "private_for \"{env.HOME}\" is the same for all requests"},
		"provider":           {openapi + "provider", "provider takes a name"},
	} {
		t.Run(name, func(t *testing.T) {
			err := new(publish.Handler).UnmarshalCaddyfile(caddyfile.NewTestDispenser("skill_publish {\n" + c.block + "\n}"))
			if err == nil || !strings.Contains(err.Error(), c.fault) || !strings.Contains(err.Error(), "Testfile:") {
				t.Errorf("%v", err)
			}
		})
	}
	if err := new(publish.Handler).UnmarshalCaddyfile(caddyfile.NewTestDispenser("skill_publish a.yaml")); err == nil || !strings.Contains(err.Error(), "its options go into a block") {
		t.Error(err)
	}
}

// Validating a configuration reads no documents, connects to nothing and writes nothing.
func TestValidate(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte("http://localhost:9 {\n\tskill_publish {\n\t\topenapi missing.yaml {\n\t\t\tinclude *\n\t\t}\n\t}\n}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := new(caddy.Config)
	if err := json.Unmarshal(config, c); err != nil {
		t.Fatal(err)
	}
	if err := caddy.Validate(c); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(os.Getenv("XDG_DATA_HOME")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// The manual lists the options that the parser takes, with the syntax of its documentation.
func TestListing(t *testing.T) {
	lines := func(text string) (lines []string) {
		for line := range strings.Lines(text) {
			line, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "//"), " # ")
			if words := strings.Fields(line); len(words) > 0 {
				lines = append(lines, strings.Join(words, " "))
			}
		}
		return lines
	}
	written := lines(manuals.Listing(t, manuals.Publishing, "skill_publish"))
	_, documented, _ := strings.Cut(manuals.Read(t, "module/publish/caddyfile.go"), "Syntax:\n")
	documented, _, _ = strings.Cut(documented, "// An operation is")
	if got := lines(documented); !slices.Equal(got, written) {
		t.Errorf("the documentation of the parser has\n%q\nand the manual\n%q", got, written)
	}
	for block, in := range map[string]string{"unknown": "\t", "openapi a.yaml {\n unknown\n}": "\t\t"} {
		err := new(publish.Handler).UnmarshalCaddyfile(caddyfile.NewTestDispenser("skill_publish {\n" + block + "\n}"))
		_, list, _ := strings.Cut(err.Error(), ": it has ")
		list, _, _ = strings.Cut(list, ", at ")
		list, _, _ = strings.Cut(list, "; did")
		var options []string
		for line := range strings.Lines(manuals.Listing(t, manuals.Publishing, "skill_publish")) {
			if rest, ok := strings.CutPrefix(line, in); ok && !strings.HasPrefix(rest, "\t") && !strings.HasPrefix(rest, "}") {
				options = append(options, strings.Fields(rest)[0])
			}
		}
		slices.Sort(options)
		if got := strings.Split(list, ", "); !slices.Equal(got, options) {
			t.Errorf("the parser takes\n%q\nand the manual has\n%q", got, options)
		}
	}
}
