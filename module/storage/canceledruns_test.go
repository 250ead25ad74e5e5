package storage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

// A canceled run is known to all instances and after a restart, to its owner only, and for as long as its token is valid.
func TestCanceledRuns(t *testing.T) {
	folder := &certmagic.FileStorage{Path: t.TempDir()}
	one, other := NewCanceledRuns(folder, runtoken.Lifetime), NewCanceledRuns(folder, runtoken.Lifetime)
	canceled := &run.Ref{Source: "acme", SkillID: "acme/slow", ExecutionID: "x/../y"}
	if limit, err := one.Add(t.Context(), "ada", canceled); limit != nil || err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct {
		about, owner string
		ref          run.Ref
		want         bool
	}{
		{"the same run", "ada", *canceled, true},
		{"another version of its skill", "ada", run.Ref{Source: "acme", SkillID: "acme/slow", Version: "2.0.0", ExecutionID: "x/../y"}, true},
		{"another skill with the same id of its run", "ada", run.Ref{Source: "acme", SkillID: "acme/other", ExecutionID: "x/../y"}, false},
		{"a later run to which its provider gave the same id", "ada", run.Ref{Source: "acme", SkillID: "acme/slow", ExecutionID: "x/../y", Accepted: time.UnixMilli(1)}, false},
		{"another owner", "bob", *canceled, false},
		{"anonymous callers", "", *canceled, false},
		{"another provider", "ada", run.Ref{Source: "bank", ExecutionID: "x/../y"}, false},
		{"another run", "ada", run.Ref{Source: "acme", ExecutionID: "y"}, false},
		{"the same texts together", "adaa", run.Ref{Source: "cme", ExecutionID: "x/../y"}, false},
	} {
		if has, err := other.Has(t.Context(), v.owner, &v.ref); err != nil || has != v.want {
			t.Errorf("%s: %v, error %v", v.about, has, err)
		}
	}
	other.now = func() time.Time { return time.Now().Add(runtoken.Lifetime + time.Second) }
	if has, err := other.Has(t.Context(), "ada", canceled); err != nil || has {
		t.Errorf("after its time: %v, error %v", has, err)
	}
}

// What has expired is deleted within an hour. When there are too many, further ones are refused, and those of other instances count.
func TestCanceledRunsAreBounded(t *testing.T) {
	folder := &certmagic.FileStorage{Path: t.TempDir()}
	files := func() []os.DirEntry {
		entries, err := os.ReadDir(filepath.Join(folder.Path, canceledKey))
		if err != nil {
			t.Fatal(err)
		}
		return entries
	}
	c, other := NewCanceledRuns(folder, runtoken.Lifetime), NewCanceledRuns(folder, runtoken.Lifetime)
	c.most, other.most = 20, 20
	add := func(c *CanceledRuns, i int) (ref *run.Ref, refused bool) {
		ref = &run.Ref{Source: "acme", ExecutionID: fmt.Sprint(i)}
		limit, err := c.Add(t.Context(), "", ref)
		if err != nil {
			t.Fatal(err)
		}
		return ref, limit != nil
	}
	for i := range 100 {
		ref, refused := add(c, i)
		if has, err := c.Has(t.Context(), "", ref); err != nil || has == refused || refused != (i >= 20) {
			t.Fatalf("run %d: refused %t, stored %t, error %v", i, refused, has, err)
		}
	}
	if _, refused := add(other, 200); !refused || len(files()) != 20 {
		t.Errorf("another instance stores one more: %d files", len(files()))
	}
	old := time.Now().Add(-runtoken.Lifetime)
	for _, e := range files() {
		file := filepath.Join(folder.Path, canceledKey, e.Name())
		if err := errors.Join(os.WriteFile(file, []byte(time.Now().UTC().Format(time.RFC3339)), 0o600), os.Chtimes(file, old, old)); err != nil {
			t.Fatal(err)
		}
	}
	c.trimmed = time.Now().Add(-countCanceled)
	longer := NewCanceledRuns(folder, runtoken.MaxLifetime) // its runs stay
	if limit, err := longer.Add(t.Context(), "", &run.Ref{Source: "acme", ExecutionID: "longer"}); limit != nil || err != nil {
		t.Fatal(limit, err)
	}
	kept := filepath.Join(folder.Path, canceledRun("", &run.Ref{Source: "acme", ExecutionID: "longer"}))
	if err := os.Chtimes(kept, old, old); err != nil {
		t.Fatal(err)
	}
	if _, refused := add(c, 101); refused || len(files()) != 2 {
		t.Errorf("refused %t, %d files after all others have expired", refused, len(files()))
	}
}

// A storage that fails is an error, and a damaged file is none.
func TestCanceledRunsOfABrokenStorage(t *testing.T) {
	folder := &certmagic.FileStorage{Path: filepath.Join(t.TempDir(), "file")}
	c, ref := NewCanceledRuns(folder, runtoken.Lifetime), &run.Ref{Source: "acme", ExecutionID: "1"}
	if _, err := c.Add(t.Context(), "", ref); err != nil {
		t.Fatal(err)
	}
	if err := folder.Store(t.Context(), canceledRun("", ref), []byte("\xff")); err != nil {
		t.Fatal(err)
	}
	if has, err := c.Has(t.Context(), "", ref); err != nil || has {
		t.Errorf("damaged: %v, error %v", has, err)
	}
	if err := os.RemoveAll(folder.Path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(folder.Path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Add(t.Context(), "", ref); err == nil {
		t.Error("no error")
	}
	if _, err := c.Has(t.Context(), "", ref); err == nil {
		t.Error("no error")
	}
}
