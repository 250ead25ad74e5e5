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
}

// TestReleaseHooks: completions and man pages are made, and are the same on each day.
func TestReleaseHooks(t *testing.T) {
	hooks := regexp.MustCompile(`(?m)^    - (?:sh -c ")?(TZ=UTC SOURCE_DATE_EPOCH={{ .CommitTimestamp }} )?go run -tags nodemo ./module/cmd/caddy ([\w /-]+)`).FindAllStringSubmatch(readFile(t, ".goreleaser.yaml"), -1)
	if len(hooks) != 4 {
		t.Errorf("%d hooks make something", len(hooks))
	}
	for _, hook := range hooks {
		folder := t.TempDir()
		words := strings.Fields(strings.ReplaceAll(hook[2], "release", folder))
		if hook[1] != "" {
			t.Setenv("TZ", "UTC")
			t.Setenv("SOURCE_DATE_EPOCH", "0")
		}
		made := runCaddy(t, "caddy "+strings.Join(words, " "))
		if words[0] == "manpage" {
			made = readAll(t, filepath.Join(folder, "man", "caddy-skill-bridge-check.8"))
			if !strings.Contains(made, "1-Jan-1970") {
				t.Error("the man pages have the date on which they are made")
			}
		}
		if !strings.Contains(made, "caddy") {
			t.Errorf("%s makes %.100q", hook[2], made)
		}
	}
}

// TestReleaseSBOM: that of a program is the same whenever it is made, for the program's own system, and has Go's packages.
func TestReleaseSBOM(t *testing.T) {
	longtest.Need(t, longtest.Long)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := strings.Split(releaseSetting(t, "args"), ", ")
	if output, err := exec.CommandContext(t.Context(), "go", args[0], args[1], "version").CombinedOutput(); err != nil {
		t.Skipf("skipped: there is no program that makes it: %v: %s", err, output)
	}
	var made [2]string
	for i := range made {
		document := filepath.Join(t.TempDir(), "sbom.json")
		run := exec.CommandContext(t.Context(), "go", slices.Clone(args)...)
		for n, arg := range run.Args {
			run.Args[n] = strings.NewReplacer("$document", document, "$artifact", program).Replace(arg)
		}
		if output, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		made[i] = readAll(t, document)
	}
	if made[0] != made[1] {
		t.Error("a second one of the same program differs")
	}
	if !strings.Contains(made[0], `"name": "std"`) || strings.Contains(made[0], "goos=") {
		t.Errorf("it lacks Go's packages, or its packages are of the system on which it was made: %.2000s", made[0])
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
