package skillbridge

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/certmagic"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// sharedPool keeps over reloads what would be dear to learn again. Its keys are
// digests of the settings that shape it.
var sharedPool = caddy.NewUsagePool()

// shared is what bridges with the same settings have in common.
type shared struct {
	documents *cache.Cache
	breakers  *skillsharing.Breakers
	schemas   *skillsharing.Schemas
	metrics   *metrics // count the documents
}

func newShared(documents *cache.Cache, breakers *skillsharing.Breakers, schemas *skillsharing.Schemas) *shared {
	processMetrics.use(documents)
	return &shared{documents, breakers, schemas, processMetrics}
}

// Destruct implements caddy.Destructor.
func (s *shared) Destruct() error {
	s.metrics.drop(s.documents)
	s.documents.Close()
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

// breakerConfig is when circuit breakers open. A call's own time counts against a
// host only if it was not shorter than what calls usually have.
func (h *Handler) breakerConfig() skillsharing.BreakerConfig {
	b := h.CircuitBreaker
	if b == nil {
		b = new(CircuitBreaker)
	}
	return skillsharing.BreakerConfig{
		Failures: cmp.Or(b.Failures, defaultFailures),
		Cooldown: orDefault(b.Cooldown, defaultCooldown),
		Patience: min(orDefault(h.Timeout, defaultTimeout), maxPatience),
	}
}

// maxPatience is how long a host has to have been waited for until that counts as
// its failure.
const maxPatience = 5 * time.Second

// poolKey identifies the settings that decide what is shared: bridges that have
// them in common may share it.
func (h *Handler) poolKey() string {
	documents, breaking := h.cacheConfig(), h.breakerConfig()
	d := newDigest()
	for _, n := range []int64{
		documents.MaxSize, int64(documents.TTL), int64(documents.MaxTTL), int64(documents.StaleIfError), int64(documents.NegativeTTL),
		h.maxResponseSize(), int64(breaking.Failures), int64(breaking.Cooldown), int64(breaking.Patience),
	} {
		d.add(strconv.FormatInt(n, 10))
	}
	d.add(fmt.Sprintf("%+v", h.readingLimits())) // decide which documents are valid
	d.add(strconv.FormatBool(h.AllowHTTP))
	d.add(strconv.Itoa(len(h.AllowNetworks)))
	for _, network := range h.AllowNetworks {
		d.add(network)
	}
	d.add(strconv.Itoa(len(h.AllowPorts)))
	for _, port := range h.AllowPorts {
		d.add(strconv.Itoa(port))
	}
	d.add(string(h.TransportRaw))
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

// storageOf returns Caddy's storage, or nil where a handler is provisioned without a
// running Caddy, which has an events app.
func storageOf(ctx caddy.Context) certmagic.Storage {
	if _, err := ctx.AppIfConfigured("events"); err != nil {
		return nil
	}
	return ctx.Storage()
}
