package discovery

import (
	"context"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// HoldKey is the key of a value that the context of a call may have. The value has a
// method Hold() (release func()). Hold is called before a document is read, and release
// when that has ended, which may be after the call.
type HoldKey struct{}

func hold(ctx context.Context) (release func()) {
	if h, ok := ctx.Value(HoldKey{}).(interface{ Hold() (release func()) }); ok {
		return h.Hold()
	}
	return func() {}
}

// maxLarge is how many large indexes, and how many large descriptors, of a source are read and parsed at a time: parsing
// takes many times their size in memory.
const maxLarge = 2

func newLarge() map[run.Phase]chan struct{} {
	return map[run.Phase]chan struct{}{run.PhaseDiscovery: make(chan struct{}, maxLarge), run.PhaseDescriptor: make(chan struct{}, maxLarge)}
}

type readingKey struct{}

// admitLarge waits for a place for a document that turns out to be large. The reading
// gives it up with its context, which ends when the document has been parsed.
func (c *Reader) admitLarge(ctx context.Context, r *reading, phase run.Phase) error {
	if r.large {
		return nil
	}
	places := c.constant().large[phase]
	select {
	case places <- struct{}{}:
		r.large = true
		context.AfterFunc(ctx, func() { <-places })
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
