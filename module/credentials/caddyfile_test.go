package credentials_test

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/go-json-experiment/json"
)

// unmarshal parses a Caddyfile fragment like the handler, and returns the module's JSON.
func unmarshal(t *testing.T, text string) (string, error) {
	t.Helper()
	d := caddyfile.NewTestDispenser(text)
	d.Next()
	m, err := caddyfile.UnmarshalModule(d, "http.skill_bridge.credentials."+d.Val())
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(m, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return string(b), nil
}

func TestCaddyfile(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"api_key": {
			`api_key {env.KEY}`,
			`{"key":"{env.KEY}"}`,
		},
		"api_key with everything": {
			"api_key {env.KEY} {\n header Authorization\n prefix \"Bearer \"\n}",
			`{"key":"{env.KEY}","header":"Authorization","prefix":"Bearer "}`,
		},
		"oauth2": {
			"oauth2 {\n client_id me\n client_secret {env.SECRET}\n}",
			`{"client_id":"me","client_secret":"{env.SECRET}"}`,
		},
		"oauth2 with everything": {
			"oauth2 {\n client_id me\n client_secret {env.SECRET}\n token_url https://id.example.com/token\n scopes read write\n" +
				" auth_style params\n refresh_token {file./run/token}\n params resource https://a.example\n params resource https://b.example\n params audience x\n}",
			`{"client_id":"me","client_secret":"{env.SECRET}","token_url":"https://id.example.com/token","scopes":["read","write"],` +
				`"auth_style":"params","refresh_token":"{file./run/token}","params":{"audience":["x"],"resource":["https://a.example","https://b.example"]}}`,
		},
		"oauth2 of a public client": {
			"oauth2 {\n client_id me\n refresh_token {env.TOKEN}\n token_url {env.URL}\n}",
			`{"client_id":"me","token_url":"{env.URL}","refresh_token":"{env.TOKEN}"}`,
		},
		"oauth2_user": {
			"oauth2_user {\n client_id me\n scopes +a b\n scopes c\n}",
			`{"client_id":"me","scopes":["+a","b","c"]}`,
		},
		"headers": {
			"headers {\n X-Tenant acme\n Authorization \"Basic {env.BASIC}\"\n}",
			`{"headers":{"Authorization":"Basic {env.BASIC}","X-Tenant":"acme"}}`,
		},
		"hmac": {
			"hmac {\n secret {env.SECRET}\n}",
			`{"secret":"{env.SECRET}"}`,
		},
		"hmac with everything": {
			"hmac {\n secret {env.SECRET}\n header X-Hub-Signature-256\n encoding base64\n prefix sha256=\n signed body\n}",
			`{"secret":"{env.SECRET}","header":"X-Hub-Signature-256","encoding":"base64","prefix":"sha256=","signed":"body"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := unmarshal(t, test.text)
			if err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestCaddyfileErrors(t *testing.T) {
	const oauth2 = "oauth2 {\n client_id me\n client_secret " + canary + "\n "
	for name, test := range map[string]struct {
		text string
		want string
		line string
	}{
		"api_key without a key":         {"api_key", "api_key takes a key (arguments given: 0; {$NAME} is nothing if the environment variable is not set)", ":1"},
		"api_key with only a block":     {"api_key {\n key " + canary + "\n}", "api_key takes a key before its block (arguments given: 0", ":1"},
		"api_key with two keys":         {"api_key " + canary + " x", "api_key takes a key (arguments given: 2)", ":1"},
		"api_key unknown option":        {"api_key k {\n name x\n}", `unknown option "name" of api_key: it has header, prefix`, ":2"},
		"api_key misspelt option":       {"api_key k {\n hedaer x\n}", `unknown option "hedaer" of api_key: it has header, prefix; did you mean header?`, ":2"},
		"api_key of a shell":            {"api_key $ACME_KEY", "key: this looks like a variable of a shell", ":1"},
		"api_key header twice":          {"api_key k {\n header A\n header B\n}", "header is given twice for api_key, first at line 2", ":3"},
		"api_key header missing":        {"api_key k {\n prefix x\n header\n}", "header takes one value (arguments given: 0; {$NAME}", ":3"},
		"api_key header extra":          {"api_key k {\n header A B\n}", "header takes one value (arguments given: 2)", ":2"},
		"api_key header forbidden":      {"api_key k {\n header Content-Length\n}", `"Content-Length" must not carry a credential`, ":2"},
		"api_key header invalid":        {"api_key k {\n header \"X Y\"\n}", `"X Y" must not carry a credential`, ":2"},
		"api_key nested block":          {"api_key k {\n header A {\n prefix x\n }\n}", `unexpected "{": the option before it takes no block`, ":2"},
		"oauth2 with an argument":       {"oauth2 " + canary, "oauth2 takes no argument (arguments given: 1)", ":1"},
		"oauth2 without client_id":      {"oauth2 {\n client_secret " + canary + "\n}", "client_id: must be set", ":1"},
		"oauth2 without a block":        {"oauth2", "client_id: must be set", ":1"},
		"oauth2 without client_secret":  {"oauth2 {\n client_id me\n}", "client_secret: must be set", ":1"},
		"oauth2 unknown option":         {oauth2 + "secret " + canary + "\n}", `unknown option "secret" of oauth2: it has auth_style, client_id, client_secret, params, refresh_token, scopes, token_url`, ":4"},
		"oauth2 secret twice":           {oauth2 + "client_secret x\n}", "client_secret is given twice for oauth2", ":4"},
		"oauth2 secret with a space":    {"oauth2 {\n client_secret " + canary + " " + canary + "\n}", "client_secret takes one value (arguments given: 2)", ":2"},
		"oauth2 auth_style":             {oauth2 + "auth_style auto\n}", "auth_style: must be header or params", ":4"},
		"oauth2 no scopes":              {oauth2 + "scopes\n}", "scopes takes at least one value (arguments given: 0; {$NAME} is nothing", ":4"},
		"oauth2 scope with a space":     {oauth2 + "scopes \"a b\"\n}", "scopes: a scope consists of visible", ":4"},
		"oauth2_user another plus":      {"oauth2_user {\n client_id me\n scopes a\n scopes +b\n}", "scopes: only the first scope can begin with +", ":4"},
		"oauth2_user only a plus":       {"oauth2_user {\n client_id me\n scopes +\n}", "scopes: a scope consists of visible", ":3"},
		"oauth2 relative token_url":     {oauth2 + "token_url /token\n}", "token_url: must be a valid https:// or http:// address", ":4"},
		"oauth2 other scheme":           {oauth2 + "token_url ftp://x/token\n}", "token_url: must be a valid https:// or http:// address", ":4"},
		"oauth2 user in token_url":      {oauth2 + "token_url https://" + canary + "@x/token\n}", "token_url: must have neither", ":4"},
		"oauth2 fragment in token_url":  {oauth2 + "token_url https://x/token#" + canary + "\n}", "token_url: must have neither", ":4"},
		"oauth2 broken token_url":       {oauth2 + "token_url https://x/%zz" + canary + "\n}", "token_url: must be a valid https:// or http:// address", ":4"},
		"oauth2 port 0":                 {oauth2 + "token_url https://x:0/token\n}", "token_url: must have a port from 1 to 65535", ":4"},
		"oauth2_user relative resource": {"oauth2_user {\n client_id me\n resource api\n}", "resource: must be an absolute URI without a fragment", ":3"},
		"oauth2_user resource fragment": {"oauth2_user {\n client_id me\n resource https://x/#a\n}", "resource: must be an absolute URI without a fragment", ":3"},
		"oauth2 port 65536":             {oauth2 + "token_url http://x:65536/token\n}", "token_url: must have a port from 1 to 65535", ":4"},
		"oauth2 port 99999":             {oauth2 + "token_url https://[::1]:99999\n}", "token_url: must have a port from 1 to 65535", ":4"},
		"oauth2 endless port":           {oauth2 + "token_url https://x:99999999999999999999999/\n}", "token_url: must have a port from 1 to 65535", ":4"},
		"oauth2 port that is none":      {oauth2 + "token_url https://x:http/\n}", "token_url: must be a valid", ":4"},
		"api_key line break":            {"\napi_key \"" + canary + "\nX-Evil: 1\"", "key: contains a line break", ":2"},
		"api_key prefix line break":     {"api_key k {\n prefix \"" + canary + "\r\nX-Evil: 1\"\n}", "prefix: contains a line break", ":2"},
		"api_key header line break":     {"api_key k {\n header \"X-A\nX-Evil: 1\"\n}", "must not carry a credential", ":2"},
		"hmac prefix line break":        {"hmac {\n secret x\n prefix \"" + canary + "\n\"\n}", "prefix: contains a line break", ":3"},
		"headers line break":            {"headers {\n X-A \"{env.X}\n" + canary + "\"\n}", "X-A: contains a line break", ":2"},
		"oauth2 params alone":           {oauth2 + "params audience\n}", "params takes a name and a value (arguments given: 1)", ":4"},
		"oauth2 params extra":           {oauth2 + "params a b c\n}", "params takes a name and a value (arguments given: 3)", ":4"},
		"oauth2 params reserved first":  {oauth2 + "params scope x\n params audience y\n}", "params.scope: cannot be set", ":4"},
		"oauth2 empty secret":           {"oauth2 {\n client_secret \"\"\n}", "client_secret has an empty argument", ":2"},
		"oauth2 params reserved":        {oauth2 + "params grant_type password\n}", "params.grant_type: cannot be set", ":4"},
		"headers without any":           {"headers", "at least one is needed", ":1"},
		"headers empty block":           {"headers {\n}", "at least one is needed", ":1"},
		"headers without a value":       {"headers {\n X-A\n}", "X-A takes one value (arguments given: 0; {$NAME}", ":2"},
		"headers with two values":       {"headers {\n X-A a " + canary + "\n}", "X-A takes one value (arguments given: 2)", ":2"},
		"headers twice":                 {"headers {\n X-A a\n x-a b\n}", "x-a: header X-A is written twice", ":3"},
		"headers the same twice":        {"headers {\n X-A a\n X-A b\n}", "X-A is given twice for headers", ":3"},
		"headers forbidden":             {"headers {\n Host example.com\n}", `"Host" must not carry a credential`, ":2"},
		"hmac without a secret":         {"hmac {\n header X-A\n}", "secret: must be set", ":1"},
		"hmac encoding":                 {"hmac {\n encoding base32\n}", "encoding: must be hex or base64", ":2"},
		"hmac signed":                   {"hmac {\n signed path,method\n}", "signed: must be method,path,body or body", ":2"},
		"hmac header forbidden":         {"hmac {\n header Transfer-Encoding\n}", `"Transfer-Encoding" must not carry a credential`, ":2"},
		"hmac unknown option":           {"hmac {\n secret x\n algorithm sha512\n}", `unknown option "algorithm" of hmac: it has encoding, header, prefix, secret, signed`, ":3"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := unmarshal(t, test.text)
			if err == nil {
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "Testfile"+test.line) {
				t.Errorf("got %q, want %q at line %s", err, test.want, test.line)
			}
			assertNoCanary(t, err.Error())
		})
	}
}

func TestUnknownJSONMembersAreRefused(t *testing.T) {
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	defer cancel()
	for _, id := range []string{"api_key", "oauth2", "headers", "hmac"} {
		if _, err := ctx.LoadModuleByID("http.skill_bridge.credentials."+id, []byte(`{"nonsense":1}`)); err == nil ||
			!strings.Contains(err.Error(), "nonsense") {
			t.Errorf("%s: got %v", id, err)
		}
	}
}
