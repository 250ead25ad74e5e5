package tokens

import (
	"context"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
)

// Pauses between two readings: after one that has failed, and if the value does not suffice although it is fresh.
const (
	failurePause = 10 * time.Second
	lackPause    = time.Minute
)

// Kept is what was read last of a server. It is read when it is needed, by one goroutine for all callers, and a server that does not answer is left alone for
// a while. The zero value has to be read.
type Kept[T any] struct {
	mu      sync.Mutex
	value   T
	at      time.Time     // when the value was read; zero: it was not
	lacked  time.Time     // when it was read last because it did not suffice
	failed  time.Time     // when reading it failed last
	err     error         // of the last reading; nil: it did not fail, or there was none
	reading chan struct{} // is closed at the end of the reading that is under way; nil: none is
}

// At returns when the value was read.
func (k *Kept[T]) At() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.at
}

// Get returns the value, and when it was read. If it is not fresh or does not suffice, it is read first, in at most [FetchTimeout], unless that was tried a
// moment ago. The error is that of the last reading; the value may suffice all the same.
func (k *Kept[T]) Get(ctx context.Context, fresh time.Duration, suffices func(value T, age time.Duration) bool, read func(context.Context) (T, error)) (value T, at time.Time, err error) {
	k.mu.Lock()
	old, enough := time.Since(k.at) >= fresh, suffices(k.value, time.Since(k.at))
	if !old && enough {
		defer k.mu.Unlock()
		return k.value, k.at, nil
	}
	if k.reading == nil && time.Since(k.failed) >= failurePause && (old || time.Since(k.lacked) >= lackPause) {
		if !old {
			k.lacked = time.Now()
		}
		k.reading = make(chan struct{})
		go k.readAgain(context.WithoutCancel(ctx), read)
	}
	reading := k.reading
	if reading == nil || enough && k.err != nil { // no request waits for a server that did not answer
		defer k.mu.Unlock()
		return k.value, k.at, k.err
	}
	k.mu.Unlock()
	select {
	case <-reading:
	case <-ctx.Done():
		return value, at, ctx.Err()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.value, k.at, k.err
}

// readAgain reads the value for all callers that wait for it.
func (k *Kept[T]) readAgain(ctx context.Context, read func(context.Context) (T, error)) {
	ctx, cancel := context.WithTimeout(ctx, FetchTimeout)
	defer cancel()
	var value T
	var err error
	if bug := panics.Recovered(func() { value, err = read(ctx) }); bug != nil {
		err = bug
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	close(k.reading)
	if k.reading, k.err = nil, err; err != nil {
		k.failed = time.Now()
		return
	}
	k.value, k.at = value, time.Now()
}
