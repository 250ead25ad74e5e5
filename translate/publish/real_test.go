package publish_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/publish"
)

// packages of npm have documents of APIs, which their owners wrote.
var packages = []struct {
	name, files string // a regular expression
	leftOut     int    // at most
}{
	{"@octokit/openapi@23.0.2", `generated/api\.github\.com\.json$`, 0},
	{"kubernetes-client@9.0.0", `lib/specs/swagger-1\.13\.json\.gz$`, 21}, // two parameters of one name, of which one is in the path
	{"@notionhq/notion-mcp-server@2.5.2", `scripts/notion-openapi\.json$`, 0},
	{"@figma/rest-api-spec@0.43.0", `openapi/openapi\.yaml$`, 0},
	{"@blockfrost/openapi@0.1.93", `openapi\.yaml$`, 0},
	{"@ideal-postcodes/openapi@4.21.0", `dist/openapi\.(json|yaml)$`, 0},
	{"rclone-openapi@1.75.0", `openapi\.(json|yaml)$`, 0},
	{"@readme/oas-examples@8.2.2", `(2\.0|3\.0|3\.1)/(json|yaml)/.*\.(json|yaml)$`, 45}, // of which most have styles such as label
	{"@scalar/galaxy@0.2.20", `dist/3\.1\.(json|yaml)$`, 0},
}

// TestRealDocuments: every operation of each document becomes a skill that bridges take without a warning, or is named with the reason.
func TestRealDocuments(t *testing.T) {
	longtest.Need(t, longtest.Long)
	operations, published := 0, 0
	for _, p := range packages {
		leftOut := 0
		for name, text := range contents(t, p.name, regexp.MustCompile(p.files)) {
			location := fileURL(files(t, map[string]string{filepath.Base(name): string(text)}), filepath.Base(name))
			n := operationsIn(text)
			before, start := heapOfSystem(), time.Now()
			api, err := publish.Read(t.Context(), nil, location, all())
			took, grown := time.Since(start), heapOfSystem()-before
			if n < 0 && err != nil {
				continue // no document of OpenAPI
			}
			if err != nil || len(api.Skills)+len(notPublished(api)) < n { // references may add operations
				t.Errorf("%s: %d operations, %v: %+v", name, n, err, api)
				continue
			}
			sound(t, api)
			operations, published, leftOut = operations+n, published+len(api.Skills), leftOut+len(notPublished(api))
			t.Logf("%s %s: %d of %d operations in %s, %d MiB; left out: %.200v", p.name, name, len(api.Skills), n, took, grown>>20, api.LeftOut)
			if grown > 600<<20 || took > 30*time.Second {
				t.Errorf("%s takes %s and %d MiB", name, took, grown>>20)
			}
			if strings.Contains(name, "api.github.com") {
				fewOf(t, location.Path)
			}
		}
		if leftOut > p.leftOut {
			t.Errorf("%s: %d operations are left out", p.name, leftOut)
		}
	}
	if published*100 < operations*98 {
		t.Errorf("%d of %d operations are skills", published, operations)
	}
}

// fewOf: two operations of a large document keep little.
func fewOf(t *testing.T, path string) {
	t.Helper()
	options := all()
	options.Include = []string{"repos/get", "GET /user"}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, start := heap(), time.Now()
	api, err := publish.Read(t.Context(), nil, fileURL(path), options)
	took := time.Since(start)
	if kept := int64(heap()) - int64(before); err != nil || len(api.Skills) != 2 || kept > 2<<20 {
		t.Errorf("%+v, %v, %d bytes are kept", api, err, kept)
	} else {
		t.Logf("two operations in %s keep %d KiB", took, kept>>10)
	}
	runtime.KeepAlive(api)
}

func heapOfSystem() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapSys)
}

// operationsIn returns how many operations a document has; less than 0: it is none.
func operationsIn(text []byte) (n int) {
	var document map[string]any
	if json.Unmarshal(text, &document) != nil && yaml.Unmarshal(text, &document) != nil || document["openapi"] == nil && document["swagger"] == nil {
		return -1
	}
	paths, _ := document["paths"].(map[string]any)
	for _, item := range paths {
		item, _ := item.(map[string]any)
		for method := range item {
			if slices.Contains([]string{"get", "put", "post", "delete", "options", "head", "patch"}, method) {
				n++
			}
		}
	}
	if n == 0 {
		n++ // the pattern, which names none
	}
	return n
}

// contents returns the files of a package of npm that match.
func contents(t *testing.T, name string, match *regexp.Regexp) map[string][]byte {
	t.Helper()
	folder := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	pack := exec.CommandContext(ctx, "npm", "pack", "--silent", name)
	pack.Dir = folder
	if output, err := pack.CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: %s can't be had from npm's registry: %v: %s", name, err, output)
	}
	archives, _ := filepath.Glob(filepath.Join(folder, "*.tgz"))
	archive, err := os.Open(archives[0])
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	unzipped, err := gzip.NewReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]byte{}
	for entries := tar.NewReader(unzipped); ; {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !match.MatchString(entry.Name) {
			continue
		}
		text, err := io.ReadAll(entries)
		if err == nil && strings.HasSuffix(entry.Name, ".gz") {
			var one *gzip.Reader
			if one, err = gzip.NewReader(bytes.NewReader(text)); err == nil {
				text, err = io.ReadAll(one)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		found[entry.Name] = text
	}
	if len(found) == 0 {
		t.Errorf("%s has no such file", name)
	}
	return found
}
