package run

import (
	"context"
	"errors"
	"time"
)

// ErrStopping is the cause of a context that was cancelled because the bridge is being stopped.
var ErrStopping = errors.New("the bridge is being stopped")

// ErrCallerCanceled is the cause of a context that was canceled because the caller has canceled its call, for [CallerCanceled].
var ErrCallerCanceled = errors.New("the caller has canceled the call")

// ErrLeft is the cause of a context that was canceled because no request waits for the run any more, and others follow it: this is no failure of the call.
var ErrLeft = errors.New("no request waits for the run any more")

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
