package translate_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// slowDocuments answers each request after a while.
type slowDocuments time.Duration

func (d slowDocuments) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-time.After(time.Duration(d)):
	}
	entry := `{"id":"p/s","name":"S","capability_type":"api","description":"d","descriptor_url":"https://p.example/s.json","access":"public","version":"1.0.0"}`
	body := fmt.Sprintf(`{"protocol":{"version":"1.0.0"},"provider":{"name":"P"},"skills":[%s]}`, entry)
	return jsonResponse([]byte(body)), nil
}

func jsonResponse(body []byte) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body))}
}

// offlineBridge returns a bridge with one source, whose requests go to transport, and what ends it.
func offlineBridge(t *testing.T, transport http.RoundTripper) (*translate.Bridge, func()) {
	t.Helper()
	documents, err := cache.New(cache.Config{MaxSize: 1 << 20, TTL: time.Hour, MaxTTL: time.Hour, NegativeTTL: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	bridge, err := translate.New(translate.Config{
		Sources: []catalog.Source{{Namespace: "p", URL: &url.URL{Scheme: "https", Host: "p.example"}, Transport: transport}},
		Cache:   documents, DefaultTimeout: time.Minute, MaxTimeout: time.Minute, MaxResponseSize: 1 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	return bridge, documents.Close
}

// Index and descriptor have ten seconds together, if the call has more.
func TestDiscoveryIsBounded(t *testing.T) {
	for _, c := range []struct {
		each, timeout, took time.Duration
		kind                run.Kind
	}{
		{6 * time.Second, time.Minute, 10 * time.Second, run.Unreachable},
		{20 * time.Second, time.Minute, 10 * time.Second, run.Unreachable},
		{6 * time.Second, 8 * time.Second, 8 * time.Second, run.DeadlineExceeded},
	} {
		synctest.Test(t, func(t *testing.T) {
			bridge, end := offlineBridge(t, slowDocuments(c.each))
			defer end()
			start := time.Now()
			o := bridge.Start(t.Context(), translate.Call{Name: "p.s", Timeout: c.timeout}).Wait()
			if took := time.Since(start); o.Failure == nil || o.Failure.Kind != c.kind || o.Failure.Next() != run.NextRetry || took != c.took {
				t.Errorf("%s each, timeout %s: %+v after %s", c.each, c.timeout, o.Failure, took)
			}
			// Trying again makes sense when the failure is not remembered any more.
			if retry := string(front.Retry(o.Failure)); c.kind == run.Unreachable && !strings.Contains(retry, `"suggested_delay_ms":6000,`) {
				t.Errorf("%s each: %s", c.each, retry)
			}
			time.Sleep(time.Minute) // what is being read goes on
		})
	}
}
