//nolint:thelper // the functions that databases calls are tests
package store

import (
	"context"
	"errors"
	"fmt"
	processes "os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"github.com/skill-bridge/caddy-skill-bridge/module/store/machine"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/postgrestest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// working adds a run that an instance follows.
func working(t *testing.T, r *Runs, key string) *ledger.Entry {
	t.Helper()
	e := &ledger.Entry{Owner: ledger.Owner{Realm: "main"}, ID: uuid.Must(uuid.NewV7()).String(), Key: []byte(key), Front: "a2a", State: ledger.Working}
	if present, err := r.Claim(t.Context(), e, time.Hour); present != nil || err != nil {
		t.Fatalf("claim: %v, %v", present, err)
	}
	return e
}

// adopted returns how many runs an instance adopts.
func adopted(t *testing.T, r *Runs) int {
	t.Helper()
	entries, err := r.Adopt(t.Context(), r.Instance(), []string{"main"}, 50)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestForeignRow: a run that another build has written in another form keeps the others neither from being followed nor from being listed, and a call with its
// key is not executed again.
func TestForeignRow(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		before, after := another(t, settings), another(t, settings)
		foreign := working(t, before, "foreign")
		own := working(t, before, "own")
		exec(t, after.db, "UPDATE runs SET ref = $1 WHERE id = $2", []byte(`{"accepted":"yesterday"}`), []byte(foreign.ID))
		exec(t, after.db, "UPDATE instances SET lease = 1 WHERE id = $1", before.Instance())
		if n := adopted(t, after); n != 1 {
			t.Errorf("%d runs are followed", n)
		}
		if all, _, err := after.List(t.Context(), &ledger.Query{Limit: 10}); len(all) != 2 || err != nil || all[0].Changed.IsZero() || all[1].Changed.IsZero() {
			t.Errorf("%d runs are listed: %v", len(all), err)
		}
		newer, err := after.Newer(t.Context(), map[ledger.Identity]int64{foreign.Identity(): 0, own.Identity(): 0})
		if len(newer) != 1 || newer[0].ID != own.ID || err != nil {
			t.Errorf("%d runs are told of: %v", len(newer), err)
		}
		exec(t, after.db, "UPDATE runs SET expires = 1")
		if all, err := after.Overdue(t.Context(), 10); len(all) != 2 || err != nil {
			t.Errorf("%d runs are to be ended: %v", len(all), err)
		}
		again := &ledger.Entry{Owner: foreign.Owner, ID: uuid.Must(uuid.NewV7()).String(), Key: foreign.Key, Front: "a2a", State: ledger.Submitting}
		if present, err := after.Claim(t.Context(), again, time.Hour); present != nil || !errors.Is(err, errForeign) {
			t.Errorf("a call with its key: %v, %v", present, err)
		}
	})
}

// setClock makes the clock of a database differ from that of this process.
func setClock(db *DB, ahead time.Duration) {
	c := db.conns
	for p := range map[*pool]bool{c.pools[reading]: true, c.pools[writing]: true, c.pools[leasing]: true} {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.statements = nil
	}
	later := func(word string) string {
		return fmt.Sprintf("(%s + %d)", c.replace.Replace(word), ahead.Milliseconds())
	}
	c.replace = words(later("{now}"), later("{at}"), c.replace.Replace("{skip}"), "{values}", "SELECT", "{t}", "t", "{clock}", "FROM (SELECT "+later("{at}")+" AS t) AS clock WHERE TRUE")
}

// TestClockOfTheDatabase tests that an instance knows the time of the database, by which the earliest next poll of a run is stored, too.
func TestClockOfTheDatabase(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		db := another(t, settings).db
		if skew := db.Runs().skew(); skew != 0 { // as far as the time of a statement can tell
			t.Errorf("the clock of this machine is %s ahead of itself", skew)
		}
		near := func(got, want time.Time) bool { return got.Sub(want).Abs() < time.Second }
		for _, ahead := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
			setClock(db, ahead)
			if _, err := db.Runs().Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			now := time.Now()
			shared := now.Add(ahead)
			if got := db.Runs().Now(); !near(got, shared) {
				t.Errorf("%s: %s, want %s", ahead, got, shared)
			}
			e := &ledger.Entry{Owner: ledger.Owner{Realm: "main"}, ID: uuid.Must(uuid.NewV7()).String(), State: ledger.Accepted, Ref: run.Ref{ExecutionID: "e1", NotBefore: now}}
			if _, err := db.Runs().Claim(t.Context(), e, time.Hour); err != nil {
				t.Fatal(err)
			}
			var stored run.Ref
			if err := json.Unmarshal(scalar[[]byte](t, db, reading, "SELECT ref FROM runs WHERE id = $1", []byte(e.ID)), &stored); err != nil || !near(stored.NotBefore, shared) {
				t.Errorf("%s: stored %s, want %s", ahead, stored.NotBefore, shared)
			}
			if got, err := db.Runs().Get(t.Context(), e.Identity()); err != nil || !near(got.Ref.NotBefore, now) || !near(e.Ref.NotBefore, now) {
				t.Errorf("%s: %+v, want %s", ahead, got, now)
			}
			setClock(db, -ahead)
		}
	})
}

// TestDeadProcess tests that the runs of a process of this machine that was killed are adopted at once, and those of one that lives are not.
func TestDeadProcess(t *testing.T) {
	if machine.Process(1) == "" {
		t.Skip("this system does not say which processes there are")
	}
	databases(t, func(t *testing.T, settings Settings) {
		other := processes.Command("sleep", "60")
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		ended := false
		end := func() {
			if !ended {
				_ = other.Process.Kill()
				_ = other.Wait()
			}
			ended = true
		}
		defer end()
		first := another(t, settings)
		e := working(t, first, "k")
		setProcess := func(text string) {
			t.Helper()
			exec(t, first.db, "UPDATE instances SET process = $1 WHERE id = $2", text, e.Follower)
		}
		setProcess(machine.Process(other.Process.Pid))
		if n := adopted(t, another(t, settings)); n != 0 {
			t.Fatalf("adopted %d runs of a process that lives", n)
		}
		end()
		fields := strings.Fields(machine.Process(1))
		for _, unknown := range []string{
			"", "text", fmt.Sprintf("other-boot %s %s %d", fields[1], fields[2], other.Process.Pid), fmt.Sprintf("%s other-namespace %s %d", fields[0], fields[2], other.Process.Pid),
			fmt.Sprintf("%s %s %s x", fields[0], fields[1], fields[2]),
		} {
			setProcess(unknown)
			if n := adopted(t, another(t, settings)); n != 0 {
				t.Fatalf("adopted %d runs of %q, which may live", n, unknown)
			}
		}
		setProcess(fmt.Sprintf("%s %s 7 %d", fields[0], fields[1], other.Process.Pid)) // another process had this id before
		if n := adopted(t, another(t, settings)); n != 1 {
			t.Fatalf("adopted %d runs of a process that was killed", n)
		}
	})
}

// TestLeave tests that the runs of an instance that stops are adopted at once.
func TestLeave(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		first, second := another(t, settings), another(t, settings)
		working(t, first, "k")
		if n := adopted(t, second); n != 0 {
			t.Fatalf("adopted %d runs of one that lives", n)
		}
		first.db.Close()
		if n := adopted(t, second); n != 1 {
			t.Fatalf("adopted %d runs of one that has stopped", n)
		}
	})
}

// TestForgottenInstances tests that the row of an instance goes, but not while an open run names it.
func TestForgottenInstances(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		first, second, third := another(t, settings), another(t, settings), another(t, settings)
		working(t, first, "k")
		count := func(want int) {
			t.Helper()
			if _, err := third.Expire(t.Context(), 10); err != nil {
				t.Fatal(err)
			}
			if n := scalar[int](t, third.db, reading, "SELECT count(*) FROM instances"); n != want {
				t.Fatalf("%d instances instead of %d", n, want)
			}
		}
		age(t, second.db, time.Minute)
		count(3)
		age(t, second.db, 2*forgetAfter)
		if _, err := third.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		count(3) // the first, and both of the third, whose former one may still be named in a claim
		if n := adopted(t, third); n != 1 {
			t.Fatalf("adopted %d", n)
		}
		count(2)
	})
}

// TestReadOnly tests that what is present is found in a database that can't be written, also when the lease has ended.
func TestReadOnly(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		r := another(t, settings)
		e := working(t, r, "k")
		if settings.Kind == Postgres {
			postgrestest.Exec(t, settings.DSN, "DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET default_transaction_read_only = on'; END $$")
			postgrestest.Exec(t, settings.DSN, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
			for range 2 * postgresCalls { // the connections in the pools are gone
				_, _ = r.db.session(reading).exec(t.Context(), "SELECT 1")
				_, _ = r.db.session(leasing).exec(t.Context(), "SELECT 1")
			}
		} else {
			_ = r.db.session(writing).query(t.Context(), nil, "PRAGMA query_only = 1")
		}
		for _, renewed := range []time.Time{time.Now(), time.Now().Add(-time.Minute)} {
			r.instance.mu.Lock()
			r.renewed = renewed
			r.instance.mu.Unlock()
			again := *e
			again.ID = uuid.NewString()
			present, err := r.Claim(t.Context(), &again, time.Hour)
			if err != nil || present == nil || present.ID != e.ID {
				t.Fatalf("present %+v, %v", present, err)
			}
			again.Key = []byte("other")
			present, err = r.Claim(t.Context(), &again, time.Hour)
			if u := wantUnavailable(t, err, "", ""); !u.Full || present != nil {
				t.Fatalf("present %+v, %v", present, err)
			}
		}
	})
}

// TestManyIDs tests what a notice holds.
func TestManyIDs(t *testing.T) {
	n := New(Settings{Kind: Postgres}).runs.notices
	text := n.take()
	if text != n.sender+" " {
		t.Fatalf("an empty notice is %q", text)
	}
	var ids []string
	for range 200 {
		ids = append(ids, uuid.NewString())
	}
	n.Announce(ids)
	other := New(Settings{Kind: Postgres}).runs.notices
	other.heard(n.take())
	if got := <-other.changes; strings.Join(got, " ") != strings.Join(ids, " ") {
		t.Fatalf("got %q", got)
	}
	n.Announce(ids)
	n.Announce(ids[:50])
	text = n.take()
	if len(text) > maxNotice {
		t.Fatalf("a notice of %d bytes", len(text))
	}
	other.heard(text)
	if got := <-other.changes; got != nil {
		t.Fatalf("got %q", got)
	}
	n.Announce(ids[:1])
	n.failed()
	n.Announce(ids[:1])
	other.heard(n.take())
	if got := <-other.changes; got != nil {
		t.Fatalf("after one that was not sent: got %q", got)
	}
	other.heard(n.take()) // without ids
	n.heard(n.take())     // its own
	// One who does not listen has to look at everything, and holds nobody up.
	for range 10 * cap(other.changes) {
		n.Announce(ids[:1])
		other.heard(n.take())
	}
	missed := false
	for len(other.changes) > 0 {
		missed = <-other.changes == nil || missed
	}
	if len(n.changes) != 0 || !missed {
		t.Fatalf("own notices: %d, missed: %v", len(n.changes), missed)
	}
}

// TestDeaf tests that everything is looked at if notices don't come back, and that the log says so once.
func TestDeaf(t *testing.T) {
	log, lines := observed()
	db := New(Settings{Kind: Postgres, DSN: "postgres://host/db"})
	db.log.Store(log)
	n := db.runs.notices
	n.listens(true)
	<-n.changes
	n.take()
	n.listenOtherwise()
	if len(n.changes) != 0 {
		t.Fatal("looked for changes too early")
	}
	for range 3 {
		n.mu.Lock()
		n.sent = time.Now().Add(-noticeTimeout - time.Second)
		n.mu.Unlock()
		n.listenOtherwise()
		if got := <-n.changes; got != nil {
			t.Fatalf("got %q", got)
		}
	}
	if all := lines.All(); len(all) != 1 || !strings.Contains(fmt.Sprint(all[0].ContextMap()), "pgbouncer") {
		t.Fatalf("log: %v", all)
	}
	if !n.heard(n.take()) {
		t.Fatal("it is not known that notices arrive again")
	}
	n.listenOtherwise()
	n.listens(false)
	if len(n.changes) != 0 {
		t.Fatal("looked for changes while notices arrive")
	}
	n.listenOtherwise() // while there is no connection
	if len(n.changes) != 1 || len(lines.All()) != 1 {
		t.Fatalf("%d changes, log: %v", len(n.changes), lines.All())
	}
}

// TestListenAgain tests that everything is looked at when the connection that listens is open again, and that notices come again.
func TestListenAgain(t *testing.T) {
	t.Parallel()
	settings := Settings{Kind: Postgres, DSN: postgrestest.Start(t)}
	a, b := another(t, settings), another(t, settings)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	missed := 0
	hear := func(id string) {
		t.Helper()
		a.Announce([]string{id})
		for {
			select {
			case ids := <-b.Changes():
				if ids == nil {
					missed++
					a.Announce([]string{id}) // in case that b did not listen
				} else if slices.Contains(ids, id) {
					return
				}
			case <-ctx.Done():
				t.Fatalf("%q has not come", id)
			}
		}
	}
	hear("1")
	before := missed
	postgrestest.Exec(t, settings.DSN, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'")
	for i := 2; missed == before; i++ { // until the end of the connection is noticed
		hear(strconv.Itoa(i))
	}
	hear("last")
}

// TestLostLease tests that an instance whose lease has ended, since it was paused or the clock was set, goes on to submit what no other has adopted, and
// adopts what it followed.
func TestLostLease(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		r := another(t, settings)
		followed := working(t, r, "followed")
		submitted := &ledger.Entry{Owner: followed.Owner, ID: uuid.Must(uuid.NewV7()).String(), Key: []byte("submitted"), Front: "a2a"}
		if _, err := r.Claim(t.Context(), submitted, time.Hour); err != nil {
			t.Fatal(err)
		}
		exec(t, r.db, "UPDATE instances SET lease = $1", 1)
		if lost, err := r.Renew(t.Context()); !lost || err != nil || r.Instance() == submitted.Follower {
			t.Fatalf("%v, %v", lost, err)
		}
		if n := adopted(t, r) + adopted(t, another(t, settings)); n != 1 {
			t.Errorf("%d runs are adopted", n)
		}
		if e, err := r.Get(t.Context(), submitted.Identity()); err != nil || e.State != ledger.Submitting || e.Follower != r.Instance() {
			t.Errorf("%+v, %v", e, err)
		}
	})
}

// R254: after the clock was set back by an hour, the runs of an instance that is gone are adopted in less than two minutes.
func TestR254ClockSetBack(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		gone, r := another(t, settings), another(t, settings)
		working(t, gone, "k")
		age(t, r.db, -time.Hour)
		for range 2 { // as the loops of the ledger do
			if lost, err := r.Renew(t.Context()); lost || err != nil {
				t.Fatal(lost, err)
			}
			if _, err := r.Expire(t.Context(), 10); err != nil {
				t.Fatal(err)
			}
			if n := adopted(t, r); n != 0 {
				t.Fatalf("%d runs of one that may live", n)
			}
		}
		age(t, r.db, ledger.Lease)
		if _, err := r.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := adopted(t, r); n != 1 {
			t.Errorf("%d runs are adopted", n)
		}
	})
}

// What an instance goes on to submit after its lease was lost stays its own, also if the first try to take a new one has failed halfway.
func TestLeaseTakenTwice(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) {
		r := another(t, settings)
		e := &ledger.Entry{Owner: ledger.Owner{Realm: "main"}, ID: uuid.Must(uuid.NewV7()).String(), Key: []byte("submitted"), Front: "a2a"}
		if _, err := r.Claim(t.Context(), e, time.Hour); err != nil {
			t.Fatal(err)
		}
		exec(t, r.db, "UPDATE instances SET lease = 1")
		refuse := "CREATE TRIGGER refuse BEFORE UPDATE ON instances WHEN new.lease < {now} BEGIN SELECT RAISE(ABORT, 'refused'); END"
		if settings.Kind == Postgres {
			exec(t, r.db, "CREATE FUNCTION refuse_end() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$")
			refuse = "CREATE TRIGGER refuse BEFORE UPDATE ON instances FOR EACH ROW WHEN (new.lease < extract(epoch FROM clock_timestamp()) * 1000) EXECUTE FUNCTION refuse_end()"
		}
		exec(t, r.db, refuse)
		if _, err := r.Renew(t.Context()); err == nil {
			t.Fatal("the lease that has ended could be ended again")
		}
		drop := "DROP TRIGGER refuse"
		if settings.Kind == Postgres {
			drop += " ON instances; DROP FUNCTION refuse_end"
		}
		exec(t, r.db, drop)
		if lost, err := r.Renew(t.Context()); !lost || err != nil {
			t.Fatal(lost, err)
		}
		if stored, err := r.Get(t.Context(), e.Identity()); err != nil || stored.State != ledger.Submitting || stored.Follower != r.Instance() {
			t.Errorf("%+v, %v", stored, err)
		}
	})
}

// After the database could only be read, also for connections that were opened meanwhile, it is written again as soon as that is over.
func TestReadOnlyForAWhile(t *testing.T) {
	t.Parallel()
	settings := Settings{Kind: Postgres, DSN: postgrestest.Start(t)}
	r := another(t, settings)
	server, name := path.Split(settings.DSN)
	readOnly := func(value string) {
		postgrestest.Exec(t, server+"postgres", "ALTER DATABASE "+name+" SET default_transaction_read_only = "+value)
	}
	readOnly("on")
	postgrestest.Exec(t, settings.DSN, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	renewed := func() bool {
		_, err := r.Renew(t.Context())
		return err == nil
	}
	for range 2 * postgresLeases { // the connections in the pools are gone
		_ = renewed()
	}
	if renewed() {
		t.Fatal("the database can be written")
	}
	readOnly("off")
	for range postgresLeases {
		_ = renewed() // this finds the last connection that only reads
	}
	if !renewed() {
		t.Error("connections that only read are still in use")
	}
	working(t, r, "k")
}
