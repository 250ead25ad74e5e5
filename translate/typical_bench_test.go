package translate

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// typicalProvider publishes a skill as people publish them: with an API key, and a schema for each input.
type typicalProvider struct{}

func (typicalProvider) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, ".json") {
		return benchProvider{1}.RoundTrip(r)
	}
	const body = `{"protocol":{"version":"1.0.0"},"id":"acme/skill-0","name":"Skill","version":"1.0.0","capability_type":"api","description":"Does something.","provider":{"name":"Acme"},
		"endpoint":{"url":"https://skills.example.com/run","method":"POST","status_url":"https://skills.example.com/status/{execution_id}"},
		"inputs":[{"name":"location","type":"string","description":"c","required":true,"schema":{"type":"string","minLength":1,"maxLength":200}},
			{"name":"days","type":"integer","description":"d","required":false,"schema":{"type":"integer","minimum":1,"maximum":14}},
			{"name":"units","type":"string","description":"u","required":false,"schema":{"type":"string","enum":["metric","imperial"]}},
			{"name":"include","type":"array","description":"i","required":false,"schema":{"type":"array","items":{"type":"string","maxLength":40},"maxItems":20}}],
		"output":{"content_type":"application/json"},"auth":{"type":"api_key","header":"X-API-Key"},"access":"restricted"}`
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"max-age=3600"}},
		ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

// benchKey is an API key.
type benchKey string

func (benchKey) Supports(*document.Auth) bool { return true }

func (k benchKey) Authenticate(_ context.Context, a *credential.Authentication) error {
	a.Request.Header.Set("X-API-Key", string(k))
	return nil
}

func (k benchKey) Secrets() []string { return []string{string(k)} }

// BenchmarkExecuteTypical is [BenchmarkExecuteImmediate] for a skill with an API key and four small schemas.
func BenchmarkExecuteTypical(b *testing.B) {
	bridge := newBenchBridgeTo(b, []catalog.Source{{
		Namespace: "acme", URL: &url.URL{Scheme: "https", Host: "skills.example.com"}, Transport: typicalProvider{},
		Credentials: benchKey("key-0123456789abcdef"), Partition: strings.Repeat("0", 64),
	}})
	call := Call{Caller: run.Caller{TraceID: "4bf92f3577b34da6a3ce929d0e0e4736"}, Name: "acme.skill-0", Inputs: jsonrpc.Object{Text: jsontext.Value(
		`{"location":"Tokyo","days":5,"units":"metric","include":["temperature","precipitation","wind"],"note":"the five day outlook for the trip"}`)}}
	b.ReportAllocs()
	for b.Loop() {
		if o := bridge.Start(b.Context(), call).Wait(); o.Failure != nil {
			b.Fatal(o.Failure)
		}
	}
}
