package testbed

import (
	"encoding/json" // for Caddy's own types
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// TestNothingIsTrusted: no configuration adds a certificate authority to the trust store of this
// machine. It does not run the configurations.
func TestNothingIsTrusted(t *testing.T) {
	c := &Caddy{server: server{tb: t}, key: "x", storage: t.TempDir()}
	for text, authorities := range map[string][]string{
		"http://127.0.0.1:1 {\n\trespond x\n}":   {"local"},
		"localhost:1 {\n\trespond x\n}":          {"local"},
		"http://localhost:1 {\n\tacme_server\n}": {"local"},

		"{\n\tpki {\n\t\tca other {\n\t\t\tname Other\n\t\t}\n\t}\n}\nhttp://:1 {\n\trespond x\n}": {"local", "other"},
	} {
		adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
		if err != nil {
			t.Fatal(err)
		}
		settled, err := c.settle(adapted)
		if err != nil {
			t.Fatal(err)
		}
		config := new(caddy.Config)
		if err := json.Unmarshal(settled, config); err != nil {
			t.Fatal(err)
		}
		var pki struct {
			Authorities map[string]struct {
				InstallTrust *bool `json:"install_trust"`
			} `json:"certificate_authorities"`
		}
		if own := config.AppsRaw["pki"]; own != nil {
			if err := json.Unmarshal(own, &pki); err != nil {
				t.Fatal(err)
			}
		}
		if len(pki.Authorities) != len(authorities) {
			t.Errorf("%q: %s", text, config.AppsRaw["pki"])
		}
		for _, name := range authorities {
			if install := pki.Authorities[name].InstallTrust; install == nil || *install {
				t.Errorf("%q: %s may be trusted", text, name)
			}
		}
	}
}
