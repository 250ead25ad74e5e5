package bridge

import (
	"cmp"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
)

// Cache bounds the cache of documents that describe skills. Bridges with the same
// settings of cache, network and transport share one cache, which survives reloads of
// the configuration.
type Cache struct {
	// Memory for documents, in bytes. In JSON, 0 means the default. Default: 67108864 (64 MiB).
	MaxSize int64 `json:"max_size,omitempty"`

	// How long a document is fresh if the provider does not say; at most `max_ttl`. 0: it
	// is revalidated every time. Default: `5m`, or `max_ttl` if that is less.
	TTL *caddy.Duration `json:"ttl,omitempty"`

	// How long a document is fresh at most, whatever the provider says. In JSON, 0 means
	// the default. Default: `24h`.
	MaxTTL caddy.Duration `json:"max_ttl,omitempty"`

	// How long a stale document is still used while the provider is down or answers with an
	// invalid document, from the time at which it became stale. 0: never. Default: `1h`.
	StaleIfError *caddy.Duration `json:"stale_if_error,omitempty"`

	// How long the bridge waits after a document could not be read before it tries again.
	// 0: it tries again at once. Default: `5s`.
	NegativeTTL *caddy.Duration `json:"negative_ttl,omitempty"`
}

const (
	defaultCacheSize    = 64 << 20
	defaultTTL          = 5 * time.Minute
	defaultMaxTTL       = 24 * time.Hour
	defaultStaleIfError = time.Hour
	defaultNegativeTTL  = 5 * time.Second
)

// config returns the cache settings, with defaults.
func (c *Cache) config() cache.Config {
	c = cmp.Or(c, new(Cache))
	return cache.Config{
		MaxSize:      cmp.Or(c.MaxSize, defaultCacheSize),
		TTL:          orDefaultPointer(c.TTL, defaultTTL),
		MaxTTL:       orDefault(c.MaxTTL, defaultMaxTTL),
		StaleIfError: orDefaultPointer(c.StaleIfError, defaultStaleIfError),
		NegativeTTL:  orDefaultPointer(c.NegativeTTL, defaultNegativeTTL),
	}
}

// check checks numbers and durations, and the default TTL against its maximum.
func (c *Cache) check(k *options.Checker) {
	if c == nil {
		return
	}
	checkAmounts(k, []amount{
		{"cache.max_size", c.MaxSize},
		{"cache.ttl", c.TTL},
		{"cache.max_ttl", &c.MaxTTL},
		{"cache.stale_if_error", c.StaleIfError},
		{"cache.negative_ttl", c.NegativeTTL},
	})
	if ttl, longest := orDefaultPointer(c.TTL, 0), orDefault(c.MaxTTL, defaultMaxTTL); ttl > longest {
		k.Check("cache.ttl", fmt.Errorf("ttl %s is longer than max_ttl, which is %s%s, so it has no effect",
			options.Shown(ttl), options.Shown(longest), byDefaultText(c.MaxTTL == 0)))
	}
}

// orDefaultPointer returns a duration, or the default for nil. A duration of 0 is not the default.
func orDefaultPointer(d *caddy.Duration, standard time.Duration) time.Duration {
	if d == nil {
		return standard
	}
	return time.Duration(*d)
}
