package storage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/changes"
)

// TestDescriptors: records are those of their skill and source, for all instances, and are found after a restart.
func TestDescriptors(t *testing.T) {
	folder := &certmagic.FileStorage{Path: t.TempDir()}
	one, other, foreign := NewDescriptors(folder, "acme"), NewDescriptors(folder, "acme"), NewDescriptors(folder, "bank")
	ctx := t.Context()
	record := &changes.Record{
		SkillID: "acme/../a", At: time.Now().UTC().Truncate(0), Digests: []string{"d"}, Document: jsontext.Value(`{"id":"acme/../a"}`), URL: "https://acme.example", Way: []string{"https://a.example"},
	}
	if r, err := one.Used(ctx, record.SkillID); r != nil || err != nil {
		t.Errorf("%v %v", r, err)
	}
	if err := errors.Join(one.Use(ctx, record.SkillID, record), one.Hold(ctx, record.SkillID, record), one.Hold(ctx, "", record)); err != nil {
		t.Fatal(err)
	}
	for _, get := range []func() (*changes.Record, error){
		func() (*changes.Record, error) { return other.Used(ctx, record.SkillID) },
		func() (*changes.Record, error) { return other.Held(ctx, record.SkillID) },
		func() (*changes.Record, error) { return other.Held(ctx, "") },
	} {
		if r, err := get(); err != nil || !reflect.DeepEqual(r, record) {
			t.Errorf("%v %+v", err, r)
		}
	}
	if names, err := other.UsedNames(ctx); err != nil || len(names) != 1 {
		t.Errorf("%v %q", err, names)
	} else if r, err := other.UsedNamed(ctx, names[0]); err != nil || !reflect.DeepEqual(r, record) {
		t.Errorf("%v %+v", err, r)
	} else if r, err := other.UsedNamed(ctx, names[0]+"0"); err != nil || r != nil {
		t.Errorf("%v %+v", err, r)
	}
	if names, err := foreign.UsedNames(ctx); err != nil || len(names) > 0 {
		t.Errorf("%v %q", err, names)
	}
	if r, err := foreign.Used(ctx, record.SkillID); r != nil || err != nil {
		t.Errorf("%v %v", r, err)
	}
	if names, err := other.HeldNames(ctx); err != nil || len(names) != 2 || !slices.Contains(names, other.HeldName(record.SkillID)) {
		t.Errorf("%v %q", err, names)
	} else if r, err := other.HeldNamed(ctx, names[0]); err != nil || !reflect.DeepEqual(r, record) {
		t.Errorf("%v %+v", err, r)
	}
	if err := errors.Join(other.Drop(ctx, ""), other.Drop(ctx, ""), other.Drop(ctx, record.SkillID)); err != nil {
		t.Error(err)
	}
	if names, err := one.HeldNames(ctx); err != nil || len(names) > 0 {
		t.Errorf("%v %q", err, names)
	} else if r, err := one.HeldNamed(ctx, one.HeldName(record.SkillID)); err != nil || r != nil {
		t.Errorf("%v %+v", err, r)
	}
	if err := one.Lock(ctx, "x", func() error { return errors.New("inside") }); err == nil || err.Error() != "inside" {
		t.Error(err)
	}
	file := filepath.Join(folder.Path, one.key(usedKey, record.SkillID))
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Used(ctx, record.SkillID); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Error(err)
	}
}

// TestDescriptorsAreBounded: a source with ever new skills does not fill the storage, also after a restart, and its known ones can be replaced.
func TestDescriptorsAreBounded(t *testing.T) {
	folder := &certmagic.FileStorage{Path: t.TempDir()}
	d := NewDescriptors(folder, "acme")
	large := &changes.Record{Digests: []string{"d"}, Document: jsontext.Value(`"` + strings.Repeat("x", maxDescriptorBytes/4) + `"`)}
	stored := 0
	for n := range 5 {
		if d.Use(t.Context(), fmt.Sprint(n), large) == nil {
			stored++
		}
	}
	restarted := NewDescriptors(folder, "acme")
	if err := restarted.Use(t.Context(), "9", large); stored != 3 || err == nil || !strings.Contains(err.Error(), "too many skills") {
		t.Errorf("%d of a quarter of the bytes, then %v", stored, err)
	}
	if err := restarted.Use(t.Context(), "0", large); err != nil {
		t.Error(err)
	}
	restarted.count = maxDescriptors
	if err := restarted.Use(t.Context(), "9", &changes.Record{}); err == nil {
		t.Error("too many files")
	}
}
