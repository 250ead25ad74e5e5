package store

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/deliverytest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// TestDeliveries tests what a store of deliveries promises.
func TestDeliveries(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) { //nolint:thelper // it is the test
		deliverytest.Test(t, func(t *testing.T) (delivery.Store, deliverytest.Put) { //nolint:thelper // it is none
			if settings.Kind == Memory {
				settings.File = t.Name()
			}
			db := open(t, settings)
			exec := func(text string, args ...any) {
				if _, err := db.session(writing).exec(t.Context(), text, args...); err != nil {
					t.Fatal(err)
				}
			}
			exec("DELETE FROM runs")
			return db.Deliveries(), func(_ *testing.T, e *ledger.Entry) {
				exec("INSERT INTO runs ("+entryColumns+", size) VALUES ($1, $2, $3, NULL, $4, $5, $5, $5, $6, '', NULL, FALSE, NULL, NULL, 0, NULL, NULL, NULL, $7, {now}, {now}, {now}, 0) "+
					"ON CONFLICT (realm, owner, id) DO UPDATE SET state = excluded.state, version = excluded.version",
					[]byte(e.Owner.Realm), []byte(e.Owner.Principal), []byte(e.ID), e.Front, []byte{}, int64(e.State), e.Version)
			}
		})
	})
}

// TestReceiver: a claim stores an entry with its receiver, or none of them.
func TestReceiver(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) { //nolint:thelper // it is the test
		db := open(t, settings)
		s := db.Runs()
		exec := func(text string) {
			if _, err := db.session(writing).exec(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
		claim := func(e ledger.Entry) (present *ledger.Entry, receivers []*delivery.Delivery, err error) {
			present, err = s.Claim(t.Context(), &e, time.Hour)
			receivers, failed := db.Deliveries().Of(t.Context(), e.Identity())
			if failed != nil {
				t.Fatal(failed)
			}
			return present, receivers, err
		}
		one := ledger.Entry{
			Owner: ledger.Owner{Realm: "main", Principal: "alice"}, ID: uuid.NewString(), Key: []byte("k"), Front: "rpc",
			Receiver: &ledger.Receiver{Name: "r\x00", Host: "host", Target: []byte("\xff"), EndOnly: true},
		}
		for range 2 { // the answer to the first one was lost
			present, got, err := claim(one)
			if present != nil || err != nil || len(got) != 1 {
				t.Fatal(present, got, err)
			}
			if d := got[0]; d.Receiver != "r\x00" || d.Host != "host" || string(d.Target) != "\xff" || !d.EndOnly || d.Front != "rpc" || d.Cursor != 0 || d.Version != 1 || d.Claimed || !d.Next.IsZero() {
				t.Fatalf("%+v", d)
			}
		}
		two := one
		two.ID = uuid.NewString()
		if present, got, err := claim(two); present == nil || present.ID != one.ID || err != nil || len(got) != 0 {
			t.Fatal(present, got, err)
		}
		two.Key, two.Receiver = nil, &ledger.Receiver{Name: "all", Target: []byte{0}}
		if present, got, err := claim(two); present != nil || err != nil || len(got) != 1 || got[0].EndOnly {
			t.Fatal(present, got, err)
		}
		exec("ALTER TABLE deliveries RENAME TO others") // as a process that ends between the two
		three := two
		three.ID = uuid.NewString()
		_, err := s.Claim(t.Context(), &three, time.Hour)
		exec("ALTER TABLE others RENAME TO deliveries")
		if _, found := s.Get(t.Context(), three.Identity()); err == nil || !errors.Is(found, ledger.ErrNoEntry) {
			t.Fatal(err, found)
		}
		if err := s.Delete(t.Context(), one.Identity()); err != nil {
			t.Fatal(err)
		}
		if got, err := db.Deliveries().Of(t.Context(), one.Identity()); err != nil || len(got) != 0 {
			t.Fatal(got, err)
		}
	})
}

// TestEvictionPlan tests that the deliveries of each task are found by its id, also before the database has any statistics: otherwise 10,000 tasks with events
// that were not delivered would be compared with as many deliveries each.
func TestEvictionPlan(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) { //nolint:thelper // it is the test
		db, found := open(t, settings), "SEARCH d USING INDEX sqlite_autoindex_deliveries_1 (realm=? AND owner=? AND id=?)"
		if settings.Kind == Postgres {
			found = " AND (id = runs"
		}
		if plan := explained(t, db, "DELETE FROM runs WHERE "+db.Runs().rows(oldest, entryKey), []byte("main"), []byte("alice"), 10); !strings.Contains(plan, found) {
			t.Errorf("no plan with %s:\n%s", found, plan)
		}
	})
}

// TestDeliveryPlans tests that claims read no more than an index says.
func TestDeliveryPlans(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) { //nolint:thelper // it is the test
		db := open(t, settings)
		rows := 5_000
		if settings.Kind == Postgres { // it reads fewer without an index
			rows = 20_000
		}
		fill(t, db, rows)
		for _, text := range []string{
			"INSERT INTO deliveries SELECT realm, owner, id, id, front, id, id, FALSE, 0, 0, FALSE, CASE WHEN state < 16 THEN {now} END, {now}, 1 FROM runs", "ANALYZE",
		} {
			if _, err := db.session(writing).exec(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
		s := db.Deliveries()
		check := func(text, index string, args ...any) {
			t.Helper()
			if plan := explained(t, db, s.claiming(text), args...); !strings.Contains(plan, index) || strings.Contains(plan, "Seq Scan on deliveries") || strings.Contains(plan, "SCAN d") {
				t.Errorf("no plan with %s:\n%s", index, plan)
			}
		}
		text, args := due([]delivery.Served{{Realm: "main", Front: "a2a"}, {Realm: "other", Front: "rpc"}})
		check(text, "deliveries_next", append([]any{1000, 10}, args...)...)
		text, wanted, err := s.wanted([]ledger.Identity{{Owner: ledger.Owner{Realm: "main", Principal: "alice"}, ID: "1"}})
		if err != nil {
			t.Fatal(err)
		}
		primary := "deliveries_pkey"
		if settings.Kind != Postgres {
			primary = "sqlite_autoindex_deliveries_1"
		}
		check(text, primary, 1000, wanted)
	})
}

// R275: an hour after its end, a task makes place also if its events were not delivered: its receiver is dead, or no configuration sends them any more, and such
// tasks could take all places of an owner until they expire.
func TestR275DeadReceivers(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) { //nolint:thelper // it is the test
		db, owner := open(t, settings), ledger.Owner{Realm: "main", Principal: "alice"}
		r := db.Runs()
		for _, id := range []string{"dead", "idle", "young"} {
			e := &ledger.Entry{
				Owner: owner, ID: id, Front: "a2a", State: ledger.Completed, Label: ledger.Label{State: 1, At: time.Now()}, Receiver: &ledger.Receiver{Name: "r", Host: "host", Target: []byte("x")},
			}
			if present, err := r.Claim(t.Context(), e, 24*time.Hour); present != nil || err != nil {
				t.Fatal(present, err)
			}
			if id == "idle" {
				continue
			}
			if taken, err := db.Deliveries().Take(t.Context(), []ledger.Identity{e.Identity()}, time.Minute); len(taken) != 1 || err != nil {
				t.Fatal(taken, err)
			}
		}
		for _, ended := range []struct {
			ago  int
			want int
		}{{0, 0}, {59 * 60_000, 0}, {61 * 60_000, 2}} {
			if _, err := db.session(writing).exec(t.Context(), "UPDATE runs SET changed = {now} - $1 WHERE id <> $2", ended.ago, []byte("young")); err != nil {
				t.Fatal(err)
			}
			if n, err := r.Evict(t.Context(), owner, 10); n != ended.want || err != nil {
				t.Errorf("%d ms after their ends, %d tasks make place instead of %d, %v", ended.ago, n, ended.want, err)
			}
		}
	})
}

// R249: ended tasks make place for new ones, but not before their events are delivered: these would be deleted with them.
func TestR249EventsOfEvictedTasks(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) { //nolint:thelper // it is the test
		db, owner := open(t, settings), ledger.Owner{Realm: "main", Principal: "alice"}
		r, d := db.Runs(), db.Deliveries()
		ended := func(receiver *ledger.Receiver) *ledger.Entry {
			e := &ledger.Entry{
				Owner: owner, ID: uuid.Must(uuid.NewV7()).String(), Front: "a2a", State: ledger.Completed, Label: ledger.Label{State: 1, At: time.Now()}, Receiver: receiver,
			}
			if present, err := r.Claim(t.Context(), e, time.Hour); present != nil || err != nil {
				t.Fatal(present, err)
			}
			return e
		}
		evict := func(want int) {
			t.Helper()
			if n, err := r.Evict(t.Context(), owner, 10); n != want || err != nil {
				t.Fatalf("%d tasks make place instead of %d, %v", n, want, err)
			}
		}
		task := ended(&ledger.Receiver{Name: "r", Host: "host", Target: []byte("x")})
		late := ended(nil) // its webhook was set after its end, and gets nothing
		if err := d.Add(t.Context(), &delivery.Delivery{Run: late.Identity(), Receiver: "r", Front: "a2a", Host: "host", Target: []byte("x"), Cursor: late.Version}, delivery.Bounds{}); err != nil {
			t.Fatal(err)
		}
		ended(nil)
		evict(2)
		taken, err := d.Take(t.Context(), []ledger.Identity{task.Identity()}, time.Minute)
		if len(taken) != 1 || err != nil {
			t.Fatal(taken, err)
		}
		evict(0)
		taken[0].Cursor = delivery.Over
		if _, err := d.Settle(t.Context(), taken[0], delivery.Idle); err != nil {
			t.Fatal(err)
		}
		evict(1)
	})
}

// After the clock of the database was set back, what waits is due as before, and the claims of instances that are gone end as before.
func TestDeliveriesAfterTheClockWasSetBack(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) { //nolint:thelper // it is the test
		db := open(t, settings)
		all := db.Deliveries()
		of := ledger.Entry{Owner: ledger.Owner{Realm: "main", Principal: "r281"}, ID: uuid.NewString(), Front: "rpc", State: ledger.Failed}
		if _, err := db.Runs().Claim(t.Context(), &of, time.Hour); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"claimed", "due", "idle", "later"} {
			if err := all.Add(t.Context(), &delivery.Delivery{Run: of.Identity(), Receiver: name, Front: "rpc", Host: "host", EndOnly: true}, delivery.Bounds{}); err != nil {
				t.Fatal(err)
			}
		}
		taken, err := all.Take(t.Context(), []ledger.Identity{of.Identity()}, delivery.ClaimTime)
		if err != nil || len(taken) != 4 {
			t.Fatal(taken, err)
		}
		for _, d := range taken {
			after := map[string]time.Duration{"due": time.Second, "idle": delivery.Idle, "later": 5 * time.Hour}[d.Receiver]
			if d.Cursor = 1; after != 0 {
				if _, err := all.Settle(t.Context(), d, after); err != nil {
					t.Fatal(err)
				}
			}
		}
		exec(t, db, "UPDATE deliveries SET since = since - $1 WHERE receiver = $2", (4 * time.Hour).Milliseconds(), []byte("later")) // it waits for long already
		exec(t, db, "UPDATE deliveries SET since = since + $1, next = next + $1", time.Hour.Milliseconds())
		if _, err := db.Runs().Expire(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		left, err := all.Of(t.Context(), of.Identity())
		if err != nil || len(left) != 4 {
			t.Fatal(left, err)
		}
		for _, d := range left {
			most := map[string]time.Duration{"claimed": delivery.ClaimTime, "due": 0, "idle": 0, "later": 6 * time.Hour}[d.Receiver]
			if wait := time.Until(d.Next); wait > most+time.Second || d.Receiver == "later" && wait < 5*time.Hour || time.Until(d.Since) > time.Second && !d.Next.IsZero() {
				t.Errorf("%s: due after %v, waits since %v", d.Receiver, wait, d.Since)
			}
		}
	})
}
