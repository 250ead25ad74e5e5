package faults_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

const earlierKey, laterKey = "the-earlier-key-7f3a", "the-later-key-91cc"

// keyFile is a file with a secret that can be replaced.
type keyFile struct {
	t    *testing.T
	path string
}

func newKeyFile(t *testing.T, text string) keyFile {
	t.Helper()
	f := keyFile{t, filepath.Join(t.TempDir(), "key")}
	f.write(text)
	return f
}

// write replaces the file at once, as tools for secrets do.
func (f keyFile) write(text string) {
	f.t.Helper()
	next := f.path + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(next, f.path); err != nil {
		f.t.Fatal(err)
	}
}

func (f keyFile) placeholder() string { return "{file." + f.path + "}" }

// lock is a provider's idea of the current key.
type lock struct{ key atomic.Pointer[string] }

func newLock() *lock {
	l := new(lock)
	l.change(earlierKey)
	return l
}

func (l *lock) change(key string) { l.key.Store(&key) }

// behind answers 401 to requests that prove does not accept with the current key.
func (l *lock) behind(proves func(x *hostile.Exchange, key string) bool, action hostile.Action) hostile.Action {
	return func(x *hostile.Exchange) {
		if !proves(x, *l.key.Load()) {
			action = hostile.Problem(http.StatusUnauthorized, "AUTH_REQUIRED", "not with "+x.Request.Header.Get("X-Key"))
		}
		action(x)
	}
}

func (l *lock) always(proves func(x *hostile.Exchange, key string) bool, action hostile.Action) func(int) hostile.Action {
	return func(int) hostile.Action { return l.behind(proves, action) }
}

func hasKey(x *hostile.Exchange, key string) bool { return x.Request.Header.Get("X-Key") == key }

func isSigned(x *hostile.Exchange, key string) bool {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(x.Request.Method + "\n" + x.Request.Target + "\n" + x.Request.Body))
	return x.Request.Header.Get("X-Key") == hex.EncodeToString(mac.Sum(nil))
}

// R121: a secret in a file can be replaced while calls and polls go on, without a reload and without a lost call. The provider does not see a secret
// that it did not know before, and no answer or log shows the earlier or the later one.
func TestR121KeyRotation(t *testing.T) {
	for name, tc := range map[string]struct {
		auth        hostile.Object
		credentials string
		proves      func(x *hostile.Exchange, key string) bool
	}{
		"api_key": {hostile.APIKey("X-Key"), "credentials api_key KEY", hasKey},
		"headers": {custom(), "credentials headers {\n\t\tX-Key KEY\n\t\tX-Tenant acme\n\t}", hasKey},
		"hmac":    {custom(), "credentials hmac {\n\t\tsecret KEY\n\t\theader X-Key\n\t}", isSigned},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "headers" {
				longtest.Need(t, longtest.Long)
			}
			leavesNothing(t)
			key, door := newKeyFile(t, earlierKey+"\n"), newLock()
			p := hostile.NewProvider(t, hostile.Skill{ID: "acme/quick", Auth: tc.auth}, hostile.Skill{ID: "acme/slow", Auth: tc.auth})
			p.Script("acme/quick", hostile.Invoke, door.always(tc.proves, hostile.Usual()))
			p.Script("acme/slow", hostile.Invoke, door.always(tc.proves, hostile.AcceptForResult(3)))
			p.Script("acme/slow", hostile.Status, door.always(tc.proves, hostile.Usual()))
			p.Script("acme/slow", hostile.Result, door.always(tc.proves, hostile.Usual()))
			c := testbed.StartCaddy(t, testbed.Bridge("allow_anonymous", polling, offer(p, "acme", strings.ReplaceAll(tc.credentials, "KEY", key.placeholder()))))
			stop := testbed.Load{Workers: 8, Do: func(_, call int) testbed.Answer {
				return c.Execute([]string{"acme.quick", "acme.slow"}[call%2], nil)
			}}.Start(t)
			calls := func(n int) {
				t.Helper()
				before := p.Count("acme/slow", hostile.Result)
				testbed.Eventually(t, patience, func() bool { return p.Count("acme/slow", hostile.Result) >= before+n }, "calls complete")
			}
			calls(20)
			key.write(laterKey)
			calls(20)
			door.change(laterKey)
			calls(40)
			stop().Only(t, done)
			checkDuplicates(t, p)
			c.Log.MustNotShow(earlierKey, laterKey)
		})
	}
}

func custom() hostile.Object {
	return hostile.Object{"type": "custom", "custom": hostile.Object{"instructions": "Ask.", "parameters": []any{}}}
}

// R121: documents are read with the later key, too, and a client of a token endpoint, or its refresh token, is replaced like a key.
func TestR121OtherSecretsAreReadAgain(t *testing.T) {
	t.Run("discovery", func(t *testing.T) {
		leavesNothing(t)
		key, door := newKeyFile(t, earlierKey), newLock()
		p := hostile.NewProvider(t, hostile.Skill{ID: "acme/quick"})
		p.Script("", hostile.Index, door.always(hasKey, hostile.Usual()))
		p.Script("acme/quick", hostile.Descriptor, door.always(hasKey, hostile.Usual()))
		c := testbed.StartCaddy(t, testbed.Bridge("allow_anonymous", offer(p, "acme", "discovery_credentials api_key "+key.placeholder()+" {\n\t\theader X-Key\n\t}")))
		door.change(laterKey)
		key.write(laterKey)
		want{outcome: done}.check(t, c.Execute("acme.quick", nil))
	})
	for name, grant := range map[string]string{"client_secret": "client_secret KEY", "refresh_token": "client_secret unchanged\n\t\trefresh_token KEY"} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			key, door := newKeyFile(t, earlierKey), newLock()
			p := protected(t)
			var tokens atomic.Int64
			p.Script("", hostile.Token, func(int) hostile.Action {
				return door.behind(func(x *hostile.Exchange, key string) bool {
					_, secret, _ := x.HTTP.BasicAuth()
					return secret == key || strings.Contains(x.Request.Body, "refresh_token="+key)
				}, hostile.Issue(token(int(tokens.Add(1))), time.Hour))
			})
			var valid atomic.Pointer[string]
			p.Script("acme/token", hostile.Invoke, func(int) hostile.Action {
				return func(x *hostile.Exchange) {
					action := hostile.Usual()
					if now := valid.Load(); now != nil && x.Request.Header.Get("Authorization") == *now {
						action = hostile.Respond(http.StatusUnauthorized, "")
					}
					action(x)
				}
			})
			c := testbed.StartCaddy(t, testbed.Bridge("allow_anonymous", offer(p, "acme", "credentials oauth2 {\n\t\tclient_id bridge\n\t\t"+
				strings.ReplaceAll(grant, "KEY", key.placeholder())+"\n\t}")))
			want{outcome: done}.check(t, c.Execute("acme.token", nil))
			key.write(laterKey)
			door.change(laterKey)
			revoked := "Bearer " + token(1)
			valid.Store(&revoked)
			want{outcome: done}.check(t, c.Execute("acme.token", nil))
			checkDuplicates(t, p)
		})
	}
}

// R121: a file that can't be used leaves the earlier secret; a refused key is read again at most once a second, and the refusal is that of the
// provider, without a secret in it.
func TestR121RefusedAgain(t *testing.T) {
	leavesNothing(t)
	key, door := newKeyFile(t, earlierKey), newLock()
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/quick", Auth: hostile.APIKey("X-Key")})
	p.Script("acme/quick", hostile.Invoke, door.always(hasKey, hostile.Usual()))
	c := testbed.StartCaddy(t, testbed.Bridge("allow_anonymous", offer(p, "acme", "credentials api_key "+key.placeholder())))
	want{outcome: done}.check(t, c.Execute("acme.quick", nil))
	door.change(laterKey)
	key.write("\ufeff" + laterKey)
	refused := want{outcome: "AUTH_REQUIRED", executed: "no", next: "ask_operator"}
	a := c.Execute("acme.quick", nil)
	if refused.check(t, a); strings.Contains(a.String(), earlierKey) || p.Count("acme/quick", hostile.Invoke) != 2 {
		t.Errorf("%d requests: %s", p.Count("acme/quick", hostile.Invoke), a)
	}
	if !c.Log.Has("byte order mark") {
		t.Error("the log does not say why the file is of no use")
	}
	key.write(laterKey)
	testbed.Eventually(t, patience, func() bool { return c.Execute("acme.quick", nil).Outcome() == done }, "the key is read when a second has passed")
	door.change(earlierKey) // so that both keys are known and refused
	key.write(laterKey + "-again")
	a = c.Execute("acme.quick", nil)
	if refused.check(t, a); strings.Contains(a.String(), laterKey) {
		t.Errorf("a key is shown: %s", a)
	}
	c.Log.MustNotShow(earlierKey, laterKey)
}

// R122: mistakes in options with secrets are named when the configuration loads, as they were written, and not found by a provider's 401.
func TestR122MistakesInSecrets(t *testing.T) {
	leavesNothing(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/quick", Auth: hostile.APIKey("X-Key")})
	text := func(options string) string {
		return testbed.Bridge("allow_anonymous", offer(p, "acme", "credentials "+options))
	}
	t.Setenv("R122_KEY", `"`+earlierKey+`"`)
	c := testbed.StartCaddy(t, text("api_key {env.R122_KEY}"))
	if !c.Log.Has("a secret begins and ends with a quotation mark") {
		t.Error("no warning about quotes")
	}
	t.Setenv("R122_KEY", "a")
	if err := c.Reload(text("api_key {env.R122_KEY}")); err != nil || !c.Log.Has("a secret has fewer than 4 bytes") {
		t.Errorf("no warning about a key of one letter: %v", err)
	}
	t.Setenv("R122_KEY", `"`+earlierKey+`"`)
	for options, wanted := range map[string]string{
		"api_key {file.key}":                                           "placeholder {file.key} is empty: a file needs an absolute path",
		"api_key {header.X-Key}":                                       "placeholder {header.X-Key} is empty or not known",
		"api_key {env.R122_KEY":                                        "a placeholder without the closing brace",
		"api_key \"Bearer {file./a/b\"":                                "a placeholder without the closing brace",
		"api_key " + newKeyFile(t, "\ufeff"+laterKey).placeholder():    "begins with a byte order mark",
		"api_key " + newKeyFile(t, "\xff\xfek\x00").placeholder():      "begins with a byte order mark",
		"headers {\n\t\tX-Key: " + laterKey + "\n\t}":                  `header "X-Key:" has a colon: write only the name, X-Key`,
		"api_key {env.R122_KEY} {\n\t\theader \"X-Key: \"\n\t}":        "has a colon: write only the name, X-Key",
		"hmac {\n\t\tsecret {env.R122_KEY\n\t}":                        "a placeholder without the closing brace",
		"oauth2 {\n\t\tclient_id a\n\t\tclient_secret {file.key}\n\t}": "client_secret: placeholder {file.key} is empty",
	} {
		err := c.Reload(text(options))
		if err == nil || !strings.Contains(err.Error(), wanted) || strings.Contains(err.Error(), "uri.path") || strings.Contains(err.Error(), laterKey) {
			t.Errorf("%s: %v", options, err)
		}
	}
	c.Log.MustNotShow(earlierKey, laterKey)
}

// R158: HTTP 401 with the answer that the run has failed is that answer, which is not repeated; but the credential is refused, and read again for
// later calls.
func TestR158RefusedInAFailedRun(t *testing.T) {
	leavesNothing(t)
	key := newKeyFile(t, earlierKey)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/quick", Auth: hostile.APIKey("X-Key")})
	p.Script("acme/quick", hostile.Invoke, func(int) hostile.Action {
		return func(x *hostile.Exchange) {
			action := hostile.Usual()
			if !hasKey(x, laterKey) {
				action = hostile.Respond(http.StatusUnauthorized, `{"status":"failed","error":{"code":"EXECUTION_FAILED","message":"No."}}`)
			}
			action(x)
		}
	})
	c := testbed.StartCaddy(t, testbed.Bridge("allow_anonymous", offer(p, "acme", "credentials api_key "+key.placeholder())))
	isState := func(state string) {
		t.Helper()
		if list := string(c.Call("list_skills", nil).Result); !strings.Contains(list, `"state":"`+state+`"`) {
			t.Errorf("the state is not %s: %s", state, list)
		}
	}
	if a := c.Execute("acme.quick", nil); a.Outcome() == done || p.Posts(a.Call) != 1 {
		t.Errorf("%d invocations: %s", p.Posts(a.Call), a)
	}
	isState("needs_credentials")
	key.write(laterKey)
	testbed.Eventually(t, patience, func() bool { return c.Execute("acme.quick", nil).Outcome() == done }, "the key is read when a second has passed")
	isState("available")
	checkDuplicates(t, p)
	c.Log.MustNotShow(earlierKey, laterKey)
}

// R157: a server that answers every request, also that for an index, has the wrong URL, or an index that only its operator can mend.
func TestR157OriginsThatAnswerAnything(t *testing.T) {
	leavesNothing(t)
	page := "<!doctype html><title>Shop</title><div id=app></div>"
	text := []string{"allow_anonymous"}
	codes := map[string]string{}
	for name, answer := range map[string]hostile.Action{
		"page":    hostile.Respond(http.StatusOK, page, "Content-Type", "text/html; charset=utf-8"),
		"untyped": hostile.Respond(http.StatusOK, page, "Content-Type", ""),
		"typed":   hostile.Respond(http.StatusOK, page, "Content-Type", "application/json"),
		"text":    hostile.Respond(http.StatusOK, "OK", "Content-Type", "text/plain"),
		"empty":   hostile.Respond(http.StatusOK, "", "Content-Type", "application/json"),
		"other":   hostile.Respond(http.StatusOK, `{"status":"ok"}`, "Content-Type", "application/json"),
		"array":   hostile.Respond(http.StatusOK, `[]`, "Content-Type", "application/json"),
		"login":   hostile.Respond(http.StatusFound, "", "Location", "/login"),
		"nothing": hostile.Respond(http.StatusNoContent, ""),
	} {
		p := hostile.NewProvider(t)
		p.On("", hostile.Index, answer)
		text = append(text, offer(p, name))
		if codes[name] = "VALIDATION_ERROR"; name == "login" || name == "nothing" {
			codes[name] = "INVALID_PROVIDER_RESPONSE"
		}
	}
	c := testbed.StartCaddy(t, testbed.Bridge(text...))
	for name, code := range codes {
		want{outcome: code, phase: "discovery", executed: "no", next: "ask_operator"}.check(t, c.Execute(name+".skill", nil))
	}
}

// R123: what only the operator can mend is not answered as a missing skill, or with the advice to try again.
func TestR123WrongOrigins(t *testing.T) {
	leavesNothing(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/quick"})
	secure := strings.Replace(offer(p, "secure"), "http://", "https://", 1)
	for status, text := range map[int]string{404: "<html>no</html>", 410: "", 405: `{"error":{"code":"SKILL_NOT_FOUND","message":"no"}}`, 400: "no"} {
		empty := hostile.NewProvider(t)
		empty.On("", hostile.Index, hostile.Respond(status, text))
		c := testbed.StartCaddy(t, testbed.Bridge("allow_anonymous", offer(empty, "acme"), secure))
		a := c.Execute("acme.quick", nil)
		want{outcome: "INVALID_PROVIDER_RESPONSE", phase: "discovery", executed: "no", next: "ask_operator"}.check(t, a)
		a = c.Execute("secure.quick", nil)
		want{outcome: unreachable, phase: "discovery", executed: "no", next: "ask_operator"}.check(t, a)
		if strings.Contains(a.String(), "does not speak TLS") || !c.Log.Has("the server does not speak TLS") {
			t.Errorf("only the operator is told why: %s", a)
		}
		c.Stop()
	}
}
