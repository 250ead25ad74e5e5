package cache_test

import (
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
)

func BenchmarkGetHit(b *testing.B) {
	c := newCache(b, config)
	o := &origin{}
	o.says(200, header("Vary", "Accept, Accept-Encoding, Authorization"), "one")
	request := o.request()
	if _, err := c.Get(b.Context(), request); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if doc, err := c.Get(b.Context(), request); err != nil || doc.State != cache.Hit {
			b.Fatal(doc, err)
		}
	}
}

func BenchmarkGetHitParallel(b *testing.B) {
	c := newCache(b, config)
	o := &origin{}
	o.says(200, header(), "one")
	request := o.request()
	if _, err := c.Get(b.Context(), request); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if doc, err := c.Get(b.Context(), request); err != nil || doc.State != cache.Hit {
				b.Error(doc, err)
			}
		}
	})
}

func BenchmarkGetFetched(b *testing.B) {
	c := newCache(b, config)
	o := &origin{}
	o.says(200, header("Cache-Control", "no-cache"), "one")
	request := o.request()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Get(b.Context(), request); err != nil {
			b.Fatal(err)
		}
	}
}
