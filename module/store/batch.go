package store

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

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
	ctx     context.Context
	session session
	f       func(context.Context, session) error
	begun   atomic.Bool // or withdrawn
	err     error
	done    chan struct{} // closed when err is set
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
	// While the disk hangs, withdrawn changes, with what they would write, would fill the memory.
	b.waiting = append(slices.DeleteFunc(b.waiting, func(c *change) bool { return c.begun.Load() }), c)
	b.mu.Unlock()
	ledger.Wake(b.wake)
	select {
	case <-c.done:
	case <-ctx.Done():
		if c.begun.CompareAndSwap(false, true) {
			return ctx.Err()
		}
		<-c.done
	}
	panics.Raise(c.err)
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

// errPanicked is the error of what a panic has ended: the opening of the database, or the transaction of several changes.
var errPanicked = errors.New("a use of the database panicked")

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
		c.err = cmp.Or(c.err, err)
		close(c.done)
	}
	return true
}

// make calls the function of a change, unless that was withdrawn. Its error is returned if it ends the transaction.
func (c *change) make(ctx context.Context, s session) error {
	if !c.begun.CompareAndSwap(false, true) {
		return nil
	}
	if panicked := panics.Recovered(func() { c.err = c.f(ctx, s) }); panicked != nil {
		c.err = panicked
		return errPanicked
	}
	if c.err != nil && verdict.EndsTransaction(c.err) {
		return c.err
	}
	return nil
}

// writeAll makes the changes in one transaction. A statement that fails has no effect; several have a savepoint. They don't end with a context: SQLite never
// waits in a transaction, and watching a context takes a goroutine for each statement.
func writeAll(ctx context.Context, batch []*change) error {
	s := batch[0].session
	var err error
	bug := panics.Recovered(func() {
		_, err = s.exec(ctx, "BEGIN IMMEDIATE")
		for i := 0; err == nil && i < len(batch); i++ {
			err = batch[i].makeWithin(ctx, s)
		}
		if err == nil {
			_, err = s.exec(ctx, "COMMIT")
		}
	})
	if err = cmp.Or(bug, err); err != nil {
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
