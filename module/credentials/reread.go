package credentials

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"

	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
)

const (
	// rereadInterval is the minimum time between two readings of the files of one credential.
	rereadInterval = time.Second
	// maxSecrets is how many secrets of one credential and its earlier values are redacted.
	maxSecrets = 64
)

// rereadable is a value that is made of options. If these name files, it is made again after a provider has refused it, so that a secret can be
// replaced without a reload.
type rereadable[T any] struct {
	build  func(*resolver) (T, error)
	logger *zap.Logger

	reads  singleflight.Group
	mu     sync.Mutex
	made   sealed[made[T]]
	all    sealed[[]string] // secrets of the current value and of earlier ones, newest first
	last   time.Time        // when the files were read last
	failed string           // the error of the last reading
}

// made is a value, and what is secret in it.
type made[T any] struct {
	value   T
	secrets []string
	files   bool // it is made of files
}

// newRereadable checks the options, makes the value for the first time, and logs what is dangerous about the options.
func newRereadable[T any](ctx caddy.Context, check func(*options.Checker), build func(*resolver) (T, error)) (*rereadable[T], error) {
	c := new(options.Checker)
	if check(c); c.Fault != nil {
		return nil, c.Fault
	}
	v := &rereadable[T]{build: build, logger: logger(ctx)}
	first, r, err := v.read()
	if err != nil {
		return nil, err
	}
	r.warn(v.logger)
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
	read := func() (any, error) {
		if v.due() { // another call may have read them
			v.replace()
		}
		return nil, nil //nolint:nilnil // get has the value
	}
	select {
	case <-v.reads.DoChan("", read):
	case <-ctx.Done():
	}
}

// due reports whether there are files, and they may be read again.
func (v *rereadable[T]) due() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.made().files && (v.last.IsZero() || time.Since(v.last) >= rereadInterval)
}

// replace reads the files and replaces the value if it has changed. If they can't be used, or that panics, the earlier value stays.
func (v *rereadable[T]) replace() {
	var next made[T]
	var err error
	if bug := panics.Recovered(func() { next, _, err = v.read() }); bug != nil {
		err = bug
	}
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
	all := slices.Clone(next.secrets)
	for _, s := range v.all() {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	v.made, v.all = seal(next), seal(all[:max(len(next.secrets), min(len(all), maxSecrets))])
	v.logger.Info("a credential that was refused was read again from its file, which has another one now")
}

// fixed are credentials that are made of options only.
type fixed[T any] struct {
	*rereadable[T]
	authenticate func(context.Context, *credential.Authentication) error
}

// provision checks the options of credentials, and makes their value.
func (f *fixed[T]) provision(ctx caddy.Context, of interface {
	check(*options.Checker)
	credential.Credentials
}, build func(*resolver) (T, error),
) (err error) {
	f.authenticate = of.Authenticate
	f.rereadable, err = newRereadable(ctx, of.check, build)
	return err
}

// Secrets returns what is secret in the value, the parts of it that are redacted separately, and the same of earlier values.
func (f *fixed[T]) Secrets() []string { return f.secrets() }

// Renew implements [credential.Renewer]: it reads the files of a refused credential again, unless it was replaced already, and reports whether the refused
// request would have another credential now.
func (f *fixed[T]) Renew(ctx context.Context, a *credential.Authentication) (bool, error) {
	for _, again := range []func(){func() {}, func() { f.reread(ctx) }} {
		again()
		fresh := *a
		fresh.Request = a.Request.Clone(ctx)
		if err := f.authenticate(ctx, &fresh); err != nil {
			return false, err
		}
		if !maps.EqualFunc(a.Request.Header, fresh.Request.Header, slices.Equal) {
			return true, nil
		}
	}
	return false, nil
}
