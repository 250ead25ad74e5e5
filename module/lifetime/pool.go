package lifetime

import (
	"iter"
	"sync"

	"github.com/caddyserver/caddy/v2"
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

// All returns all values, in no particular order.
func (p *Pool[V]) All() iter.Seq[V] {
	return func(yield func(V) bool) {
		p.values.Range(func(_, kept any) bool { return yield(kept.(*pooled[V]).value) })
	}
}
