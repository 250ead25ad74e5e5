package skillsprotocol_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// apiKey is an API key.
type apiKey string

func (apiKey) Supports(*document.Auth) bool { return true }

func (k apiKey) Authenticate(_ context.Context, a *credential.Authentication) error {
	a.Request.Header.Set("X-API-Key", string(k))
	return nil
}

func (k apiKey) Secrets() []string { return []string{string(k)} }

// catalogOf returns the front of a bridge to providers with skills that need an API key and have an input with a schema. All descriptors have
// been read.
func catalogOf(b *testing.B, providers, skills int) *skillsprotocol.Front {
	b.Helper()
	sources := make([]catalog.Source, providers)
	for i := range sources {
		p := providertest.New()
		p.URL = fmt.Sprintf("http://provider-%d.example", i)
		list := make([]providertest.Object, skills)
		for j := range list {
			list[j] = providertest.Skill(fmt.Sprintf("acme/skill-%d", j), providertest.Object{"auth": providertest.Object{"type": "api_key", "header": "X-API-Key"}},
				providertest.Input("days", "number", providertest.Object{"schema": providertest.Object{"type": "integer", "minimum": 1}}))
		}
		p.Publish(list...)
		sources[i] = p.Source(b, fmt.Sprintf("acme%d", i))
		sources[i].Credentials = apiKey("key-0123456789abcdef")
		sources[i].Partition = fmt.Sprintf("%064d", i)
	}
	config := providertest.Config(b, sources...)
	documents, err := cache.New(cache.Config{MaxSize: 256 << 20, TTL: time.Hour, MaxTTL: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(documents.Close)
	config.Cache, config.MaxResponseSize = documents, 16<<20
	bridge, err := translate.New(config)
	if err != nil {
		b.Fatal(err)
	}
	for after := ""; ; {
		l := bridge.List(b.Context(), translate.Query{ByName: true, AfterName: after, Limit: 250, Descriptors: 250})
		if len(l.Unavailable) > 0 {
			b.Fatal(l.Unavailable[0].Failure)
		}
		if after = l.NextAfter; after == "" {
			return &skillsprotocol.Front{Bridge: bridge, Tokens: fakeTokens{}, Canceled: new(ledger.Cancellations)}
		}
	}
}

// listSkills returns the cursor of the next page.
func listSkills(b *testing.B, f *skillsprotocol.Front, params string) string {
	b.Helper()
	result, failure := f.ServeRPC(translate.WithCaller(b.Context(), run.Caller{Principal: "ada"}), request("list_skills", params))
	_, next, found := strings.Cut(string(result), `"next_cursor":`)
	if failure != nil || !found || strings.Contains(next, "unavailable") {
		b.Fatal(failure, string(result))
	}
	return strings.TrimPrefix(strings.Trim(strings.TrimSuffix(next, "}"), `"`), "null")
}

// BenchmarkListSkills lists pages of 50 skills: the first one of 10,000, all 200 of them, and the first one of 199 providers.
func BenchmarkListSkills(b *testing.B) {
	one := catalogOf(b, 1, 10_000)
	b.Run("page", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			listSkills(b, one, `{}`)
		}
	})
	b.Run("all", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			pages := 1
			for next := listSkills(b, one, `{}`); next != ""; pages++ {
				next = listSkills(b, one, `{"cursor":"`+next+`"}`)
			}
			if pages != 200 {
				b.Fatal(pages)
			}
		}
	})
	b.Run("usable", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			listSkills(b, one, `{"usable":true}`)
		}
	})
	many := catalogOf(b, 199, 50)
	b.Run("providers", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			listSkills(b, many, `{}`)
		}
	})
}
