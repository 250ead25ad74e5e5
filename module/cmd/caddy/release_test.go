package main_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
)

// releaseSetting returns a value in .goreleaser.yaml, without brackets and quotes.
func releaseSetting(t *testing.T, name string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^    ` + name + `: \["?(.*?)"?\]$`).FindStringSubmatch(readFile(t, ".goreleaser.yaml"))
	if found == nil {
		t.Fatalf(".goreleaser.yaml has no %s", name)
	}
	return found[1]
}

// TestReleaseSystems: what a release is made for has all its packages, and not the demo provider.
func TestReleaseSystems(t *testing.T) {
	longtest.Need(t, longtest.Long)
	for system := range strings.SplitSeq(releaseSetting(t, "goos"), ", ") {
		for machine := range strings.SplitSeq(releaseSetting(t, "goarch"), ", ") {
			list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", strings.ReplaceAll(releaseSetting(t, "tags"), " ", ""), ".")
			list.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+machine, "CGO_ENABLED=0")
			packages, err := list.Output()
			if err != nil || !bytes.Contains(packages, []byte("module/bridge\n")) || bytes.Contains(packages, []byte("/demo\n")) {
				t.Errorf("%s/%s: %v", system, machine, err)
			}
		}
	}
}

// TestRelease: the program of a tag has its version, and is the same wherever it was built.
func TestRelease(t *testing.T) {
	longtest.Need(t, longtest.Long)
	const tag = "v1.2.3-rc.4"
	var programs [2][]byte
	for i := range programs {
		folder := filepath.Join(t.TempDir(), strings.Repeat("long", i)+"clone")
		for _, command := range [][]string{
			{"git", "clone", "-q", repository, folder},
			{"git", "-C", folder, "tag", tag},
			slices.Concat([]string{"go", "build", "-C", folder, "-tags", strings.ReplaceAll(releaseSetting(t, "tags"), " ", ""), "-ldflags", releaseSetting(t, "ldflags")},
				strings.Fields(releaseSetting(t, "flags")), []string{"-o", "caddy", "./module/cmd/caddy"}),
		} {
			run := exec.CommandContext(t.Context(), command[0], command[1:]...)
			run.Env = append(os.Environ(), "CGO_ENABLED=0")
			if output, err := run.CombinedOutput(); err != nil {
				t.Fatalf("%q: %v\n%s", command, err, output)
			}
		}
		program := filepath.Join(folder, "caddy")
		version, err := exec.CommandContext(t.Context(), program, "skill-bridge", "--version").Output()
		if err != nil || !strings.HasPrefix(string(version), "Skill Bridge "+tag+", Caddy v") {
			t.Errorf("%q, %v", version, err)
		}
		if programs[i], err = os.ReadFile(program); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(programs[0], programs[1]) {
		t.Error("two builds differ")
	}
	for _, hook := range regexp.MustCompile(`(?m)^    - (?:sh -c ")?go run -tags nodemo ./module/cmd/caddy ([\w /-]+)`).FindAllStringSubmatch(readFile(t, ".goreleaser.yaml"), -1) {
		folder := t.TempDir()
		words := strings.Fields(strings.ReplaceAll(hook[1], "release", folder))
		made := runCaddy(t, "caddy "+strings.Join(words, " "))
		if words[0] == "manpage" {
			made = readAll(t, filepath.Join(folder, "man", "caddy-skill-bridge-check.8"))
		}
		if !strings.Contains(made, "caddy") {
			t.Errorf("%s makes %.100q", hook[1], made)
		}
	}
}

func readAll(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
