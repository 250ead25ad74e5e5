package credentials_test

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// canary is a secret that may be only in requests.
const canary = "c4n4ry-s3cr3t"

// roundTrip is a function as an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// provisioned provisions a module without a running Caddy, and cleans it up after the test.
func provisioned[M any, P interface {
	*M
	caddy.Module
	caddy.Provisioner
	credential.Credentials
}](t *testing.T, module M,
) P {
	t.Helper()
	m := P(&module)
	if err := provision(t, m); err != nil {
		t.Fatal(err)
	}
	return m
}

// provision provisions a module like Caddy when it loads a configuration.
func provision(t *testing.T, m caddy.Module) error {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	if err := m.(caddy.Provisioner).Provision(ctx); err != nil {
		return err
	}
	if v, ok := m.(caddy.Validator); ok {
		if err := v.Validate(); err != nil {
			return err
		}
	}
	if c, ok := m.(caddy.CleanerUpper); ok {
		t.Cleanup(func() {
			if err := c.Cleanup(); err != nil {
				t.Error(err)
			}
		})
	}
	return nil
}

// authentication returns a request that needs a credential.
func authentication(t *testing.T, auth *document.Auth) *credential.Authentication {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://skills.example.com/run", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return &credential.Authentication{
		Request: req,
		Auth:    auth,
		Origin:  "https://skills.example.com",
		Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			t.Error("an unexpected request was sent")
			return nil, http.ErrHandlerTimeout
		}),
		MaySend:         func(*url.URL) error { return nil },
		MaxResponseSize: 1 << 20,
	}
}

// details decodes those details of an error that are texts.
func details(t *testing.T, e *run.Failure) map[string]string {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal(front.Details(e), &all); err != nil {
		t.Fatalf("details %s: %v", front.Details(e), err)
	}
	texts := make(map[string]string)
	for name, value := range all {
		if text, ok := value.(string); ok {
			texts[name] = text
		}
	}
	return texts
}

// secretFile writes a file and returns the placeholder that reads it.
func secretFile(t *testing.T, content string) string {
	t.Helper()
	path := t.TempDir() + "/secret"
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return "{file." + path + "}"
}

func assertNoCanary(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(text, canary) {
			t.Errorf("the secret is visible in %q", text)
		}
	}
}
