package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/skill-bridge/caddy-skill-bridge/module/store/verdict"
)

// maxBatch is how many changes are one transaction at most.
const maxBatch = 256

// batches make transactions of the changes that wait for the one connection that writes, so that they wait for the disk once. Only a
// change that fails has no effect, unless SQLite gives up the whole transaction, such as on a full disk.
type batches struct {
	turn    chan struct{} // holds the one who writes
	mu      sync.Mutex
	waiting []*change
}

// change is a function that waits for its turn to write.
type change struct {
	ctx     context.Context
	session session
	f       func(context.Context, session) error
	err     error
	done    chan struct{} // closed when err is set
}

func newBatches() *batches { return &batches{turn: make(chan struct{}, 1)} }

// do calls f when it is its turn. Once f has its turn, do waits for its end, also if the context ends.
func (b *batches) do(ctx context.Context, s session, f func(context.Context, session) error) error {
	c := &change{ctx, s, f, nil, make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, c)
	b.mu.Unlock()
	for {
		select {
		case <-c.done:
			return c.err
		case b.turn <- struct{}{}:
			b.write(b.next())
		case <-ctx.Done():
			if b.withdraw(c) {
				return ctx.Err()
			}
			<-c.done
			return c.err
		}
	}
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

// write makes the changes, and ends the turn.
func (b *batches) write(batch []*change) {
	err := errPanicked
	defer func() {
		for _, c := range batch {
			c.err = cmp.Or(err, c.err)
			close(c.done)
		}
		<-b.turn // after they know their ends, or each of them would take a turn first, with nothing to write
	}()
	switch {
	case len(batch) == 0:
	case len(batch) == 1 && batch[0].session.kind != several:
		err = batch[0].f(batch[0].ctx, batch[0].session)
	default:
		err = writeAll(context.WithoutCancel(batch[0].ctx), batch)
	}
}

// writeAll makes the changes in one transaction. A statement that fails has no effect; several have a savepoint. They don't end with a context: SQLite waits
// for nobody in a transaction, and who watches a context takes a goroutine for each statement.
func writeAll(ctx context.Context, batch []*change) error {
	s, committed := batch[0].session, false
	s.within = true
	if _, err := s.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if !committed {
			_, _ = s.exec(ctx, "ROLLBACK") // SQLite may have done it
		}
	}()
	for _, c := range batch {
		if c.session.kind == several {
			if _, err := s.exec(ctx, "SAVEPOINT change"); err != nil {
				return err
			}
		}
		c.err = c.f(ctx, s)
		if c.err != nil && verdict.EndsTransaction(c.err) {
			return c.err
		}
		if c.session.kind == several {
			if c.err != nil {
				if _, err := s.exec(ctx, "ROLLBACK TO change"); err != nil {
					return err
				}
			}
			if _, err := s.exec(ctx, "RELEASE change"); err != nil {
				return err
			}
		}
	}
	_, err := s.exec(ctx, "COMMIT")
	committed = err == nil
	return err
}
