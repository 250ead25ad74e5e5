package credentials_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

func TestAPIKey(t *testing.T) {
	t.Setenv("BRIDGE_KEY", canary)
	for name, test := range map[string]struct {
		module      credentials.APIKey
		auth        *document.Auth
		header, key string
	}{
		"default header": {
			credentials.APIKey{Key: "{env.BRIDGE_KEY}"}, &document.Auth{Type: document.AuthAPIKey}, "X-API-Key", canary,
		},
		"discovery": {
			credentials.APIKey{Key: "{env.BRIDGE_KEY}"}, nil, "X-API-Key", canary,
		},
		"header of the descriptor": {
			credentials.APIKey{Key: "{env.BRIDGE_KEY}"}, &document.Auth{Type: document.AuthAPIKey, Header: "X-Mine"}, "X-Mine", canary,
		},
		"configured header and prefix": {
			credentials.APIKey{Key: "{env.BRIDGE_KEY}", Header: "Authorization", Prefix: "Bearer "},
			&document.Auth{Type: document.AuthAPIKey, Header: "X-Mine"}, "Authorization", "Bearer " + canary,
		},
		"configured header instead of a forbidden one": {
			credentials.APIKey{Key: "{env.BRIDGE_KEY}", Header: "X-Key"},
			&document.Auth{Type: document.AuthAPIKey, Header: "Host"}, "X-Key", canary,
		},
		"written literally": {
			credentials.APIKey{Key: "k"}, nil, "X-API-Key", "k",
		},
		"among other text": {
			credentials.APIKey{Key: `a-{env.BRIDGE_KEY}-\{b\}`}, nil, "X-API-Key", "a-" + canary + "-{b}",
		},
		"from a file": {
			credentials.APIKey{Key: secretFile(t, canary+"\n")}, nil, "X-API-Key", canary,
		},
		"from a file with several line breaks": {
			credentials.APIKey{Key: secretFile(t, canary+"\r\n\n")}, nil, "X-API-Key", canary,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := provisioned(t, test.module)
			a := authentication(t, test.auth)
			if err := m.Authenticate(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			if got := a.Request.Header; len(got) != 1 || got.Get(test.header) != test.key {
				t.Errorf("got %v", got)
			}
			for _, secret := range m.Secrets() {
				if !strings.Contains(test.key, secret) {
					t.Errorf("secrets: %v", m.Secrets())
				}
			}
			if whole := strings.TrimPrefix(test.key, test.module.Prefix); !slices.Contains(m.Secrets(), whole) {
				t.Errorf("%s is missing in %v", whole, m.Secrets())
			}
		})
	}
}

func TestAPIKeyInAForbiddenHeader(t *testing.T) {
	t.Setenv("BRIDGE_KEY", canary)
	m := provisioned(t, credentials.APIKey{Key: "{env.BRIDGE_KEY}"})
	for _, header := range []string{"Host", "content-length", "X Y", "A\r\nB", "\xff", strings.Repeat("ä", 1000)} {
		a := authentication(t, &document.Auth{Type: document.AuthAPIKey, Header: header})
		err := m.Authenticate(t.Context(), a)
		e, ok := errors.AsType[*run.Failure](err)
		if !ok {
			t.Fatalf("%q: got %v", header, err)
		}
		if e.Kind != run.AuthRequired || e.By != run.Bridge || e.Refused == "" ||
			e.Executed != run.ExecutedNo || e.Phase != run.PhaseAuth {
			t.Errorf("%q: got %+v", header, e)
		}
		if d := details(t, e); d["required_auth_type"] != "api_key" || d["reason"] != "forbidden_header" || len(d["header"]) > 256 {
			t.Errorf("%q: details %s", header, front.Details(e))
		}
		if len(a.Request.Header) > 0 {
			t.Errorf("%q: got %v", header, a.Request.Header)
		}
		assertNoCanary(t, err.Error(), string(front.Details(e)))
	}
}

func TestHeaders(t *testing.T) {
	t.Setenv("BRIDGE_BASIC", canary)
	m := provisioned(t, credentials.Headers{Headers: map[string]string{"authorization": "Basic {env.BRIDGE_BASIC}", "X-Tenant": "acme"}})
	a := authentication(t, &document.Auth{Type: document.AuthCustom})
	a.Request.Header.Set("X-Tenant", "other")
	if err := m.Authenticate(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if h := a.Request.Header; len(h) != 2 || h.Get("Authorization") != "Basic "+canary || !slices.Equal(h["X-Tenant"], []string{"acme"}) {
		t.Errorf("got %v", h)
	}
	secrets := m.Secrets()
	slices.Sort(secrets)
	if !slices.Equal(secrets, []string{"Basic " + canary, "acme", canary}) {
		t.Errorf("secrets: %v", secrets)
	}
}

// TestPartsAreSecrets: the value of a placeholder, and the part after an authentication scheme, are
// redacted separately. Short values and values of options that are not secret are not redacted.
func TestPartsAreSecrets(t *testing.T) {
	t.Setenv("BRIDGE_KEY", canary)
	t.Setenv("BRIDGE_BEARER", "bearer  "+canary)
	t.Setenv("BRIDGE_SHORT", "agent")
	key := func(key string) credential.Credentials {
		return provisioned(t, credentials.APIKey{Key: key, Header: "Authorization"})
	}
	header := func(name, value string) credential.Credentials {
		return provisioned(t, credentials.Headers{Headers: map[string]string{name: value}})
	}
	params := func(name, value string) credential.Credentials {
		return oauth2(t, func(m *credentials.OAuth2) {
			m.ClientSecret, m.Params = "another secret", map[string][]string{name: {value}}
		})
	}
	for name, tc := range map[string]struct {
		credentials credential.Credentials
		want        []string
	}{
		"whole":                   {key("{env.BRIDGE_KEY}"), []string{canary}},
		"key with a scheme":       {key("Bearer {env.BRIDGE_KEY}"), []string{"Bearer " + canary, canary}},
		"scheme in the variable":  {key("{env.BRIDGE_BEARER}"), []string{"bearer  " + canary, canary}},
		"literal with a scheme":   {key("Bearer a-literal-key"), []string{"Bearer a-literal-key", "a-literal-key"}},
		"passphrase":              {key("my secret"), []string{"my secret"}},
		"header with another":     {header("X-Auth", "Own {env.BRIDGE_KEY}"), []string{"Own " + canary, canary}},
		"parameter of a scheme":   {header("Authorization", "Token token={env.BRIDGE_KEY}"), []string{"Token token=" + canary, "token=" + canary, canary}},
		"among others":            {header("X-Session", "sid={env.BRIDGE_KEY}; lang=en"), []string{"sid=" + canary + "; lang=en", canary}},
		"short":                   {header("X-Auth", "{env.BRIDGE_SHORT}:{env.BRIDGE_KEY}"), []string{"agent:" + canary, canary}},
		"short, after a scheme":   {header("X-Auth", "Bearer abc"), []string{"Bearer abc"}},
		"Authorization, short":    {header("authorization", "Bearer abc"), []string{"Bearer abc", "abc"}},
		"secret to sign with":     {provisioned(t, credentials.HMAC{Secret: "v1:{env.BRIDGE_KEY}"}), []string{"v1:" + canary, canary}},
		"parameter":               {params("account", "a/{env.BRIDGE_KEY}"), []string{canary}},
		"parameter, literally":    {params("account", "acme-corporation"), nil},
		"parameter, short":        {params("account", "{env.BRIDGE_SHORT}"), nil},
		"what names the provider": {params("audience", "{env.BRIDGE_KEY}"), nil},
	} {
		got := tc.credentials.Secrets()
		if _, ok := tc.credentials.(*credentials.OAuth2); ok {
			own := params("account", "x").Secrets()
			got = slices.DeleteFunc(got, func(s string) bool { return slices.Contains(own, s) })
		}
		slices.Sort(got)
		slices.Sort(tc.want)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestHMAC(t *testing.T) {
	// RFC 4231, section 4.3.
	const (
		key  = "Jefe"
		body = "what do ya want for nothing?"
		mac  = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
	)
	t.Setenv("BRIDGE_SECRET", key)
	raw := make([]byte, 32)
	if _, err := fmt.Sscanf(mac, "%x", &raw); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		module       credentials.HMAC
		body         []byte
		header, want string
	}{
		// The message is "POST\n/run\n" and the body.
		"defaults": {credentials.HMAC{Secret: "{env.BRIDGE_SECRET}"}, []byte(body), "X-Signature", "bef8f4c7a3a12e333fc296157279dcbb9f64a404caa1fba130b442bce6356344"},
		"no body":  {credentials.HMAC{Secret: "key"}, nil, "X-Signature", "988e2fc29a466e279e0172b1a0bedca4b47f5534a182198ee85237e2831600e4"},
		"in so many words": {
			credentials.HMAC{Secret: "{env.BRIDGE_SECRET}", Signed: "method,path,body"},
			[]byte(body), "X-Signature",
			"bef8f4c7a3a12e333fc296157279dcbb9f64a404caa1fba130b442bce6356344",
		},
		"the body": {credentials.HMAC{Secret: "{env.BRIDGE_SECRET}", Signed: "body"}, []byte(body), "X-Signature", mac},
		"the body in base64": {
			credentials.HMAC{Secret: "{env.BRIDGE_SECRET}", Signed: "body", Encoding: "base64", Header: "X-Mac", Prefix: "v1="},
			[]byte(body), "X-Mac", "v1=" + base64.StdEncoding.EncodeToString(raw),
		},
		"the body with a prefix": {credentials.HMAC{Secret: "{env.BRIDGE_SECRET}", Signed: "body", Encoding: "hex", Prefix: "sha256="}, []byte(body), "X-Signature", "sha256=" + mac},
		// The published test value for the key "key" and no data.
		"the body that there is not": {credentials.HMAC{Secret: "key", Signed: "body"}, nil, "X-Signature", "5d5d139563c95b5967b9bd9a8c9b233a9dedb45072794cd232dc1b74832607d0"},
	} {
		t.Run(name, func(t *testing.T) {
			m := provisioned(t, test.module)
			a := authentication(t, &document.Auth{Type: document.AuthCustom})
			a.Body = test.body
			if err := m.Authenticate(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			if h := a.Request.Header; len(h) != 1 || h.Get(test.header) != test.want {
				t.Errorf("got %v, want %s", h, test.want)
			}
			if secrets := m.Secrets(); len(secrets) != 1 || secrets[0] != key && secrets[0] != "key" {
				t.Errorf("secrets: %v", secrets)
			}
			signature := strings.TrimPrefix(test.want, test.module.Prefix)
			unpadded := strings.TrimRight(signature, "=")
			for _, text := range []string{
				test.want, `{"echo":"` + test.want + `"}`, "ab" + signature, signature, unpadded, "== " + signature + "\n",
				"/verify/" + signature + "/log", signature + "was refused", strings.Repeat("a", 100) + signature + strings.Repeat("a", 100), unpadded + "aa/",
			} {
				if sent := m.Sent([]byte(text)); len(sent) != 1 || sent[0] != unpadded {
					t.Errorf("in %q: %v", text, sent)
				}
			}
			if sent := m.Sent([]byte(unpadded + unpadded)); len(sent) != 2 {
				t.Errorf("twice: %v", sent)
			}
			for _, text := range []string{"", unpadded[1:], "0" + unpadded[1:], unpadded[:10] + "/" + unpadded[10:], strings.Repeat("a", 64), strings.Repeat("=", 100)} {
				if sent := m.Sent([]byte(text)); len(sent) > 0 {
					t.Errorf("in %q: %v", text, sent)
				}
			}
		})
	}
}

// The path is signed as in the request, with its query.
func TestHMACOfPath(t *testing.T) {
	m := provisioned(t, credentials.HMAC{Secret: "Jefe"})
	a := authentication(t, &document.Auth{Type: document.AuthCustom})
	u, err := url.Parse("https://skills.example.com/run/a%2Fb?x=1&y=%20")
	if err != nil {
		t.Fatal(err)
	}
	a.Request.Method, a.Request.URL = http.MethodGet, u
	if err := m.Authenticate(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if got := a.Request.Header.Get("X-Signature"); got != "73c6fb4b0efd462449361c71b83a6b4dd8c2a68c1f3cac397b520ac2406b392f" {
		t.Errorf("got %s", got)
	}
}

// Only the newest signatures are kept.
func TestSignaturesAreForgotten(t *testing.T) {
	m := provisioned(t, credentials.HMAC{Secret: "k", Signed: "body"})
	sign := func(i int) string {
		a := authentication(t, nil)
		a.Body = []byte(strconv.Itoa(i))
		if err := m.Authenticate(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		return a.Request.Header.Get("X-Signature")
	}
	first, last := sign(0), ""
	for i := range 20_000 {
		last = sign(i / 2) // some are sent again
	}
	for i := range 40_000 {
		last = sign(i)
	}
	if len(m.Sent([]byte(last))) != 1 || len(m.Sent([]byte(first))) != 0 {
		t.Error("the newest is not known, or the oldest is")
	}
}

func TestSuits(t *testing.T) {
	auths := []*document.Auth{
		nil, {Type: document.AuthAPIKey}, {Type: document.AuthOAuth2}, {Type: document.AuthCustom}, {Type: document.AuthNone},
	}
	for name, test := range map[string]struct {
		module credential.Credentials
		want   []bool
	}{
		"api_key": {provisioned(t, credentials.APIKey{Key: "k"}), []bool{true, true, false, false, false}},
		"headers": {provisioned(t, credentials.Headers{Headers: map[string]string{"X-A": "a"}}), []bool{true, false, false, true, false}},
		"hmac":    {provisioned(t, credentials.HMAC{Secret: "k"}), []bool{true, false, false, true, false}},
		"oauth2":  {provisioned(t, credentials.OAuth2{ClientID: "a", ClientSecret: "b"}), []bool{false, false, true, false, false}},
		"oauth2 with an endpoint": {
			provisioned(t, credentials.OAuth2{ClientID: "a", ClientSecret: "b", TokenURL: "https://id.example.com/token"}),
			[]bool{true, false, true, false, false},
		},
	} {
		for i, auth := range auths {
			if got := test.module.Supports(auth); got != test.want[i] {
				t.Errorf("%s: %+v: got %v", name, auth, got)
			}
		}
	}
}

func TestProvisionErrors(t *testing.T) {
	t.Setenv("BRIDGE_EMPTY", "")
	t.Setenv("BRIDGE_LINES", canary+"\r\nX-Evil: 1")
	t.Setenv("BRIDGE_BLANK", " \t\u00a0")
	t.Setenv("BRIDGE_MARK", "\ufeff"+canary)
	t.Setenv("BRIDGE_NUL", canary+"\x01")
	t.Setenv("BRIDGE_SECRET", canary)
	t.Setenv("BRIDGE_URL", "https://user:"+canary+"@id.example.com/")
	for name, test := range map[string]struct {
		module caddy.Module
		want   string
	}{
		"no key":               {&credentials.APIKey{}, "key: must be set"},
		"empty variable":       {&credentials.APIKey{Key: "{env.BRIDGE_EMPTY}"}, "key: placeholder {env.BRIDGE_EMPTY} is empty: environment variable BRIDGE_EMPTY is empty"},
		"unset variable":       {&credentials.APIKey{Key: "{env.BRIDGE_UNSET}"}, "key: placeholder {env.BRIDGE_UNSET} is empty: environment variable BRIDGE_UNSET is not set where Caddy runs"},
		"unknown placeholder":  {&credentials.APIKey{Key: "{http.request.host}"}, "key: placeholder {host} is empty or not known"},
		"relative file":        {&credentials.APIKey{Key: "{http.request.uri.path.file.key}"}, "key: placeholder {file.key} is empty: a file needs an absolute path: {file./path/to/key}"},
		"written as such":      {&credentials.APIKey{Key: "{file.secrets/key}"}, "key: placeholder {file.secrets/key} is empty: a file needs an absolute path"},
		"no closing brace":     {&credentials.APIKey{Key: "{env.BRIDGE_SECRET"}, "key: has a placeholder without the closing brace: write {env.NAME} or {file./path}"},
		"no brace of a file":   {&credentials.Headers{Headers: map[string]string{"Authorization": "Bearer {file./run/key"}}, "headers.Authorization: has a placeholder without the closing brace"},
		"no opening brace":     {&credentials.HMAC{Secret: "env.BRIDGE_SECRET}"}, "secret: has a placeholder without the opening brace"},
		"the second brace":     {&credentials.OAuth2{ClientID: "me", ClientSecret: "{env.BRIDGE_SECRET}{env.BRIDGE_SECRET"}, "client_secret: has a placeholder without the closing brace"},
		"brace of a param":     {&credentials.OAuth2{ClientID: "me", ClientSecret: "{env.BRIDGE_SECRET}", Params: map[string][]string{"a": {"{env.A"}}}, "params a: has a placeholder without the closing brace"},
		"byte order mark":      {&credentials.APIKey{Key: secretFile(t, "\ufeff"+canary)}, "begins with a byte order mark (UTF-8)"},
		"mark of UTF-16":       {&credentials.HMAC{Secret: secretFile(t, "\xff\xfek\x00")}, "begins with a byte order mark (UTF-16)"},
		"mark in a variable":   {&credentials.Headers{Headers: map[string]string{"Authorization": "Bearer {env.BRIDGE_MARK}"}}, "the value of {env.BRIDGE_MARK} begins with a byte order mark (UTF-8)"},
		"blank variable":       {&credentials.APIKey{Key: "{env.BRIDGE_BLANK}"}, "environment variable BRIDGE_BLANK is empty, or has only blanks"},
		"colon in a header":    {&credentials.APIKey{Key: "{env.BRIDGE_SECRET}", Header: "X-Key:"}, `header: header "X-Key:" has a colon: write only the name, X-Key`},
		"colon in headers":     {&credentials.Headers{Headers: map[string]string{"Authorization:": canary}}, `"Authorization:" has a colon`},
		"missing file":         {&credentials.APIKey{Key: "{file./nowhere/key}"}, "key: placeholder {file./nowhere/key} is empty: file /nowhere/key: no such file"},
		"empty file":           {&credentials.APIKey{Key: secretFile(t, "\n\n")}, ": it has no text"},
		"a file of blanks":     {&credentials.APIKey{Key: secretFile(t, "   \n")}, ": it has no text, or only blanks"},
		"blanks with a scheme": {&credentials.Headers{Headers: map[string]string{"Authorization": "Bearer " + secretFile(t, " \t\r\n \n")}}, ": it has no text, or only blanks"},
		"a directory":          {&credentials.APIKey{Key: "{file." + t.TempDir() + "}"}, ": is a directory"},
		"a shell's variable":   {&credentials.APIKey{Key: "$BRIDGE_SECRET"}, "key: this looks like a variable of a shell, which is not replaced here: write {env.NAME}"},
		"with a scheme":        {&credentials.Headers{Headers: map[string]string{"Authorization": "Bearer ${BRIDGE_SECRET}"}}, "looks like a variable of a shell"},
		"OAuth of a shell":     {&credentials.OAuth2{ClientID: "a", ClientSecret: "${BRIDGE_SECRET}"}, "client_secret: this looks like a variable of a shell"},
		"HMAC of a shell":      {&credentials.HMAC{Secret: "$BRIDGE_SECRET"}, "secret: this looks like a variable of a shell"},
		"braces in a secret":   {&credentials.APIKey{Key: "a{" + canary + "}"}, `key: a placeholder is not known: write {env.NAME} for the environment variable NAME, {file./path} for a file, or \{`},
		"line break in a key":  {&credentials.APIKey{Key: "{env.BRIDGE_LINES}"}, "key: contains a line break"},
		"control in a key":     {&credentials.APIKey{Key: "{env.BRIDGE_NUL}"}, "key: contains a line break"},
		"forbidden key header": {&credentials.APIKey{Key: "{env.BRIDGE_SECRET}", Header: "Host"}, `"Host" must not carry`},
		"line break in prefix": {&credentials.APIKey{Key: "{env.BRIDGE_SECRET}", Prefix: "a\nb"}, "prefix: contains a line break"},

		"no headers":             {&credentials.Headers{}, "headers: at least one is needed"},
		"unnamed header":         {&credentials.Headers{Headers: map[string]string{"": "x"}}, "a header's name is missing"},
		"forbidden header":       {&credentials.Headers{Headers: map[string]string{"Connection": canary}}, `"Connection" must not carry`},
		"header in two spelling": {&credentials.Headers{Headers: map[string]string{"X-A": canary, "x-a": canary}}, "header X-A is written twice"},
		"empty header":           {&credentials.Headers{Headers: map[string]string{"X-A": ""}}, "X-A: the value is missing"},
		"unknown in a header":    {&credentials.Headers{Headers: map[string]string{"X-A": "{env.BRIDGE_UNSET}"}}, "X-A: placeholder {env.BRIDGE_UNSET}"},
		"line break in a header": {&credentials.Headers{Headers: map[string]string{"X-A": "{env.BRIDGE_LINES}"}}, "X-A: contains a line break"},

		"no signing secret":        {&credentials.HMAC{}, "secret: must be set"},
		"unset signing secret":     {&credentials.HMAC{Secret: "{env.BRIDGE_UNSET}"}, "secret: placeholder {env.BRIDGE_UNSET}"},
		"forbidden signature":      {&credentials.HMAC{Secret: "{env.BRIDGE_SECRET}", Header: "Content-Type"}, `"Content-Type" must not carry`},
		"encoding":                 {&credentials.HMAC{Secret: "{env.BRIDGE_SECRET}", Encoding: "HEX"}, "encoding: must be hex or base64"},
		"control in a hmac prefix": {&credentials.HMAC{Secret: "{env.BRIDGE_SECRET}", Prefix: "\x00"}, "prefix: contains a line break"},

		"no client_id":     {&credentials.OAuth2{ClientSecret: "{env.BRIDGE_SECRET}"}, "client_id: must be set"},
		"no client_secret": {&credentials.OAuth2{ClientID: "me"}, "client_secret: must be set"},
		"unset secret":     {&credentials.OAuth2{ClientID: "me", ClientSecret: "{env.BRIDGE_UNSET}"}, "client_secret: placeholder {env.BRIDGE_UNSET}"},
		"unset refresh token": {
			&credentials.OAuth2{ClientID: "me", ClientSecret: "{env.BRIDGE_SECRET}", RefreshToken: "{env.BRIDGE_UNSET}"},
			"refresh_token: placeholder {env.BRIDGE_UNSET}",
		},
		"password in the token URL": {
			&credentials.OAuth2{ClientID: "me", ClientSecret: "{env.BRIDGE_SECRET}", TokenURL: "{env.BRIDGE_URL}"},
			"token_url: must have neither",
		},
		"auth_style":     {&credentials.OAuth2{ClientID: "me", ClientSecret: "{env.BRIDGE_SECRET}", AuthStyle: "auto"}, "auth_style: must be"},
		"scope":          {&credentials.OAuth2{ClientID: "me", ClientSecret: "{env.BRIDGE_SECRET}", Scopes: []string{"a\nb"}}, "scopes: a scope"},
		"reserved param": {&credentials.OAuth2{ClientID: "me", ClientSecret: "{env.BRIDGE_SECRET}", Params: map[string][]string{"scope": {"a"}}}, "params.scope: cannot be set"},
		"unnamed param":  {&credentials.OAuth2{ClientID: "me", ClientSecret: "{env.BRIDGE_SECRET}", Params: map[string][]string{"": {"a"}}}, "params: a name is missing"},
		"unset param":    {&credentials.OAuth2{ClientID: "me", ClientSecret: "{env.BRIDGE_SECRET}", Params: map[string][]string{"a": {"{env.BRIDGE_UNSET}"}}}, "params a: placeholder {env.BRIDGE_UNSET}"},
	} {
		t.Run(name, func(t *testing.T) {
			err := provision(t, test.module)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			assertNoCanary(t, err.Error())
			if c, ok := test.module.(caddy.CleanerUpper); ok {
				if err := c.Cleanup(); err != nil { // as Caddy does after a failed Provision
					t.Error(err)
				}
			}
		})
	}
}

func TestPrintingAModuleShowsNoSecret(t *testing.T) {
	t.Setenv("BRIDGE_SECRET", canary)
	for _, m := range []caddy.Module{
		provisioned(t, credentials.APIKey{Key: "{env.BRIDGE_SECRET}"}),
		provisioned(t, credentials.Headers{Headers: map[string]string{"X-A": "{env.BRIDGE_SECRET}"}}),
		provisioned(t, credentials.HMAC{Secret: "{env.BRIDGE_SECRET}"}),
		provisioned(t, credentials.OAuth2{ClientID: "me", ClientSecret: "{env.BRIDGE_SECRET}"}),
	} {
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			assertNoCanary(t, fmt.Sprintf(format, m))
		}
	}
}
