package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/xcaddy"
	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/manuals"
)

// These tests compare the versions in xcaddy.json, go.mod, Caddy's go.mod and the manual.

const (
	repository = "../../.."
	module     = "github.com/skill-bridge/caddy-skill-bridge"
	caddy      = "github.com/caddyserver/caddy/v2"
)

// requirements returns the required versions of a go.mod, by module path.
func requirements(t *testing.T, path string) map[string]string {
	t.Helper()
	var file struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(goCommand(t, "mod", "edit", "-json", path), &file); err != nil {
		t.Fatal(err)
	}
	versions := make(map[string]string, len(file.Require))
	for _, r := range file.Require {
		versions[r.Path] = r.Version
	}
	if len(versions) == 0 {
		t.Fatalf("%s requires nothing", path)
	}
	return versions
}

func goCommand(t *testing.T, args ...string) []byte {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Dir = repository
	out, err := command.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("go %s: %v: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	return out
}

func pinned(t *testing.T) xcaddy.Builder {
	t.Helper()
	builder, err := readBuilder(filepath.Join(repository, "xcaddy.json"))
	if err != nil {
		t.Fatal(err)
	}
	return builder
}

func TestPinnedBuild(t *testing.T) {
	builder := pinned(t)
	if want := requirements(t, "go.mod")[caddy]; builder.CaddyVersion != want {
		t.Errorf("xcaddy.json builds Caddy %s, go.mod requires %s", builder.CaddyVersion, want)
	}
	if len(builder.Plugins) != 1 || builder.Plugins[0] != (xcaddy.Dependency{PackagePath: module + "/module"}) {
		t.Errorf("plugins = %+v, want %s/module without a version", builder.Plugins, module)
	}
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	if len(builder.Replacements) != 1 || builder.Replacements[0] != xcaddy.NewReplace(module, root) {
		t.Errorf("replacements = %+v, want %s => %s", builder.Replacements, module, root)
	}
}

// A binary has, of what Caddy requires, too, the versions that Caddy was tested with, but for what the drivers of the databases require.
func TestSharedModulesHaveCaddysVersions(t *testing.T) {
	ours := requirements(t, "go.mod")
	caddys := requirements(t, strings.TrimSpace(string(goCommand(t, "list", "-m", "-f", "{{.GoMod}}", caddy))))
	drivers := map[string]bool{"github.com/jackc/pgx/v5": true} // and what it and that of SQLite require
	for changed := true; changed; {
		changed = false
		for line := range strings.Lines(string(goCommand(t, "mod", "graph"))) {
			from, to, _ := strings.Cut(strings.TrimSpace(line), " ")
			from, version, _ := strings.Cut(from, "@")
			to, wants, _ := strings.Cut(to, "@")
			if (drivers[from] || strings.HasPrefix(from, "modernc.org/")) && version == ours[from] && wants == ours[to] && !drivers[to] {
				drivers[to], changed = true, true
			}
		}
	}
	shared := 0
	for path, version := range caddys {
		if ours[path] == "" {
			continue
		}
		shared++
		if ours[path] != version && !drivers[path] {
			t.Errorf("%s: go.mod requires %s, Caddy %s", path, ours[path], version)
		}
	}
	if shared < 10 {
		t.Errorf("only %d modules are shared with Caddy: has go.mod been read?", shared)
	}
}

var buildLine = regexp.MustCompile(`xcaddy build (\S+) (?:\\\s+)?--with (\S+)`)

func TestManualBuildsThePinnedVersion(t *testing.T) {
	builder := pinned(t)
	lines := buildLine.FindAllStringSubmatch(manuals.Read(t, manuals.Configuration), -1)
	if len(lines) == 0 {
		t.Fatal("the manual has no line such as: xcaddy build " + builder.CaddyVersion + " --with " + module + "/module")
	}
	for _, line := range lines {
		if line[1] != builder.CaddyVersion || line[2] != builder.Plugins[0].PackagePath {
			t.Errorf("the manual says %q, xcaddy.json %s and %s", line[0], builder.CaddyVersion, builder.Plugins[0].PackagePath)
		}
	}
}
