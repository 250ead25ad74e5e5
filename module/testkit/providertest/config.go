package providertest

import (
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// Config returns the configuration of a bridge to sources of skills, which polls every few milliseconds.
func Config(tb testing.TB, sources ...catalog.Source) translate.Config {
	tb.Helper()
	documents, err := cache.New(cache.Config{MaxSize: 8 << 20, TTL: time.Hour, MaxTTL: time.Hour, StaleIfError: time.Hour})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(documents.Close)
	return translate.Config{
		Sources: sources, Cache: documents, Caller: skillsharing.Caller{ID: "test", Type: "service"}, Priority: skillsharing.PriorityNormal,
		DefaultTimeout: 25 * time.Second, MaxTimeout: 30 * time.Minute,
		Polling:         skillsharing.Polling{Plan: polling.Backoff{Initial: time.Millisecond, Longest: 5 * time.Millisecond}},
		MaxResponseSize: 1 << 20, AllowHTTP: true,
	}
}
