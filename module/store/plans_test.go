package store

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// fill adds rows of one owner and of many others: one in a hundred is open, and its follower lives.
func fill(tb testing.TB, db *DB, n int) {
	tb.Helper()
	series, bytes, hex := "WITH RECURSIVE g (i) AS (SELECT CAST($1 AS integer) UNION ALL SELECT i + 1 FROM g WHERE i < $2) ", "CAST(%s AS blob)", "printf('%08x', i)"
	if db.settings.Kind == Postgres {
		series, bytes, hex = "WITH g (i) AS (SELECT generate_series($1::int, $2::int)) ", "convert_to(%s, 'UTF8')", "lpad(to_hex(i), 8, '0')"
	}
	as := func(text string) string { return fmt.Sprintf(bytes, text) }
	text := series + "INSERT INTO runs (realm, owner, id, key, front, skill, asked, ref, state, follower, args, single, notes, outcome, apart, version, created, " +
		"changed, expires, size) SELECT " + as("'main'") + ", " + as("CASE WHEN i % 10 = 0 THEN 'alice' ELSE 'owner ' || (i % 1000) END") + ", " +
		as(hex+" || '-0000-7000-8000-000000000000'") + ", " + as(hex) + ", 'a2a', " + as("'acme.count'") + ", " + as("'acme.count'") + ", " +
		as(`'{"source":"acme","skill_id":"count","version":"1.0.0","execution_id":"execution"}'`) + ", CASE WHEN i % 100 = 0 THEN 4 ELSE 16 END, " +
		"CASE WHEN i % 100 = 0 THEN 'lives' ELSE '' END, " + as("'0123456789abcdef0123456789abcdef'") + ", false, " + as("'{\"context\":\"0123456789\"}'") + ", " +
		as("'{\"output\":\"0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789\"}'") +
		", 0, 2, {now}, {now}, {now} + 3600000 + i, 120 FROM g"
	const atOnce = 1000 // a statement has ten seconds, also under the race detector
	for first := 1; first <= n; first += atOnce {
		exec(tb, db, text, first, min(first+atOnce-1, n))
	}
	exec(tb, db, "INSERT INTO instances (id, lease, process) VALUES ('lives', {now} + 3600000, '')")
	if db.settings.Kind == Postgres {
		exec(tb, db, "VACUUM ANALYZE runs")
	}
	exec(tb, db, "ANALYZE")
}

// explained returns how a database executes a statement.
func explained(tb testing.TB, db *DB, text string, args ...any) string {
	tb.Helper()
	explain := "EXPLAIN "
	if db.settings.Kind != Postgres {
		explain = "EXPLAIN QUERY PLAN "
	}
	var plan []string
	err := db.session(reading).query(tb.Context(), func(rows *sql.Rows) error {
		var a, b, c int
		var line string
		into := []any{&line}
		if db.settings.Kind != Postgres {
			into = []any{&a, &b, &c, &line}
		}
		err := rows.Scan(into...)
		plan = append(plan, line)
		return err
	}, explain+text, args...)
	if err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	return strings.Join(plan, "\n")
}

// TestPlans tests that no statement that is often executed reads more than an index says.
func TestPlans(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) { //nolint:thelper // it is the test
		db := open(t, settings)
		fill(t, db, 20_000)
		r := db.Runs()
		check := func(name, index, text string, args ...any) {
			t.Helper()
			plan := explained(t, db, text, args...)
			if !strings.Contains(plan, index) || strings.Contains(plan, "Seq Scan on runs") || strings.Contains(strings.ReplaceAll(plan, "SCAN runs USING COVERING INDEX runs_open", ""), "SCAN runs") {
				t.Errorf("%s: no plan with %s:\n%s", name, index, plan)
			}
		}
		primary, ofRealms, due := "runs_pkey", "Index Only Scan using runs_pkey", "Index Cond: (expires <="
		if settings.Kind != Postgres {
			primary, ofRealms, due = "USING PRIMARY KEY (realm=? AND owner=?", "USING PRIMARY KEY (realm>?)", "runs_expires (expires<?)"
		}
		alice := &ledger.Owner{Realm: "main", Principal: "alice"}
		adoption, args := r.adoption(r.Instance(), []string{"main", "other"}, 50)
		check("adoption", "runs_open", adoption, args...)
		check("expiry", due, "DELETE FROM runs WHERE "+r.rows(expired, entryKey), 1000)
		check("overdue", "runs_", overdue, 50) // that of open ones, if they are few
		check("forgetting instances", "runs_open", forgotten, 1)
		for _, q := range []*ledger.Query{
			{Owner: alice, Limit: 50},
			{Owner: alice, Limit: 50, Before: uuid.NewString()},
			{Owner: alice, Limit: 50, Fronts: []string{"mcp"}},
			{Owner: alice, Limit: 50, States: []ledger.State{ledger.Working, ledger.TimedOut, ledger.Failed}, Fronts: []string{"a2a"}},
		} {
			text, _, args := list(q)
			check("list", primary, text, args...)
		}
		for _, q := range []*ledger.Query{
			{Limit: 50},
			{Limit: 50, Before: uuid.NewString()},
			{Limit: 50, Operator: ledger.Selection{ID: uuid.NewString()}},
			{Limit: 50, Operator: ledger.Selection{Skill: "acme.count"}, Fronts: []string{"mcp"}, States: []ledger.State{ledger.Failed, ledger.Working}},
		} {
			text, _, args := list(q)
			check("list of all owners", "runs_listed", text, args...)
		}
		text, _, args := list(&ledger.Query{Limit: 50, States: []ledger.State{ledger.Working, ledger.Waiting}, Fronts: []string{"a2a"}})
		check("list of open ones", "runs_open", text, args...)
		text, _, args = list(&ledger.Query{Limit: 50, Operator: ledger.Selection{Skill: "acme.count"}, States: []ledger.State{ledger.Working, ledger.Waiting}})
		check("list of open ones of a skill", "runs_open", text, args...)
		text, _, args = list(&ledger.Query{Limit: 50, Operator: ledger.Selection{Skill: "acme.count"}, States: []ledger.State{ledger.Failed, ledger.Lost}})
		check("list of what failed", "runs_failed", text, args...)
		check("realms", ofRealms, nextRealm, []byte("main"))
		check("groups", strings.TrimSuffix(strings.Replace(ofRealms, "realm>?", "realm=? AND owner>?", 1), ")"), nextGroup, []byte("main"), []byte(ledger.Group), []byte("\n"))
		id := identity(ledger.Identity{Owner: *alice, ID: uuid.NewString()})
		check("get", primary, "SELECT "+entryResult+" FROM runs WHERE "+isEntry, id...)
		check("claim in use", "runs_key", presentEntry, append(id, []byte("key"))...)
		newer, parameter, err := r.newer([][]any{append(id, int64(1))})
		if err != nil {
			t.Fatal(err)
		}
		check("newer", primary, newer, parameter)
	})
}
