package skillbridge

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
)

// documentPool keeps caches of documents over reloads. Its keys are digests of
// the settings that shape what is in them.
var documentPool = caddy.NewUsagePool()

// documents is a cache as the pool holds it.
type documents struct{ *cache.Cache }

// Destruct implements caddy.Destructor.
func (d documents) Destruct() error {
	d.Close()
	return nil
}

// cacheConfig is the cache that the operator configured.
func (h *Handler) cacheConfig() cache.Config {
	c := h.Cache
	if c == nil {
		c = new(Cache)
	}
	return cache.Config{
		MaxSize:      cmp.Or(c.MaxSize, defaultCacheSize),
		TTL:          orDefaultPointer(c.TTL, defaultTTL),
		MaxTTL:       orDefault(c.MaxTTL, defaultMaxTTL),
		StaleIfError: orDefaultPointer(c.StaleIfError, defaultStaleIfError),
		NegativeTTL:  orDefaultPointer(c.NegativeTTL, defaultNegativeTTL),
	}
}

// cacheKey identifies the settings that decide what a cache holds: bridges that
// have them in common may share one.
func (h *Handler) cacheKey(config cache.Config, maxResponseSize int64, transport []byte) string {
	d := newDigest()
	for _, n := range []int64{config.MaxSize, int64(config.TTL), int64(config.MaxTTL), int64(config.StaleIfError), int64(config.NegativeTTL), maxResponseSize} {
		d.add(strconv.FormatInt(n, 10))
	}
	d.add(strconv.FormatBool(h.AllowHTTP))
	d.add(strconv.Itoa(len(h.AllowNetworks)))
	for _, network := range h.AllowNetworks {
		d.add(network)
	}
	d.add(strconv.Itoa(len(h.AllowPorts)))
	for _, port := range h.AllowPorts {
		d.add(strconv.Itoa(port))
	}
	d.add(string(transport))
	return d.text()
}

// digest sums up texts, each with its length so that they can't run into one another.
type digest struct{ hash.Hash }

func newDigest() digest { return digest{sha256.New()} }

func (d digest) add(text string) {
	_, _ = d.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text)))) // a hash never fails
	_, _ = d.Write([]byte(text))
}

func (d digest) text() string { return hex.EncodeToString(d.Sum(nil)) }

// usage counts who uses what a handler holds: the handler itself until its
// Cleanup, and every request for as long as it is served. Caddy calls Cleanup
// while requests are still served, and may serve further ones after it.
type usage struct {
	users   atomic.Int64
	leave   func()   // ends the handler's own use; once
	release func()   // gives up the shared cache; once
	idle    []func() // close idle connections; whenever nobody is left
}

// newUsage returns a usage that the handler holds until it calls leave.
func newUsage(release func(), idle []func()) *usage {
	u := &usage{release: sync.OnceFunc(release), idle: idle}
	u.acquire()
	u.leave = sync.OnceFunc(u.done)
	return u
}

func (u *usage) acquire() { u.users.Add(1) }

// done ends one use. With the last, what is held is given up.
func (u *usage) done() {
	if u.users.Add(-1) > 0 {
		return
	}
	u.release()
	for _, closeIdle := range u.idle {
		closeIdle()
	}
}
