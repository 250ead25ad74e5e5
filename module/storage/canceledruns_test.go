package storage

import (
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
	one, other := NewCanceledRuns(folder), NewCanceledRuns(folder)
	canceled := &run.Ref{Source: "acme", SkillID: "acme/slow", ExecutionID: "x/../y"}
	if err := one.Add(t.Context(), "ada", canceled); err != nil {
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

// What has expired is deleted within an hour, and the oldest runs are deleted when there are too many.
func TestCanceledRunsAreBounded(t *testing.T) {
	folder := &certmagic.FileStorage{Path: t.TempDir()}
	files := func() int {
		entries, err := os.ReadDir(filepath.Join(folder.Path, canceledKey))
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	c := NewCanceledRuns(folder)
	c.most = 20
	add := func(i int) *run.Ref {
		ref := &run.Ref{Source: "acme", ExecutionID: fmt.Sprint(i)}
		if err := c.Add(t.Context(), "", ref); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(time.Duration(i-1000) * time.Second)
		if err := os.Chtimes(folder.Filename(canceledRun("", ref)), at, at); err != nil {
			t.Fatal(err)
		}
		return ref
	}
	first := add(0)
	var last *run.Ref
	for i := range 100 {
		last = add(i + 1)
		if n := files(); n > 20 {
			t.Fatalf("%d files", n)
		}
	}
	for ref, want := range map[*run.Ref]bool{first: false, last: true} {
		if has, err := c.Has(t.Context(), "", ref); err != nil || has != want {
			t.Errorf("run %s: %v, error %v", ref.ExecutionID, has, err)
		}
	}
	old := time.Now().Add(-runtoken.Lifetime)
	entries, err := os.ReadDir(filepath.Join(folder.Path, canceledKey))
	for _, e := range entries {
		if err := os.Chtimes(filepath.Join(folder.Path, canceledKey, e.Name()), old, old); err != nil {
			t.Fatal(err)
		}
	}
	c.trimmed = time.Now().Add(-trimCanceled)
	if add(101); err != nil || files() != 1 {
		t.Errorf("%d files after all others have expired, error %v", files(), err)
	}
}

// A storage that fails is an error, and a damaged file is none.
func TestCanceledRunsOfABrokenStorage(t *testing.T) {
	folder := &certmagic.FileStorage{Path: filepath.Join(t.TempDir(), "file")}
	c, ref := NewCanceledRuns(folder), &run.Ref{Source: "acme", ExecutionID: "1"}
	if err := c.Add(t.Context(), "", ref); err != nil {
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
	if err := c.Add(t.Context(), "", ref); err == nil {
		t.Error("no error")
	}
	if _, err := c.Has(t.Context(), "", ref); err == nil {
		t.Error("no error")
	}
}
