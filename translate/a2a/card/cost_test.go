package card_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/card"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// provider answers requests for an index of skills, and for their descriptors.
type provider struct {
	skills int
	hangs  bool // instead of sending descriptors

	mu                   sync.Mutex
	indexes, descriptors int
}

// asked returns how many requests there were; some may go on.
func (p *provider) asked() (indexes, descriptors int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.indexes, p.descriptors
}

func (p *provider) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	var body []byte
	if name, isDescriptor := strings.CutPrefix(r.URL.Path, "/skills/"); isDescriptor {
		p.descriptors++
		body = fmt.Appendf(nil, `{"protocol":{"version":"1.0.0"},"id":"acme/%s","name":"S","version":"1.0.0","capability_type":"api","description":"d",
			"provider":{"name":"P"},"endpoint":{"url":"https://p.example/run","method":"POST"},"inputs":[],"output":{"content_type":"text/plain"},
			"auth":{"type":"none"},"access":"public"}`, name)
		if p.hangs {
			p.mu.Unlock()
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
	} else {
		p.indexes++
		body = append(body, `{"protocol":{"version":"1.0.0"},"provider":{"name":"P"},"skills":[`...)
		for i := range p.skills {
			if i > 0 {
				body = append(body, ',')
			}
			body = fmt.Appendf(body, `{"id":"acme/s%d","name":"S","capability_type":"api","description":"d","descriptor_url":"https://p.example/skills/s%d","access":"public","version":"1.0.0"}`, i, i)
		}
		body = append(body, "]}"...)
	}
	p.mu.Unlock()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body))}, nil
}

// TestCost counts the requests that cards of a real bridge take, for providers that answer and that do not.
func TestCost(t *testing.T) {
	for _, c := range []struct {
		name             string
		skills           int
		hangs            bool
		first            time.Duration // that the first card takes
		withSchemas      bool
		most, afterwards int // descriptors read for the first card, and in the next 55 seconds
	}{
		{name: "many", skills: 200, withSchemas: true, most: 200, afterwards: 0},
		{name: "too many", skills: 201, most: 0},
		{name: "hanging", skills: 200, hangs: true, first: 3 * time.Second, most: 64, afterwards: 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &provider{skills: c.skills, hangs: c.hangs}
				documents, err := cache.New(cache.Config{MaxSize: 16 << 20, TTL: time.Hour, MaxTTL: time.Hour, NegativeTTL: 5 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				defer documents.Close()
				bridge, err := translate.New(translate.Config{
					Sources: []catalog.Source{{Namespace: "acme", URL: &url.URL{Scheme: "https", Host: "p.example"}, Transport: p}},
					Cache:   documents, DefaultTimeout: time.Minute, MaxTimeout: time.Minute, MaxResponseSize: 1 << 20, Limits: document.DefaultLimits(),
				})
				if err != nil {
					t.Fatal(err)
				}
				builder := newBuilder(t, bridge, card.Config{})
				start := time.Now()
				first := cardOf(t, builder, request(nil))
				if took := time.Since(start); took != c.first || first.MaxAge != 5*time.Minute {
					t.Errorf("the first card took %s, and is fresh for %s", took, first.MaxAge)
				}
				if has := strings.Contains(string(first.JSON()), "inputSchema"); has != c.withSchemas {
					t.Errorf("schemas: %t", has)
				}
				_, read := p.asked()
				if read > c.most || !c.hangs && read != c.most {
					t.Errorf("the first card took %d descriptors", read)
				}
				for range 55 {
					time.Sleep(time.Second)
					if again := cardOf(t, builder, request(nil)); again.ETag != first.ETag {
						t.Fatal("another card")
					}
				}
				if indexes, descriptors := p.asked(); indexes != 1 || descriptors != read+c.afterwards {
					t.Errorf("%d indexes, and %d more descriptors", indexes, descriptors-read)
				}
				time.Sleep(time.Hour)
			})
		})
	}
}
