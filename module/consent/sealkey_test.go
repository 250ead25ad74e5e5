package consent_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/postgrestest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

const newKey = "a1b2c3d4e5f60718293a4b5c6d7e8f900112233445566778899aabbccddeeff1"

// keyed is a process whose bridge has some seal_keys, as ada and its operator see it.
type keyed struct {
	*testbed.Process
	*bed
	t   *testing.T
	ada *browser
}

// keys stand for seal_keys.
var keys = strings.NewReplacer("OLD", sealKey, "NEW", newKey)

func startKeyed(t *testing.T, s *login, p *hostile.Provider, config, with string) *keyed {
	t.Helper()
	process := testbed.StartProcess(t, testbed.Limits{}, strings.Replace(config, "KEYS", keys.Replace(with), 1))
	k := &keyed{process, &bed{login: s, provider: p, base: "http://127.0.0.1:" + process.Port("PORT")}, t, nil}
	if k.ada = k.browser(t, "ada"); s.provider == nil {
		s.register(t, k.base+"/connect/acme/callback")
		k.ada.connect()
	}
	return k
}

func (k *keyed) end() {
	k.Signal(syscall.SIGTERM)
	k.Wait(time.Minute)
}

// grants are the answer of the admin API about the accounts of ada.
type grants struct {
	Connected map[string]int
	Grants    []struct {
		Principal, Namespace string
		Unreadable           bool
	}
}

func (k *keyed) ask(method, path, body string) (all grants) {
	k.t.Helper()
	a := k.With(testbed.Fresh()).Send(method, k.Admin()+"/skill_bridge/"+path, body)
	if err := json.Unmarshal(a.Body, &all, json.MatchCaseInsensitiveNames(true)); err != nil || a.Status != http.StatusOK {
		k.t.Fatalf("%d %s %v", a.Status, a.Body, err)
	}
	return all
}

// check checks that calls, the page and the operator's list agree on whether the account can be used, or is there at all.
func (k *keyed) check(when, outcome string, there, usable bool) {
	k.t.Helper()
	if got := k.With(testbed.Header("X-User", "ada")).Execute("acme.book", nil).Outcome(); got != outcome {
		k.t.Errorf("%s: the call is %s", when, got)
	}
	if k.ada.connected() != usable {
		k.t.Errorf("%s: the page says connected: %t", when, !usable)
	}
	for _, path := range []string{"grants", "grants?principal=ada"} {
		all := k.ask(http.MethodGet, path, "")
		if n := len(all.Grants); all.Connected["acme"] != n || n == 1 != there {
			k.t.Errorf("%s: %+v", when, all)
		}
		for _, g := range all.Grants {
			if g.Namespace != "acme" || g.Unreadable == usable || (usable || path != "grants") && g.Principal != "ada" {
				k.t.Errorf("%s: %+v", when, all)
			}
		}
	}
}

// S311: a seal_key is replaced, and the operator forgets the earlier one at first. The account is found by all keys, the page and the operator's list
// and command have the same in view at each step, and nobody connects again.
func TestS311SealKeyReplaced(t *testing.T) {
	s := newLogin(t)
	p := hostile.NewProvider(t, s.skills(scopes)...)
	config := siteWith(filepath.Join(t.TempDir(), "skills.db"), "KEYS", ports(s), source(p, "acme", s, "revocation_url "+s.URL+"/revoke"))
	for _, step := range []struct {
		keys   string
		usable bool
	}{{"OLD", true}, {"NEW", false}, {"NEW OLD", true}, {"NEW", true}, {"OLD NEW", true}, {"NEW", false}, {"NEW OLD", true}} {
		k, outcome := startKeyed(t, s, p, config, step.keys), "completed"
		if !step.usable {
			outcome = "AUTH_REQUIRED"
		}
		k.check(step.keys, outcome, true, step.usable)
		k.end()
	}
	// Without the key, the operator ends the account all the same.
	k := startKeyed(t, s, p, config, "OLD")
	if ended := k.ask(http.MethodPost, "revoke", `{"principal":"ada"}`).Grants; len(ended) != 1 || ended[0].Namespace != "acme" || !ended[0].Unreadable || s.revoked.Load() != 0 {
		t.Errorf("%+v, %d revocations", ended, s.revoked.Load())
	}
	k.check("revoked", "AUTH_REQUIRED", false, false)
	k.end()
	k = startKeyed(t, s, p, config, "NEW")
	k.check("revoked, with the key", "AUTH_REQUIRED", false, false)
	k.end()
}

// R261: users whose accounts can't be decrypted fill no log: there is one line about all of them.
func TestR261UnreadableAccountsAreLoggedOnce(t *testing.T) {
	s := newLogin(t)
	p := hostile.NewProvider(t, s.skills(scopes)...)
	config := siteWith(filepath.Join(t.TempDir(), "skills.db"), "KEYS", ports(s), source(p, "acme", s))
	k := startKeyed(t, s, p, config, "OLD")
	users := []string{"ada", "bea", "cid", "dan"}
	for _, user := range users {
		k.browser(t, user).connect()
	}
	k.end()
	k = startKeyed(t, s, p, config, "NEW")
	for _, user := range users {
		if got := k.With(testbed.Header("X-User", user)).Execute("acme.book", nil).Outcome(); got != "AUTH_REQUIRED" {
			t.Errorf("%s: %s", user, got)
		}
	}
	if lines := k.Log.Lines("can't be decrypted"); len(lines) != 1 || !strings.Contains(lines[0], `"source":"acme"`) {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
	k.end()
}

// S312: instances get a new seal_key one after the other. If each has both keys, no user notices it; one that lacks the newer asks its users to connect
// again, ends nothing, and what they grant there is good everywhere.
func TestS312SealKeyRolled(t *testing.T) {
	t.Parallel()
	s := newLogin(t)
	p := hostile.NewProvider(t, s.skills(scopes)...)
	config := strings.Replace(siteWith("FILE", "KEYS", source(p, "acme", s)), "store sqlite FILE", `store postgres "`+postgrestest.Start(t)+`"`, 1)
	first := startKeyed(t, s, p, config, "OLD")
	second := startKeyed(t, s, p, config, "NEW OLD")
	second.check("the second has both", "completed", true, true)
	time.Sleep(time.Second) // an instance may remember a grant for a second
	first.check("the first lacks the newer", "AUTH_REQUIRED", true, false)
	second.check("the second after that", "completed", true, true)
	time.Sleep(time.Second)
	first.ada.connect()
	first.check("connected at the first", "completed", true, true)
	time.Sleep(time.Second)
	second.check("the same at the second", "completed", true, true)
	first.end()
	for range 2 {
		first = startKeyed(t, s, p, config, "OLD NEW")
		first.check("both have both", "completed", true, true)
		time.Sleep(time.Second)
		second.check("both have both", "completed", true, true)
		first.end()
	}
	second.end()
	startKeyed(t, s, p, config, "NEW").check("the earlier is gone", "completed", true, true)
}
