package cache_test

import (
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
)

func TestNewNamesTheBadField(t *testing.T) {
	for name, spoil := range map[string]func(*cache.Config){
		"MaxSize is 0":         func(c *cache.Config) { c.MaxSize = 0 },
		"MaxSize is -1":        func(c *cache.Config) { c.MaxSize = -1 },
		"MaxTTL is 0s":         func(c *cache.Config) { c.MaxTTL = 0 },
		"MaxTTL is -1ns":       func(c *cache.Config) { c.MaxTTL = -1 },
		" TTL is -1ns":         func(c *cache.Config) { c.TTL = -1 },
		"StaleIfError is -1ns": func(c *cache.Config) { c.StaleIfError = -1 },
		"NegativeTTL is -1ns":  func(c *cache.Config) { c.NegativeTTL = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			bad := config
			spoil(&bad)
			c, err := cache.New(bad)
			if err == nil {
				c.Close()
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), name) {
				t.Fatalf("got %q, want it to say %q", err, name)
			}
		})
	}
}

func TestStateNames(t *testing.T) {
	for state, want := range map[cache.State]string{
		cache.Hit: "hit", cache.Fetched: "fetched", cache.Revalidated: "revalidated", cache.Stale: "stale", 0: "state(0)",
	} {
		if got := state.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
