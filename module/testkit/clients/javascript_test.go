package clients

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// sdk is the version of @a2a-js/sdk.
const sdk = "@a2a-js/sdk@1.3.0"

// TestJavaScript runs client.mjs with @a2a-js/sdk, which npm installs, once for each version.
func TestJavaScript(t *testing.T) {
	const gate = "SKILL_BRIDGE_CLIENT_TESTS"
	if os.Getenv(gate) == "" {
		t.Skipf("SKIPPED: it needs Node and npm's registry: set %s=1 to run it", gate)
	}
	folder := t.TempDir()
	program, err := os.ReadFile("client.mjs")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "client.mjs"), program, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	install := exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund", sdk)
	install.Dir = folder
	if output, err := install.CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: %s can't be had: %v: %s", sdk, err, output)
	}
	pemFile, jwk := newKey(t)
	for _, version := range []string{"1.0", "0.3"} {
		t.Run(version, func(t *testing.T) {
			hook := newWebhook(t)
			a := startAgent(t, hook.options(), "url http://127.0.0.1:{$PORT}/a2a", "sign "+pemFile, "extended_card")
			hook.handle("/open", func(http.ResponseWriter, *http.Request) { a.gate.Open() })
			command := exec.CommandContext(ctx, "node", "client.mjs", version)
			command.Dir = folder
			request := &http.Request{Header: http.Header{}}
			request.SetBasicAuth(user, testbed.Password)
			command.Env = append(os.Environ(), "NO_PROXY=127.0.0.1", "ORIGIN="+a.origin, "CONTROL="+hook.server.URL, "KEY="+jwk,
				"AUTHORIZATION="+request.Header.Get("Authorization"))
			output, err := command.CombinedOutput()
			if err != nil || strings.Count(string(output), "ok ") < 9 {
				t.Errorf("%v: it prints %s", err, output)
			}
		})
	}
}

// newKey returns the path of a new key in PEM, and its public key as a JWK.
func newKey(t *testing.T) (file, jwk string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	point, err := key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	text, err := json.Marshal(map[string]string{"kty": "EC", "crv": "P-256", "alg": "ES256", "x": encode(point[1:33]), "y": encode(point[33:])})
	if err != nil {
		t.Fatal(err)
	}
	return file, string(text)
}
