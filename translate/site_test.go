package translate_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// TestSiteChanges: when a site has changed a file, or moved it, its index is read again at once, but once a second at most.
func TestSiteChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const route = "GET /.well-known/agent-skills/index.json"
		p := providertest.New()
		source := p.Source(t, "docs")
		source.Kind = catalog.SiteSource
		serve := func(path, text string) {
			p.On("GET "+path, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
		}
		page := func(body string) string { return "---\nname: pdf\ndescription: D\n---\n" + body }
		list := func(path, text string) {
			sum := sha256.Sum256([]byte(text))
			p.On(route, providertest.Answer(http.StatusOK, object{
				"$schema": "https://schemas.agentskills.io/discovery/0.2.0/schema.json",
				"skills":  []object{{"name": "pdf", "type": "skill-md", "description": "D", "url": path, "digest": "sha256:" + hex.EncodeToString(sum[:])}},
			}))
		}
		b := newBridge(t, source)
		read := func(about, want string, indexes int) {
			t.Helper()
			d, failure := b.Describe(t.Context(), translate.Call{Name: "docs.pdf"})
			got := ""
			if failure == nil {
				text, _ := d.Files.Get("SKILL.md")
				got = string(text)
			} else if failure.Executed != run.ExecutedNo {
				t.Errorf("%s: %+v", about, failure)
			}
			if got != want || p.Count(route) != indexes {
				t.Errorf("%s: %q, %v, and the index was read %d times", about, got, failure, p.Count(route))
			}
		}
		serve("/a.md", page("one"))
		list("/a.md", page("two"))
		read("another digest", "", 1)
		read("another digest, within a second", "", 1)
		serve("/a.md", page("two"))
		read("corrected", page("two"), 1)
		// Instructions are not among the skills that can be called, and their state says so.
		if got := states(t.Context(), b); got != "docs.pdf=readable/0s" {
			t.Error(got)
		}
		if d, failure := b.Describe(t.Context(), translate.Call{Name: "docs.pdf"}); failure != nil || d.State != catalog.Readable {
			t.Errorf("%+v %v", d, failure)
		}
		if l := b.List(t.Context(), translate.Query{Limit: 10, ByName: true, Usable: true, Descriptors: 10}); len(l.Skills) > 0 {
			t.Errorf("%+v", l.Skills)
		}

		b = newBridge(t, source)
		p.Forget()
		list("/a.md", page("two"))
		if l := b.List(t.Context(), translate.Query{}); len(l.Skills) != 1 {
			t.Fatalf("%+v", l)
		}
		serve("/a.md", page("three"))
		list("/a.md", page("three"))
		time.Sleep(time.Minute)
		read("the file has changed", page("three"), 2)
		read("nothing has changed", page("three"), 2)

		b = newBridge(t, source)
		p.Forget()
		if l := b.List(t.Context(), translate.Query{}); len(l.Skills) != 1 {
			t.Fatalf("%+v", l)
		}
		p.On("GET /a.md", providertest.Answer(http.StatusNotFound, object{}))
		serve("/b.md", page("four"))
		list("/b.md", page("four"))
		time.Sleep(time.Minute)
		read("the file has moved", page("four"), 2)
	})
}

// A list that has read the archives of a site holds none of their files but SKILL.md.
func TestListsHoldNoFiles(t *testing.T) {
	packed := zipOf(t, map[string]string{"SKILL.md": "---\nname: pdf\ndescription: D\n---\n# PDF\n", "large": strings.Repeat("x", 1<<19)})
	sum := sha256.Sum256(packed)
	p := providertest.New()
	source := p.Source(t, "docs")
	source.Kind = catalog.SiteSource
	p.On("GET /pdf.zip", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(packed) })
	p.On("GET /.well-known/agent-skills/index.json", providertest.Answer(http.StatusOK, object{
		"$schema": "https://schemas.agentskills.io/discovery/0.2.0/schema.json",
		"skills":  []object{{"name": "pdf", "type": "archive", "description": "D", "url": "/pdf.zip", "digest": "sha256:" + hex.EncodeToString(sum[:])}},
	}))
	b := newBridge(t, source)
	l := b.List(t.Context(), translate.Query{Limit: 10, Descriptors: 10})
	if len(l.Skills) != 1 || l.Skills[0].Descriptor == nil || l.Skills[0].Files == nil {
		t.Fatalf("%+v", l)
	}
	files := l.Skills[0].Files
	main, _ := files.Get("SKILL.md")
	if _, ok := files.Get("large"); ok || len(main) == 0 || len(files.Paths()) != 2 {
		t.Errorf("%q, %q", files.Paths(), main)
	}
	d, failure := b.Describe(t.Context(), translate.Call{Name: "docs.pdf"})
	if failure != nil {
		t.Fatal(failure)
	}
	if large, _ := d.Files.Get("large"); len(large) != 1<<19 {
		t.Errorf("%d bytes", len(large))
	}
}

// Archives are unpacked once: what they unpack to does not drive them out of the cache, so that lists and readers of their files unpack none again.
func TestArchivesAreUnpackedOnce(t *testing.T) {
	const archives, unpacked = 12, 1 << 20 // the cache has 8 MiB
	p := providertest.New()
	source := p.Source(t, "docs")
	source.Kind = catalog.SiteSource
	var skills []object
	for i := range archives {
		noise := make([]byte, 64<<10) // which can't be compressed, so that the archive is not too small for what it unpacks to
		_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(noise)
		name := "s" + strconv.Itoa(i)
		archive := zipOf(t, map[string]string{"SKILL.md": "---\nname: " + name + "\ndescription: D\n---\n", "large": string(noise) + strings.Repeat("x", unpacked-len(noise))})
		sum := sha256.Sum256(archive)
		p.On("GET /"+name+".zip", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(archive) })
		skills = append(skills, object{"name": name, "type": "archive", "description": "D", "url": "/" + name + ".zip", "digest": "sha256:" + hex.EncodeToString(sum[:])})
	}
	p.On("GET /.well-known/agent-skills/index.json", providertest.Answer(http.StatusOK, object{"$schema": "https://schemas.agentskills.io/discovery/0.2.0/schema.json", "skills": skills}))
	b := newBridge(t, source)
	for range 3 {
		for i := range archives {
			d, failure := b.Describe(t.Context(), translate.Call{Name: "docs.s" + strconv.Itoa(i)})
			if failure != nil {
				t.Fatal(failure)
			}
			if large, _ := d.Files.Get("large"); len(large) != unpacked || d.Files.SizeOf("large") != unpacked || large[unpacked-1] != 'x' || d.Files.SizeOf("none") != 0 {
				t.Errorf("%d bytes", len(large))
			}
		}
		// The first list comes after they have been read one by one: a busy machine does not check so many at once in time.
		if l := b.List(t.Context(), translate.Query{Limit: archives, Descriptors: archives}); len(l.Skills) != archives || l.Skills[archives-1].Files == nil {
			t.Fatalf("%+v", l)
		}
	}
	for i := range archives {
		p.Received(t, "GET /s"+strconv.Itoa(i)+".zip", 1)
	}
}

// zipOf returns an archive of files.
func zipOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	for name, text := range files {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(f, text)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}
