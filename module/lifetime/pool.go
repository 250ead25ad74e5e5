package lifetime

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
)

// Pool keeps values by key over reloads, each until its last holder releases it. Values that
// implement [caddy.Destructor] are then destructed.
type Pool[V any] struct{ values *caddy.UsagePool }

// NewPool returns an empty pool.
func NewPool[V any]() *Pool[V] { return &Pool[V]{caddy.NewUsagePool()} }

// pooled is the form of a value in Caddy's pool, which holds only destructors.
type pooled[V any] struct{ value V }

// Destruct implements caddy.Destructor.
func (p *pooled[V]) Destruct() error {
	if d, ok := any(p.value).(caddy.Destructor); ok {
		return d.Destruct()
	}
	return nil
}

// Hold returns the value with a key, or creates it if there is none. The key must be
// comparable. The caller holds the value until it calls release. Further calls of release
// have no effect.
func (p *Pool[V]) Hold(key any, create func() (V, error)) (value V, release func(), err error) {
	kept, _, err := p.values.LoadOrNew(key, func() (caddy.Destructor, error) {
		made, err := create()
		if err != nil {
			return nil, err
		}
		return &pooled[V]{made}, nil
	})
	if err != nil {
		return value, nil, err
	}
	release = sync.OnceFunc(func() { _, _ = p.values.Delete(key) }) // values report their own errors
	return kept.(*pooled[V]).value, release, nil
}

// References returns how many holders the value with a key has.
func (p *Pool[V]) References(key any) int {
	n, _ := p.values.References(key)
	return n
}

// All returns all values, in no particular order. It holds none: one may be released, and so closed, while it is used.
func (p *Pool[V]) All() iter.Seq[V] {
	var values []V
	p.values.Range(func(_, kept any) bool { // Caddy's pool is locked meanwhile
		values = append(values, kept.(*pooled[V]).value)
		return true
	})
	return slices.Values(values)
}

// Digest identifies a list of texts, such as the settings that the values of a pool depend on.
// Each text is preceded by its length, so that different lists have different digests.
type Digest struct{ sum hash.Hash }

// NewDigest returns the digest of some texts. Add adds further ones.
func NewDigest(texts ...string) Digest {
	d := Digest{sha256.New()}
	d.Add(texts...)
	return d
}

// Add adds texts.
func (d Digest) Add(texts ...string) {
	for _, text := range texts {
		_, _ = d.sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text)))) // a hash never fails
		_, _ = d.sum.Write([]byte(text))
	}
}

// String returns the digest in hexadecimal digits.
func (d Digest) String() string { return hex.EncodeToString(d.sum.Sum(nil)) }

// Usage counts the users of the resources that a handler holds: the handler itself until its
// Cleanup, and each request while it is served. Caddy calls Cleanup while the handler still
// serves requests, and may pass it further requests after that.
type Usage struct {
	users    atomic.Int64
	leave    func()
	released atomic.Bool
	releases []func()
	idle     []func()
}

// NewUsage returns a usage with one user, the handler, until it calls Leave. Whenever
// the last user ends, the usage calls the functions that close idle connections.
func NewUsage(closeIdle ...func()) *Usage {
	u := &Usage{idle: closeIdle}
	u.leave = sync.OnceFunc(u.Done)
	u.Acquire()
	return u
}

// OnRelease adds a function that is called once, when the last user ends, in reverse order
// of the calls of OnRelease. Call it before several goroutines use the usage.
func (u *Usage) OnRelease(release func()) { u.releases = append(u.releases, release) }

// Acquire begins a use.
func (u *Usage) Acquire() { u.users.Add(1) }

// Done ends a use.
func (u *Usage) Done() {
	if u.users.Add(-1) == 0 {
		u.end()
	}
}

// EndRun ends the use by an execution that was counted with [BeginRun]. If it is the last, the rest is done in the background: what is released may wait for
// who ends the execution, as the ledger waits for its polls.
func (u *Usage) EndRun() {
	if u.users.Add(-1) > 0 {
		EndRun()
		return
	}
	go func() {
		defer EndRun()
		u.end()
	}()
}

// end is called when the last user has ended. Those who begin later don't wait until everything is released, since that may wait for them. A panic of one
// release keeps nothing else from being released.
func (u *Usage) end() {
	if u.released.CompareAndSwap(false, true) {
		for _, release := range slices.Backward(u.releases) {
			if bug := panics.Recovered(release); bug != nil {
				caddy.Log().Named("http.handlers.skill_bridge").Error("panic while something was released; this is a bug in the bridge, please report it", zap.Error(bug))
			}
		}
	}
	for _, closeIdle := range u.idle {
		closeIdle()
	}
}

// Leave ends the handler's own use. Further calls have no effect.
func (u *Usage) Leave() { u.leave() }
