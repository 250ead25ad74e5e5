package findings_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/command/findings"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate/inspection"
)

// TestHeldChange: a change that waits for approval is a warning with what has changed, and how to approve it.
func TestHeldChange(t *testing.T) {
	found := findings.Of([]inspection.Source{{
		Namespace: "acme", Skills: []inspection.Skill{{Name: "acme.a", Tool: "acme_a"}, {Name: "acme.b", Tool: "acme_b", Changed: []string{"description", "endpoint"}}},
	}})
	last := found[len(found)-1]
	if len(found) != 2 || last.Result != findings.Warning || last.Skill != "acme.b" || !strings.Contains(last.What, "(description, endpoint)") || !strings.HasSuffix(last.Fix, "caddy skill-bridge approve") {
		t.Errorf("%+v", found)
	}
}

// TestNoToolName: a skill that fronts can't name is a warning.
func TestNoToolName(t *testing.T) {
	found := findings.Of([]inspection.Source{{Namespace: "acme", Skills: []inspection.Skill{{Name: "acme.a"}}}})
	if last := found[len(found)-1]; last.Result != findings.Warning || last.Skill != "acme.a" || !strings.Contains(last.What, "no tool name") || last.Fix != "give it an alias" {
		t.Errorf("%+v", found)
	}
}

// TestStoreThatRefuses: an error of an open database that says nothing about the database as a whole is a finding.
func TestStoreThatRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.db")
	open := func() *store.DB {
		t.Helper()
		db := store.New(store.Settings{Kind: store.SQLite, File: file})
		t.Cleanup(db.Close)
		return db
	}
	made := open()
	made.Start(zap.NewNop())
	if err := made.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	other, err := sql.Open("sqlite", file)
	if err == nil {
		_, err = other.ExecContext(t.Context(), "CREATE TRIGGER no BEFORE INSERT ON things BEGIN SELECT RAISE(ABORT, 'refused by a trigger'); END")
		_ = other.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	found := findings.OfStores(ctx, []*observe.Bridge{{Store: open(), Number: 3}})
	if len(found) != 1 || found[0].Result != findings.Failed || found[0].Bridge != 3 || !strings.Contains(found[0].What, "refused by a trigger") || ctx.Err() != nil {
		t.Errorf("%+v, %v", found, ctx.Err())
	}
}
