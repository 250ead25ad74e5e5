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
	type missingKey struct{}
	around := &countingContext{Context: t.Context()}
	x := newBenchBridgeTo(t, nil).begin(around, OperationList, Call{})
	defer x.end()
	around.asked = 0
	for range 10 {
		if v := x.ctx.Value(missingKey{}); v != nil {
			t.Error(v)
		}
	}
	if around.asked != 1 {
		t.Errorf("asked %d times for what is missing", around.asked)
	}
	for range 10 {
		if v := x.ctx.Value(presentKey{}); v != "here" {
			t.Error(v)
		}
	}
}
