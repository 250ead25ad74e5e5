package publish

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/skill-bridge/caddy-skill-bridge/translate/publish"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// A document from a URL is read again and again. The log repeats what is left out of it only if the document has changed.
func TestUnchangedDocumentIsNotLogged(t *testing.T) {
	title, reads := "Pets", 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reads++
		_, _ = fmt.Fprintf(w, `{"openapi":"3.1.0","info":{"title":%q,"version":"1"},"paths":{"/a":{"get":1}}}`, title)
	}))
	defer server.Close()
	h := &Handler{OpenAPI: []Document{{Location: server.URL, Include: []string{"*"}}}}
	l := h.newDocuments("pets")
	core, logs := observer.New(zap.InfoLevel)
	for i, want := range []int{1, 1, 2, 2} {
		if i == 2 {
			title = "Other Pets"
		}
		l.sources[0].due = time.Now()
		l.refresh(t.Context(), l.sources[0], http.DefaultTransport, zap.New(core))
		if n := logs.FilterMessage("an operation is not published").Len(); n != want || reads != i+1 {
			t.Errorf("read %d: %d lines after %d reads, want %d: %v", i, n, reads, want, logs.All())
		}
	}
}

// A file that no longer needs a URL is read again only once it has changed.
func TestFileWithoutURLs(t *testing.T) {
	const text = `{"openapi":"3.1.0","info":{"title":"Pets","version":"1"},"paths":{"/a":{"get":{"operationId":"a","responses":{"200":{"description":"A."}}}}}}`
	file := filepath.Join(t.TempDir(), "api.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h := &Handler{OpenAPI: []Document{{Location: file, Include: []string{"*"}}}}
	s := h.newDocuments("pets").sources[0]
	s.due = time.Now() // when the URL that it referred to was to be read again
	read, reads := s.read, 0
	s.read = func(ctx context.Context, r *reader) (*publish.API, error) {
		reads++
		return read(ctx, r)
	}
	for range 3 {
		s.refresh(t.Context(), &reader{transport: http.DefaultTransport, urls: map[string]bool{}}, zap.NewNop())
	}
	if reads != 1 || s.last.Load() == nil {
		t.Errorf("%d reads, %s", reads, s.problem)
	}
}

// A file that changes while it is read is read again, also if the change makes it one of several.
func TestFileThatChangesMeanwhile(t *testing.T) {
	const text = `{"openapi":"3.1.0","info":{"title":"Pets","version":"1"},"paths":{"/a":{"get":{"operationId":"a","responses":{"200":%s}}}}}`
	folder := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("api.json", fmt.Sprintf(text, `{"description":"A."}`))
	h := &Handler{OpenAPI: []Document{{Location: filepath.Join(folder, "api.json"), Include: []string{"*"}}}}
	l := h.newDocuments("pets")
	s := l.sources[0]
	read, reads := s.read, 0
	s.read = func(ctx context.Context, r *reader) (*publish.API, error) {
		api, err := read(ctx, r)
		switch reads++; reads {
		case 1:
			write("api.json", fmt.Sprintf(text, `{"$ref":"ok.json"}`))
			write("ok.json", `{"description":"Old."}`)
		case 2:
			write("ok.json", `{"description":"The newest."}`)
		}
		return api, err
	}
	for range 6 {
		l.refresh(t.Context(), s, http.DefaultTransport, zap.NewNop())
	}
	if got := string(l.current.Load().ordered[0].Descriptor("", "")); !strings.Contains(got, "The newest.") {
		t.Errorf("after %d reads: %s", reads, got)
	}
	if reads > 4 {
		t.Errorf("%d reads", reads)
	}
}

// A document that takes long is not left out while there is nothing else to publish.
func TestOnlyDocumentIsAwaited(t *testing.T) {
	l := (&Handler{OpenAPI: []Document{{Location: "a.yaml"}, {Location: "b.yaml"}}}).newDocuments("pets")
	l.publish(false, true, zap.NewNop())
	if l.current.Load() != nil {
		t.Error("nothing is published")
	}
	l.sources[0].last.Store(new(publish.API))
	l.publish(true, false, zap.NewNop())
	if c := l.current.Load(); c == nil || !c.partial {
		t.Error("what was read is not published, though the others are late")
	}
	l.sources[1].last.Store(new(publish.API))
	l.publish(true, false, zap.NewNop())
	if l.current.Load().partial {
		t.Error("all documents were read")
	}
	l = (&Handler{OpenAPI: []Document{{Location: "a.yaml"}, {Location: "b.yaml"}}}).newDocuments("pets")
	l.sources[0].last.Store(new(publish.API))
	l.publish(true, false, zap.NewNop())
	if l.current.Load() != nil {
		t.Error("the other document is not awaited")
	}
	l.publish(false, true, zap.NewNop())
	if l.current.Load() == nil {
		t.Error("what was read is not published")
	}
}

// TestIndexIsEncodedOnce: an index is encoded again only for another base, kind or caller, who sees private skills or not.
func TestIndexIsEncodedOnce(t *testing.T) {
	c := &catalog{ordered: []*publish.Skill{
		{IndexEntry: document.IndexEntry{ID: "open", CapabilityType: document.API}}, {IndexEntry: document.IndexEntry{ID: "secret", CapabilityType: document.Task, Access: document.Private}},
	}}
	want := func(base string, kind document.CapabilityType, withPrivate bool, has ...string) {
		t.Helper()
		text, private := c.index(base, kind, withPrivate)
		_, _ = c.index(base, document.Plugin, withPrivate)
		_, _ = c.index(base, kind, !withPrivate)
		again, _ := c.index(base, kind, withPrivate)
		if &text[0] != &again[0] {
			t.Error("it was encoded again")
		}
		for _, part := range []string{`"open"`, `"secret"`, "https://a/", "https://b/"} {
			if bytes.Contains(text, []byte(part)) != slices.Contains(has, part) {
				t.Errorf("%s %q %t: %s", base, kind, withPrivate, text)
			}
		}
		if private != slices.Contains(has, `"secret"`) {
			t.Errorf("private: %t", private)
		}
	}
	want("https://a", "", false, `"open"`, "https://a/")
	want("https://a", "", true, `"open"`, `"secret"`, "https://a/")
	want("https://a", document.Task, true, `"secret"`, "https://a/")
	want("https://b", document.Task, true, `"secret"`, "https://b/")
	want("https://b", document.Task, false)
}
