package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/xcaddy"
)

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "xcaddy.json")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadBuilder(t *testing.T) {
	path := write(t, `{
		"caddy_version": "v2.0.0",
		"os": "linux",
		"cgo": true,
		"timeout_get": 60000000000,
		"plugins": [{"module_path": "example.com/a/b", "version": "v1.0.0"}],
		"replacements": [
			{"old": "example.com/a", "new": "."},
			{"old": "example.com/b", "new": "../b"},
			{"old": "example.com/c", "new": "./c"},
			{"old": "example.com/d", "new": "/d"},
			{"old": "example.com/e", "new": "example.com/f@v1.2.3"}
		],
		"embed_dir": [{"dir": "files", "name": "f"}],
		"pgo_profile": "default.pgo"
	}`)
	folder := filepath.Dir(path)

	builder, err := readBuilder(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{folder, filepath.Join(folder, "../b"), filepath.Join(folder, "c"), "/d", "example.com/f@v1.2.3"} {
		if got := builder.Replacements[i].New.String(); got != want {
			t.Errorf("replacements[%d] = %s, want %s", i, got, want)
		}
	}
	if builder.CaddyVersion != "v2.0.0" || builder.OS != "linux" || !builder.Cgo || builder.TimeoutGet != time.Minute {
		t.Errorf("builder = %+v", builder)
	}
	if want := (xcaddy.Dependency{PackagePath: "example.com/a/b", Version: "v1.0.0"}); builder.Plugins[0] != want {
		t.Errorf("plugins = %+v", builder.Plugins)
	}
	if builder.EmbedDirs[0].Dir != filepath.Join(folder, "files") || builder.PgoProfile != filepath.Join(folder, "default.pgo") {
		t.Errorf("embed_dir %+v, pgo_profile %s", builder.EmbedDirs, builder.PgoProfile)
	}
}

func TestRelativeConfigIsAnchoredToo(t *testing.T) {
	path := write(t, `{"caddy_version": "v2.0.0", "replacements": [{"old": "example.com/a", "new": "."}]}`)
	t.Chdir(filepath.Dir(path))
	builder, err := readBuilder("xcaddy.json")
	if err != nil {
		t.Fatal(err)
	}
	if got := builder.Replacements[0].New.String(); !filepath.IsAbs(got) {
		t.Errorf("replacement = %s, want an absolute path", got)
	}
}

func TestReadBuilderErrors(t *testing.T) {
	for name, test := range map[string]struct{ content, want string }{
		"unknown member":        {`{"caddy_version": "v2.0.0", "caddy": 1}`, `"caddy"`},
		"unknown plugin member": {`{"caddy_version": "v2.0.0", "plugins": [{"package": "x"}]}`, `"package"`},
		"wrong case":            {`{"Caddy_Version": "v2.0.0"}`, `"Caddy_Version"`},
		"duplicate member":      {`{"caddy_version": "v2.0.0", "caddy_version": "v2.0.1"}`, `"caddy_version"`},
		"not JSON":              {`caddy`, "is not an xcaddy.Builder"},
		"trailing data":         {`{"caddy_version": "v2.0.0"} {}`, "is not an xcaddy.Builder"},
		"no version":            {`{}`, "caddy_version is missing"},
		"no new":                {`{"caddy_version": "v2.0.0", "replacements": [{"old": "x"}]}`, "replacements[0]: both old and new are required"},
		"no dir":                {`{"caddy_version": "v2.0.0", "embed_dir": [{}]}`, "dir is required"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, test.content)
			_, err := readBuilder(path)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v, want %s and the path", err, test.want)
			}
		})
	}
}

func TestCommandLineErrors(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"-config", filepath.Join(t.TempDir(), "none.json")}, "reading what to build"},
		{[]string{"-o", ""}, "-o is empty"},
		{[]string{"caddy"}, `unexpected argument "caddy"`},
		{[]string{"-output", "x"}, "-output"},
	} {
		if err := run(t.Context(), test.args, io.Discard); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: error %v, want %s", test.args, err, test.want)
		}
	}
}

// While the go command compiles, which it does in silence, the build says for how long.
func TestTellTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w strings.Builder
		stop := tellTime(&w)
		time.Sleep(45 * time.Second) // of the test's clock
		stop()
		if want := "build: still compiling after 20s\nbuild: still compiling after 40s\nbuild: ended after 45s\n"; w.String() != want {
			t.Errorf("it writes %q, want %q", w.String(), want)
		}
	})
}
