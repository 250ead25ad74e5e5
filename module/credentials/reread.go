package credentials

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials/tokens"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
)

const (
	// rereadInterval is the minimum time between two readings of the files of one credential.
	rereadInterval = time.Second
)

// rereadable is a value that is made of options. If these name files, it is made again after a provider has refused it, so that a secret can be
// replaced without a reload.
type rereadable[T any] struct {
	build  func(*resolver) (T, error)
	logger *zap.Logger

	turn chan struct{} // holds an element while the files are read
	mu   sync.Mutex
	made sealed[made[T]]
	// all are the secrets of the current value and of earlier ones.
	all     sealed[[]string]
	earlier [][]string // oldest first
	last    time.Time  // when the files were read last
	failed  string     // the error of the last reading
}

// made is a value, and what is secret in it.
type made[T any] struct {
	value   T
	secrets []string
	files   bool // it is made of files
}

// newRereadable makes the value for the first time, and logs what is dangerous about its options.
func newRereadable[T any](logger *zap.Logger, build func(*resolver) (T, error)) (*rereadable[T], error) {
	v := &rereadable[T]{build: build, logger: logger, turn: make(chan struct{}, 1)}
	first, r, err := v.read()
	if err != nil {
		return nil, err
	}
	r.warn(logger)
	v.made, v.all = seal(first), seal(first.secrets)
	return v, nil
}

func (v *rereadable[T]) read() (made[T], *resolver, error) {
	r := newResolver()
	value, err := v.build(r)
	return made[T]{value, r.secrets, r.files}, r, err
}

// get returns the current value.
func (v *rereadable[T]) get() T {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.made().value
}

// secrets returns what is secret in the current value and in earlier ones. The list must not be changed.
func (v *rereadable[T]) secrets() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.all()
}

// reread reads the files again, unless they were read less than a second ago. It returns when that is done, or when ctx ends: a file may be on a
// device that does not answer.
func (v *rereadable[T]) reread(ctx context.Context) {
	if v == nil || !v.due() {
		return
	}
	select {
	case v.turn <- struct{}{}:
	case <-ctx.Done():
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { <-v.turn }()
		if v.due() { // another call may have read them
			v.replace()
		}
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// due reports whether there are files, and they may be read again.
func (v *rereadable[T]) due() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.made().files && (v.last.IsZero() || time.Since(v.last) >= rereadInterval)
}

// replace reads the files and replaces the value if it has changed. If they can't be used, the earlier value stays.
func (v *rereadable[T]) replace() {
	next, _, err := v.read()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last = time.Now()
	if err != nil {
		if v.failed != err.Error() {
			v.logger.Warn("a credential that was refused can't be read again from its file; the earlier one is used", zap.Error(err))
		}
		v.failed = err.Error()
		return
	}
	v.failed = ""
	before := v.made()
	if reflect.DeepEqual(before.value, next.value) {
		return
	}
	v.earlier = append(v.earlier, before.secrets)
	v.earlier = v.earlier[max(0, len(v.earlier)-tokens.MaxEarlier):]
	all := slices.Clone(next.secrets)
	for _, secrets := range slices.Backward(v.earlier) {
		for _, s := range secrets {
			if !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	v.made, v.all = seal(next), seal(all)
	v.logger.Info("a credential that was refused was read again from its file, which has another one now")
}

// renewed reads the files of a refused credential again, unless it was replaced already, and reports whether the refused request would have another
// credential now.
func renewed[T any](ctx context.Context, c credential.Credentials, v *rereadable[T], a *credential.Authentication) (bool, error) {
	for _, again := range []func(){func() {}, func() { v.reread(ctx) }} {
		again()
		fresh := *a
		fresh.Request = a.Request.Clone(ctx)
		if err := c.Authenticate(ctx, &fresh); err != nil {
			return false, err
		}
		if !maps.EqualFunc(a.Request.Header, fresh.Request.Header, slices.Equal) {
			return true, nil
		}
	}
	return false, nil
}
