package front

import (
	"context"
	"errors"
	"net/http"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
)

// IsRead reports whether a request reads a document. Those with other methods are answered: with what browsers ask before they read a
// document of another origin, or with a refusal.
func IsRead(w http.ResponseWriter, r *http.Request, refusal string) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", "*")
	if r.Method == http.MethodOptions {
		header.Set("Access-Control-Allow-Methods", "GET, HEAD")
		header.Set("Access-Control-Allow-Headers", "*")
		w.WriteHeader(http.StatusNoContent)
		return false
	}
	header.Set("Allow", "GET, HEAD, OPTIONS")
	header.Set("Cache-Control", "no-store")
	http.Error(w, refusal, http.StatusMethodNotAllowed)
	return false
}

// errBug is the error of a reading that has panicked.
var errBug = errors.New("it can't be read because of a bug of the bridge")

// Shared returns what a function reads once for all that ask for a key at a time, also if they do not wait for it. The reading has a time;
// a caller waits until its context ends or its patience, and then gets an error. A panic of the function is reported once to panicked, which may be nil:
// no caller may be there any more. To callers, it is an error like others.
func Shared[T any](ctx context.Context, flights *singleflight.Group, key string, reading, patience time.Duration, panicked func(context.Context, any, []byte), read func(context.Context) (T, error)) (T, error) {
	flight := flights.DoChan(key, func() (value any, err error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reading)
		defer cancel()
		if bug := panics.Recovered(func() { value, err = read(ctx) }); bug != nil {
			if err = errBug; panicked != nil {
				panicked(ctx, bug, nil)
			}
		}
		return value, err
	})
	waiting, cancel := context.WithTimeout(ctx, patience) // ctx is that of the reading, too
	defer cancel()
	select {
	case made := <-flight:
		value, _ := made.Val.(T)
		return value, made.Err
	case <-waiting.Done():
		return *new(T), waiting.Err()
	}
}
