package run

import (
	"context"
	"errors"
)

// StopKey is the key of a value that the context of a call may have. The value has a
// method Stopping() bool, which tells, once the context is cancelled, whether that is
// because the bridge stops and can't wait for the call any longer.
type StopKey struct{}

// ErrStopping is the cause of the errors of such calls.
var ErrStopping = errors.New("the bridge is being stopped")

// CauseOf says why a context has ended.
func CauseOf(ctx context.Context) error {
	if s, ok := ctx.Value(StopKey{}).(interface{ Stopping() bool }); ok && s.Stopping() {
		return ErrStopping
	}
	return context.Cause(ctx)
}
