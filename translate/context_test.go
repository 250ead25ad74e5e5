package translate

import (
	"context"
	"testing"
)

// countingContext counts how often it is asked for a value.
type countingContext struct {
	context.Context
	asked int
}

type presentKey struct{}

// Value implements [context.Context].
func (c *countingContext) Value(key any) any {
	c.asked++
	if key == (presentKey{}) {
		return "here"
	}
	return c.Context.Value(key)
}

// The contexts around a call are asked once for what they do not have, as each request to a provider would.
func TestMissingValues(t *testing.T) {
	type key int
	const keys = 4 // a call asks for a trace, for what watches the connection, and for what its front may have kept
	around := &countingContext{Context: t.Context()}
	x := newBenchBridgeTo(t, nil).begin(around, OperationList, Call{})
	defer x.end()
	around.asked = 0
	for i := range 10 * keys {
		if v := x.ctx.Value(key(i % keys)); v != nil {
			t.Error(v)
		}
	}
	if around.asked != keys {
		t.Errorf("asked %d times for %d missing values", around.asked, keys)
	}
	for range 10 {
		if v := x.ctx.Value(presentKey{}); v != "here" {
			t.Error(v)
		}
	}
}
