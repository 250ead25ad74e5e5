package translate

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// benchProvider is a provider without a network: it answers with the documents
// of its skills, and completes every invocation at once.
type benchProvider struct{ skills int }

func (p benchProvider) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body) // can't fail: it is in memory
		_ = r.Body.Close()
	}
	var body string
	switch name, isDescriptor := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/skills/"), ".json"); {
	case r.URL.Path == document.WellKnownPath:
		entries := make([]string, p.skills)
		for i := range entries {
			entries[i] = fmt.Sprintf(`{"id":"acme/skill-%d","name":"Skill","capability_type":"api","description":"Does something.",
				"descriptor_url":"https://skills.example.com/skills/skill-%d.json","access":"public","version":"1.0.0"}`, i, i)
		}
		body = `{"protocol":{"version":"1.0.0"},"provider":{"name":"Acme"},"skills":[` + strings.Join(entries, ",") + `]}`
	case isDescriptor:
		body = `{"protocol":{"version":"1.0.0"},"id":"acme/` + name + `","name":"Skill","version":"1.0.0","capability_type":"api",
			"description":"Does something.","provider":{"name":"Acme"},
			"endpoint":{"url":"https://skills.example.com/run","method":"POST","status_url":"https://skills.example.com/status/{execution_id}"},
			"inputs":[{"name":"location","type":"string","description":"A city.","required":true},
				{"name":"days","type":"number","description":"How many.","required":false,"schema":{"type":"integer","minimum":1,"maximum":14}}],
			"output":{"content_type":"application/json"},"auth":{"type":"none"},"access":"public"}`
	default:
		body = `{"execution_id":"exec-a1b2c3d4","status":"completed","skill_id":"acme/skill-50",
			"timestamps":{"created_at":"2026-01-02T03:04:05Z","completed_at":"2026-01-02T03:04:08Z"},
			"output":{"location":"Tokyo","forecasts":[{"date":"2026-01-02","high":11,"low":4,"condition":"sunny"}]}}`
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"max-age=3600"}},
		ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

// newBenchBridge makes a bridge with 100 skills, that has read the index and the descriptor of the call.
func newBenchBridge(tb testing.TB, call Call) *Bridge {
	tb.Helper()
	return newBenchBridgeOf(tb, 100, call)
}

func newBenchBridgeOf(tb testing.TB, skills int, call Call) *Bridge {
	tb.Helper()
	bridge := newBenchBridgeTo(tb, []catalog.Source{{
		Namespace: "acme", URL: &url.URL{Scheme: "https", Host: "skills.example.com"}, Transport: benchProvider{skills},
		Partition: strings.Repeat("0", 64),
	}})
	if o := bridge.Start(tb.Context(), call).Wait(); o.Failure != nil {
		tb.Fatal(o.Failure)
	}
	return bridge
}

// newBenchBridgeTo makes a bridge to sources.
func newBenchBridgeTo(tb testing.TB, sources []catalog.Source) *Bridge {
	tb.Helper()
	documents, err := cache.New(cache.Config{MaxSize: 32 << 20, TTL: time.Hour, MaxTTL: time.Hour})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(documents.Close)
	bridge, err := New(Config{
		Sources: sources, Cache: documents, Caller: skillsharing.Caller{ID: "skill-bridge", Type: "service"}, Priority: skillsharing.PriorityNormal,
		DefaultTimeout: 25 * time.Second, MaxTimeout: 10 * time.Minute, Polling: skillsharing.Polling{Plan: polling.Backoff{Initial: time.Second, Longest: time.Second}}, MaxResponseSize: 10 << 20,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return bridge
}

var benchCall = Call{Caller: run.Caller{TraceID: "4bf92f3577b34da6a3ce929d0e0e4736"}, Name: "acme.skill-50", Inputs: jsonrpc.Object{Text: jsontext.Value(`{"location":"Tokyo","days":5}`)}}

// BenchmarkResolve is the way from a name to a skill that is ready to be invoked,
// with all documents in the cache; or, for a name that means nothing, to the
// names that may have been meant.
func BenchmarkResolve(b *testing.B) {
	for _, c := range []struct {
		about, name string
		found       bool
	}{
		{"name", "acme.skill-50", true},
		{"id", "acme/skill-50", true},
		{"unknown", "acme.skil-50", false},
	} {
		b.Run(c.about, func(b *testing.B) {
			bridge := newBenchBridge(b, benchCall)
			b.ReportAllocs()
			for b.Loop() {
				l, failure := bridge.Catalog().Resolve(b.Context(), c.name, "")
				if failure == nil {
					_, failure = bridge.Catalog().Read(b.Context(), l, "")
				}
				if (failure == nil) != c.found {
					b.Fatal(failure)
				}
			}
		})
	}
}

// BenchmarkExecuteImmediate is all that the bridge does for a call between the
// two protocols, where the provider completes it in its first answer.
func BenchmarkExecuteImmediate(b *testing.B) {
	filler := bytes.Repeat([]byte(`{"city":"Kyoto","days":[1,2,3],"exact":true},`), 64<<10/45)
	for _, c := range []struct {
		name string
		size int // of the arguments, about
	}{{"0.3KiB", 300}, {"4KiB", 4 << 10}, {"64KiB", 64 << 10}} {
		b.Run(c.name, func(b *testing.B) {
			call := benchCall
			items := filler[:c.size/45*45]
			call.Inputs.Text = append(append([]byte(`{"location":"Tokyo","days":5,"items":[`), items[:len(items)-1]...), "]}"...)
			bridge := newBenchBridge(b, call)
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			b.SetBytes(int64(len(call.Inputs.Text)))
			b.ReportAllocs()
			for b.Loop() {
				if o := bridge.Start(ctx, call).Wait(); o.Failure != nil {
					b.Fatal(o.Failure)
				}
			}
		})
	}
}

// BenchmarkListPage lists a page of 100 of 10,000 skills with their descriptors, all of which are in the cache.
func BenchmarkListPage(b *testing.B) {
	bridge := newBenchBridgeOf(b, 10_000, benchCall)
	q := Query{Limit: 100, AfterTool: "acme_skill-50", Descriptors: 100}
	b.ReportAllocs()
	for b.Loop() {
		if l := bridge.List(b.Context(), q); len(l.Skills) != 100 || l.NextAfter == "" {
			b.Fatalf("%+v", l.Unavailable)
		}
	}
}

// BenchmarkSearch searches 10,000 skills, each of which has one word of the query.
func BenchmarkSearch(b *testing.B) {
	bridge := newBenchBridgeOf(b, 10_000, benchCall)
	b.ReportAllocs()
	for b.Loop() {
		if l := bridge.Search(b.Context(), Query{}, "something 5000", 20); len(l.Skills) != 20 || l.Skills[0].Name != "acme.skill-5000" {
			b.Fatalf("%+v", l)
		}
	}
}
