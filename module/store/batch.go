package store

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"

	"github.com/skill-bridge/caddy-skill-bridge/module/store/verdict"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
)

// maxBatch is how many changes are one transaction at most.
const maxBatch = 256

// batches make transactions of the changes that wait for the one connection that writes, so that they wait for the disk once. Only a
// change that fails has no effect, unless SQLite gives up the whole transaction, such as on a full disk.
type batches struct {
	wake    chan struct{} // closed when the connection is
	mu      sync.Mutex
	waiting []*change
}

// change is a function that waits for its turn to write.
type change struct {
	ctx      context.Context
	session  session
	f        func(context.Context, session) error
	err      error
	panicked error         // of f
	done     chan struct{} // closed when err is set
}

func newBatches() *batches {
	b := &batches{wake: make(chan struct{}, 1)}
	go b.writing()
	return b
}

// writing makes the changes. One goroutine does it for all, whose stack has the size that SQLite needs: each of those that wait would have to grow.
func (b *batches) writing() {
	for range b.wake {
		for more := true; more; more = b.write(b.next()) {
			runtime.Gosched() // who is about to wait has a place in the same transaction
		}
	}
}

// do calls f when it is its turn. Once f has its turn, do waits for its end, also if the context ends.
func (b *batches) do(ctx context.Context, s session, f func(context.Context, session) error) error {
	c := &change{ctx: ctx, session: s, f: f, done: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, c)
	b.mu.Unlock()
	ledger.Wake(b.wake)
	select {
	case <-c.done:
	case <-ctx.Done():
		if b.withdraw(c) {
			return ctx.Err()
		}
		<-c.done
	}
	panics.Raise(c.panicked)
	return c.err
}

// next takes the changes of the next transaction.
func (b *batches) next() (batch []*change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.waiting), maxBatch)
	if i := slices.IndexFunc(b.waiting[:n], func(c *change) bool { return c.session.kind == alone }); i >= 0 {
		n = max(i, 1)
	}
	batch = b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	return batch
}

// withdraw removes a change that has not had its turn.
func (b *batches) withdraw(c *change) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := len(b.waiting)
	b.waiting = slices.DeleteFunc(slices.Clone(b.waiting), func(other *change) bool { return other == c }) // a batch may share the array
	return len(b.waiting) < before
}

// errPanicked is the error of changes whose transaction was ended by a panic of one of them.
var errPanicked = errors.New("a change to the database panicked")

// write makes the changes. It reports whether there were any.
func (b *batches) write(batch []*change) bool {
	var err error
	switch {
	case len(batch) == 0:
		return false
	case len(batch) == 1 && batch[0].session.kind != several:
		err = batch[0].make(batch[0].ctx, batch[0].session)
	default:
		err = writeAll(context.WithoutCancel(batch[0].ctx), batch)
	}
	for _, c := range batch {
		c.err = cmp.Or(err, c.err)
		close(c.done)
	}
	return true
}

// make calls the function of a change. Its error is returned if it ends the transaction.
func (c *change) make(ctx context.Context, s session) error {
	c.panicked = panics.Recovered(func() { c.err = c.f(ctx, s) })
	switch {
	case c.panicked != nil:
		return errPanicked
	case c.err != nil && verdict.EndsTransaction(c.err):
		return c.err
	}
	return nil
}

// writeAll makes the changes in one transaction. A statement that fails has no effect; several have a savepoint. They don't end with a context: SQLite waits
// for nobody in a transaction, and who watches a context takes a goroutine for each statement.
func writeAll(ctx context.Context, batch []*change) error {
	s := batch[0].session
	_, err := s.exec(ctx, "BEGIN IMMEDIATE")
	for i := 0; err == nil && i < len(batch); i++ {
		err = batch[i].makeWithin(ctx, s)
	}
	if err == nil {
		_, err = s.exec(ctx, "COMMIT")
	}
	if err != nil {
		_, _ = s.exec(ctx, "ROLLBACK") // SQLite may have done it
	}
	return err
}

// makeWithin is make in a transaction with others.
func (c *change) makeWithin(ctx context.Context, s session) error {
	if c.session.kind != several {
		return c.make(ctx, s)
	}
	if _, err := s.exec(ctx, "SAVEPOINT change"); err != nil {
		return err
	}
	if err := c.make(ctx, s); err != nil {
		return err
	}
	end := "RELEASE change"
	if c.err != nil {
		end = "ROLLBACK TO change; RELEASE change"
	}
	_, err := s.exec(ctx, end)
	return err
}
