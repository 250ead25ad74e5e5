package consent_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// ports allows the port of a login, so that tokens of a removed source can be revoked there.
func ports(s *login) string { return "allow_ports " + s.URL[strings.LastIndex(s.URL, ":")+1:] }

// R230: the grants of a source that is no longer configured are revoked and deleted when the configuration is loaded, also if it was the only one, the pages
// or the seal_key went with it, the pages have another URL, or its client is another one. Others stay. Without the key, nothing can be revoked.
func TestR230SourceRemoved(t *testing.T) {
	const connect = "\n\tconnect {\n\t\turl http://127.0.0.1:{$PORT}/connect\n\t}"
	for name, tc := range map[string]struct {
		remove, keepConnect bool
		edit                []string
		reason              string
		stays, unrevoked    bool
	}{
		"the only source":           {remove: true, keepConnect: true, reason: "removed"},
		"the pages, too":            {remove: true, reason: "removed"},
		"the seal_key, too":         {remove: true, edit: []string{"\tseal_key " + sealKey + "\n", ""}, unrevoked: true},
		"another URL of the pages":  {remove: true, keepConnect: true, edit: []string{"127.0.0.1:{$PORT}/connect", "localhost:{$PORT}/connect"}, reason: "removed"},
		"another client":            {keepConnect: true, edit: []string{"client_id web", "client_id other"}, reason: "removed"},
		"the same with another URL": {keepConnect: true, edit: []string{"127.0.0.1:{$PORT}/connect", "localhost:{$PORT}/connect"}, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newLogin(t)
			p := hostile.NewProvider(t, s.skills(scopes)...)
			acme := source(p, "acme", s, "revocation_url "+s.URL+"/revoke")
			file := filepath.Join(t.TempDir(), "skills.db")
			b := start(t, s, p, testbed.AdminAPI+siteWith(file, sealKey, ports(s), acme))
			ada := b.browser(t, "ada")
			ada.connect()
			caddyfile := testbed.AdminAPI + siteWith(file, sealKey, ports(s), acme)
			if tc.remove {
				caddyfile = testbed.AdminAPI + siteWith(file, sealKey, ports(s))
			}
			if !tc.keepConnect {
				caddyfile = strings.Replace(caddyfile, connect, "", 1)
			}
			if err := b.Reload(strings.NewReplacer(tc.edit...).Replace(caddyfile)); err != nil {
				t.Fatal(err)
			}
			switch {
			case tc.stays:
				time.Sleep(2 * time.Second)
			case tc.unrevoked:
				testbed.Eventually(t, 10*time.Second, func() bool { return len(b.Log.Lines("could not be revoked", `"accounts":1`)) == 1 }, "the log says what was not revoked")
				if _, ended := b.admin(t, http.MethodPost, "/skill_bridge/revoke", `{"principal":"ada"}`); !strings.Contains(ended, `"grants":[]`) || s.revoked.Load() != 0 {
					t.Error(ended)
				}
			default:
				testbed.Eventually(t, 10*time.Second, func() bool { return s.revoked.Load() == 1 }, "the token is revoked")
			}
			if _, all := b.admin(t, http.MethodGet, "/skill_bridge/grants", ""); strings.Contains(all, `"principal":"ada"`) != tc.stays {
				t.Error(all)
			}
			lines := func() int {
				return len(b.Log.Lines(`"logger":"http.handlers.skill_bridge"`, `"principal":"ada"`, `"reason":"`+tc.reason+`"`))
			}
			if tc.stays || tc.unrevoked {
				if n := lines(); n == 1 {
					t.Errorf("%d lines", n)
				}
				return
			}
			testbed.Eventually(t, 10*time.Second, func() bool { return lines() == 1 }, "the log says why it has ended") // after the token is revoked
		})
	}
}

// R231: an instance with an older configuration ends no grants of sources that it does not have, also if it is started later; its operator sees and revokes
// them. They end when no instance has the source any more.
func TestR231OlderInstances(t *testing.T) {
	s := newLogin(t)
	p, q := hostile.NewProvider(t, s.skills(scopes)...), hostile.NewProvider(t, s.skills(scopes)...)
	revoke := "revocation_url " + s.URL + "/revoke"
	file := filepath.Join(t.TempDir(), "skills.db")
	newest := testbed.StartProcess(t, testbed.Limits{}, siteWith(file, sealKey, ports(s), source(p, "acme", s, revoke), source(q, "other", s, revoke)))
	at := &bed{login: s, provider: p, base: "http://127.0.0.1:" + newest.Port("PORT")}
	s.register(t, at.base+"/connect/acme/callback")
	older := testbed.AdminAPI + strings.ReplaceAll(siteWith(file, sealKey, ports(s), source(q, "other", s, revoke)), "url http://127.0.0.1:{$PORT}", "url "+at.base)
	ada, bob := at.browser(t, "ada"), at.browser(t, "bob")
	ada.connect()
	bob.connect()

	b := &bed{Caddy: testbed.StartCaddy(t, older), login: s}
	time.Sleep(2 * time.Second)
	if !ada.connected() || !bob.connected() || s.revoked.Load() != 0 {
		t.Fatal("an instance with an older configuration has ended a grant")
	}
	if _, all := b.admin(t, http.MethodGet, "/skill_bridge/grants?principal=ada", ""); !strings.Contains(all, `"namespace":"acme"`) {
		t.Error(all)
	}
	if status, ended := b.admin(t, http.MethodPost, "/skill_bridge/revoke", `{"principal":"ada"}`); status != http.StatusOK || !strings.Contains(ended, `"namespace":"acme"`) {
		t.Errorf("%d %s", status, ended)
	}
	if ada.connected() || !bob.connected() || s.revoked.Load() != 1 {
		t.Error("the operator has not ended the grant of ada, or that of bob, too")
	}

	newest.Signal(syscall.SIGTERM)
	newest.Wait(time.Minute)
	if err := b.Reload(strings.Replace(older, "\tbrowse\n", "", 1)); err != nil {
		t.Fatal(err)
	}
	testbed.Eventually(t, 10*time.Second, func() bool { return s.revoked.Load() == 2 }, "the token of bob is revoked")
}
