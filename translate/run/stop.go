package run

import (
	"context"
	"errors"
	"time"
)

// StopKey is the key of a context value with the method Stopping() bool, which reports whether
// the context was cancelled because the bridge is being stopped.
type StopKey struct{}

// ErrStopping is the cause of a context that was cancelled because the bridge is being stopped.
var ErrStopping = errors.New("the bridge is being stopped")

// ErrCallerCanceled is the cause of a context that was canceled because the caller has canceled its call, for [CallerCanceled].
var ErrCallerCanceled = errors.New("the caller has canceled the call")

// ErrLeft is the cause of a context that was canceled because no request waits for the run any more, and others follow it: this is no failure of the call.
var ErrLeft = errors.New("no request waits for the run any more")

// CauseOf is [context.Cause], or [ErrStopping] if the bridge is being stopped.
func CauseOf(ctx context.Context) error {
	if s, ok := ctx.Value(StopKey{}).(interface{ Stopping() bool }); ok && s.Stopping() {
		return ErrStopping
	}
	return context.Cause(ctx)
}

// Sleep waits for d or until the context ends. It reports whether it waited for d.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
