package consent_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// failingApp is an app that fails to start, some time after others have started.
type failingApp struct{}

func (failingApp) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "failing", New: func() caddy.Module { return new(failingApp) }}
}

func (failingApp) Start() error {
	time.Sleep(200 * time.Millisecond)
	return errors.New("this app fails")
}

func (failingApp) Stop() error { return nil }

func init() {
	caddy.RegisterModule(failingApp{})
	httpcaddyfile.RegisterGlobalOption("failing", func(*caddyfile.Dispenser, any) (any, error) {
		return httpcaddyfile.App{Name: "failing", Value: []byte("{}")}, nil
	})
}

// TestS365FailedConfiguration: a configuration without a source that fails to start ends none of the source's grants.
func TestS365FailedConfiguration(t *testing.T) {
	s := newLogin(t)
	p := hostile.NewProvider(t, s.skills(scopes)...)
	file := filepath.Join(t.TempDir(), "skills.db")
	b := start(t, s, p, testbed.AdminAPI+siteWith(file, sealKey, ports(s), source(p, "acme", s, "revocation_url "+s.URL+"/revoke")))
	ada := b.browser(t, "ada")
	ada.connect()
	without := strings.Replace(testbed.AdminAPI, "{\n", "{\n\tfailing\n", 1) + siteWith(file, sealKey, ports(s))
	for range 4 { // Caddy starts apps in any order
		if err := b.Reload(without); err == nil || !strings.Contains(err.Error(), "this app fails") {
			t.Fatal(err)
		}
	}
	if !ada.connected() || s.revoked.Load() != 0 {
		t.Errorf("the account is connected: %t; %d tokens are revoked", ada.connected(), s.revoked.Load())
	}
}
