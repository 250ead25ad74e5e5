package store

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/store/marks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

const (
	// channel is where instances that use one database of PostgreSQL announce changes.
	channel = "skill_bridge_runs"
	// grants is the id that announces that a user has granted something.
	grants = "grants"
	// noticeEvery is the least time between two notices of an instance. Each has all ids since the one before.
	noticeEvery = 20 * time.Millisecond
	// maxNotice is the size of the largest notice, in bytes. PostgreSQL takes less than 8,000.
	maxNotice = 7900
	// everything stands for more ids than fit in a notice.
	everything = "*"
	// lookEvery is the time between two looks for changes of others, if they don't announce them.
	lookEvery = time.Second
	// noticeTimeout is how long a notice may take to come back.
	noticeTimeout = 5 * time.Second
	// probeEvery is the time between two notices without ids, which only have to come back.
	probeEvery = 30 * time.Second
)

// notices are what an instance tells others and hears from them.
type notices struct {
	db      *DB
	sender  string // tells own notices apart
	changes chan []string
	marks   *marks.Marks
	grants  share.Signal // is sent when users may have granted something
	wake    chan struct{}

	mu        sync.Mutex
	list      string    // the ids to announce, or everything
	listening bool      // the connection that hears notices is open
	sent      time.Time // of the oldest own notice that has not come back; zero: all have
	silent    bool      // own notices don't come back, although the connection is open
}

func newNotices(db *DB) *notices {
	n := &notices{db: db, sender: newID(), changes: make(chan []string, 64), wake: make(chan struct{}, 1)}
	n.marks = marks.New(Things{db}, func() { n.Announce([]string{markKind}) })
	return n
}

// Announce implements [ledger.Store].
func (n *notices) Announce(ids []string) (ok bool) {
	if n.db.settings.Kind != Postgres || len(ids) == 0 {
		return false
	}
	n.mu.Lock()
	ok = n.listening && !n.silent
	for _, id := range ids {
		switch {
		case n.list == everything:
		case len(n.sender)+len(n.list)+len(id)+2 > maxNotice:
			n.list = everything
		default:
			n.list = strings.TrimPrefix(n.list+" "+id, " ")
		}
	}
	n.mu.Unlock()
	ledger.Wake(n.wake)
	return ok
}

// Changes implements [ledger.Store].
func (n *notices) Changes() <-chan []string { return n.changes }

// take returns the text of the next notice: the sender and the ids.
func (n *notices) take() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	text := n.sender + " " + n.list
	n.list = ""
	if n.listening && n.sent.IsZero() {
		n.sent = time.Now()
	}
	return text
}

// failed is called when a notice was not sent: others have to look at everything.
func (n *notices) failed() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list, n.sent = everything, time.Time{}
}

// send sends the next notice.
func (n *notices) send(ctx context.Context) error {
	err := n.db.session(leasing).query(ctx, func(*sql.Rows) error { return nil }, "SELECT pg_notify($1, $2)", channel, n.take())
	if err != nil {
		n.failed()
	}
	return err
}

// sendLast sends what was announced since the last notice.
func (n *notices) sendLast(ctx context.Context) {
	n.mu.Lock()
	left := n.list
	n.mu.Unlock()
	if left != "" {
		_ = n.send(ctx) // statements log errors
	}
}

// heard takes a notice. again says that own ones have not come back before.
func (n *notices) heard(text string) (again bool) {
	sender, list, _ := strings.Cut(text, " ")
	switch {
	case sender == n.sender:
		n.mu.Lock()
		defer n.mu.Unlock()
		again = n.silent
		n.sent, n.silent = time.Time{}, false
	case list == everything:
		n.tell(nil)
	case list != "":
		n.tell(strings.Split(list, " "))
	}
	return again
}

// tell tells the ledger of changes. If it is late to listen, it hears that it has missed some.
func (n *notices) tell(ids []string) {
	if ids == nil || slices.Contains(ids, markKind) {
		n.marks.Changed()
	}
	if ids == nil || slices.Contains(ids, grants) {
		n.grants.Send()
	}
	for {
		select {
		case n.changes <- ids:
			return
		default:
		}
		select {
		case <-n.changes:
			ids = nil
		default:
		}
	}
}

// listens notes whether the connection is open. What was announced while it was not was missed.
func (n *notices) listens(open bool) {
	n.mu.Lock()
	n.listening, n.sent = open, time.Time{}
	n.mu.Unlock()
	if open {
		n.tell(nil)
		ledger.Wake(n.wake) // a notice that has to come back
	}
}

// work announces and hears of changes until the database is closed.
func (n *notices) work() {
	switch n.db.settings.Kind {
	case Postgres:
		var loops sync.WaitGroup
		for _, loop := range []func(){n.listen, n.save, n.announce} {
			loops.Go(func() { n.steadily(loop) })
		}
		loops.Wait()
	case SQLite:
		n.steadily(n.look)
	case Memory: // no other process can change it
	}
}

// steadily calls a function that returns when the database is closed, and again after a panic.
func (n *notices) steadily(loop func()) {
	for n.db.Guarded(loop) && n.db.wait(firstPause) {
		continue
	}
}

// look looks each second whether another process has changed the file: the number is that of the connection that writes, and does not count its own
// changes.
func (n *notices) look() {
	s, before := n.db.session(writing), int64(0)
	for n.db.wait(lookEvery) {
		n.db.dialect.(*sqlite).checkPlace(n.db)
		_ = n.marks.Save(n.db.ctx) // statements log errors
		now := before
		if _, err := s.row(n.db.ctx, []any{&now}, "PRAGMA data_version"); err == nil && now != before {
			before = now
			n.tell(nil)
		}
	}
}

// save stores the marks that could not be stored, on connections for calls: notices don't wait for these.
func (n *notices) save() {
	for n.db.wait(lookEvery) {
		_ = n.marks.Save(n.db.ctx) // statements log errors
	}
}

// announce sends notices.
func (n *notices) announce() {
	sent := time.Time{}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-n.db.ctx.Done():
			return
		case <-n.wake:
		case <-tick.C:
			if n.listenOtherwise(); time.Since(sent) < probeEvery {
				continue
			}
		}
		if n.send(n.db.ctx) != nil {
			n.db.wait(lookEvery)
			ledger.Wake(n.wake)
			continue
		}
		sent = time.Now()
		n.db.wait(noticeEvery)
	}
}

// listenOtherwise has everything looked at if notices don't arrive.
func (n *notices) listenOtherwise() {
	n.mu.Lock()
	late := !n.sent.IsZero() && time.Since(n.sent) > noticeTimeout
	fresh := late && !n.silent
	n.silent = n.silent || late
	deaf := n.silent || !n.listening
	n.mu.Unlock()
	if fresh {
		n.db.log.Load().Warn("notices of PostgreSQL don't arrive, so changes of other instances are looked for each second",
			zap.String("database", n.db.dialect.place()), zap.String("advice", "Let the DSN name PostgreSQL itself, or a pool in session mode: "+
				"in transaction mode, pgbouncer does not pass on what a session listens to."))
	}
	if deaf {
		n.tell(nil)
	}
}

// listen hears notices, on a connection of its own.
func (n *notices) listen() {
	for {
		_ = n.listenOnce(n.db.ctx) // statements log that the database can't be used
		if !n.db.wait(lookEvery) {
			return
		}
	}
}

// listenOnce hears notices until the connection breaks, or nothing comes, not even own ones.
func (n *notices) listenOnce(ctx context.Context) error {
	conn, err := n.db.dialect.(*postgres).connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookEvery)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	n.listens(true)
	defer n.listens(false)
	for {
		waiting, cancel := context.WithTimeout(ctx, probeEvery+noticeTimeout)
		notice, err := conn.WaitForNotification(waiting)
		cancel()
		if err != nil {
			return err
		}
		if n.heard(notice.Payload) {
			n.db.log.Load().Info("notices of PostgreSQL arrive again", zap.String("database", n.db.dialect.place()))
		}
	}
}
