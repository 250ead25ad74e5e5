package command_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/callers"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/issuertest"
)

// finding is a finding of the command check, as JSON.
type finding struct {
	Result, Source, Skill, What, Fix, Code string
}

// check runs the command check with the options of a handler, and returns its exit status, its findings and all that it wrote.
func check(t *testing.T, flags []string, options ...string) (status int, findings []finding, written string) {
	t.Helper()
	folder := t.TempDir()
	file := filepath.Join(folder, "Caddyfile")
	// The address is in use, and the log can't be written: check does neither listen nor log.
	text := "{\n\tadmin off\n\tpersist_config off\n\tstorage file_system " + folder + "/storage\n\tlog {\n\t\toutput file /dev/null/none\n\t}\n}\nhttp://127.0.0.1:1 {\n\tskill_bridge {\n\t\t" +
		strings.Join(options, "\n\t\t") + "\n\t}\n}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "caddy", append([]string{"skill-bridge", "check", "--json", "--config", file}, flags...)...)
	var out, errs strings.Builder
	command.Stdout, command.Stderr = &out, &errs
	command.Env = append(os.Environ(), "KEY=open sesame", "SECRET=the-secret", "XDG_DATA_HOME="+folder, "XDG_CONFIG_HOME="+folder)
	err := command.Run()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		status = failed.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Passed   bool      `json:"passed"`
		Findings []finding `json:"findings"`
	}
	if out.Len() > 0 {
		if err := json.Unmarshal([]byte(out.String()), &all, json.MatchCaseInsensitiveNames(true)); err != nil || all.Passed != (status == 0) {
			t.Errorf("%v in %s", err, &out)
		}
	}
	for _, name := range []string{"storage", "caddy/skill_bridge.db"} {
		if _, err := os.Stat(filepath.Join(folder, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("check has used %s: %v", name, err)
		}
	}
	count := len(all.Findings)
	all.Findings = slices.DeleteFunc(all.Findings, func(f finding) bool {
		return f == finding{Result: "ok", What: "SQLite in " + folder + "/caddy/skill_bridge.db can be read and written"}
	})
	if count > 0 && len(all.Findings) != count-1 {
		t.Errorf("nothing is said about the database: %s", &out)
	}
	return status, all.Findings, out.String() + errs.String()
}

// expectFindings requires findings that have these texts, in any order, and no others.
func expectFindings(t *testing.T, got []finding, want ...finding) {
	t.Helper()
	for _, w := range want {
		found := false
		for _, g := range got {
			found = found || g.Result == w.Result && g.Source == w.Source && g.Skill == w.Skill && g.Code == w.Code && strings.Contains(g.What, w.What) && strings.Contains(g.Fix, w.Fix)
		}
		if !found {
			t.Errorf("%+v is missing", w)
		}
	}
	if len(got) != len(want) || t.Failed() {
		t.Errorf("%d findings, want %d: %+v", len(got), len(want), got)
	}
}

func providerBlock(p *hostile.Provider, lines ...string) string {
	return "provider " + p.URL() + " {\n\t\t\tnamespace acme\n\t\t\t" + strings.Join(lines, "\n\t\t\t") + "\n\t\t}"
}

// TestCheckPasses: a configuration in which all skills can be called passes. A token is fetched once, and no skill is called.
func TestCheckPasses(t *testing.T) {
	p := hostile.NewProvider(t)
	p.Publish(hostile.Skill{ID: "acme/one", Auth: hostile.OAuth2(p.TokenURL())}, hostile.Skill{ID: "acme/two", Auth: hostile.OAuth2(p.TokenURL())}, hostile.Skill{ID: "acme/open"})
	p.On("", hostile.Token, hostile.Issue("the-token", time.Hour))
	status, findings, written := check(t, []string{"--strict"}, "allow_http", "allow_networks 127.0.0.1", "allow_anonymous",
		providerBlock(p, "credentials oauth2 {\n\t\t\t\tclient_id bridge\n\t\t\t\tclient_secret {env.SECRET}\n\t\t\t}"))
	if status != 0 || strings.Contains(written, "the-token") || strings.Contains(written, "the-secret") {
		t.Errorf("%d: %s", status, written)
	}
	expectFindings(t, findings, finding{Result: "ok", Source: "acme", What: "it was read; 3 of 3 skills can be called"})
	if tokens, calls := p.Count("", hostile.Token), p.Count("acme/one", hostile.Invoke); tokens != 1 || calls != 0 {
		t.Errorf("%d tokens were requested, and %d calls", tokens, calls)
	}
}

// TestCheckUnsupported: a skill that takes requests that bridges can't send is a warning.
func TestCheckUnsupported(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/one"}, hostile.Skill{ID: "acme/form", Auth: hostile.APIKey("X-Key"), Edit: func(d hostile.Object) {
		d["endpoint"].(hostile.Object)["content_type"] = "application/x-www-form-urlencoded"
	}})
	status, findings, written := check(t, nil, "allow_http", "allow_networks 127.0.0.1", "allow_anonymous",
		providerBlock(p, "credentials api_key {env.KEY}"))
	if status != 0 {
		t.Errorf("%d: %s", status, written)
	}
	expectFindings(t, findings,
		finding{Result: "ok", Source: "acme", What: "it was read; 1 of 2 skills can be called"},
		finding{"warning", "acme", "acme.form", "The skill takes requests of the type application/x-www-form-urlencoded, and bridges send only JSON", "ask the provider to take application/json", "VALIDATION_ERROR"},
	)
}

// TestCheckRequests: requests that the author of a descriptor most likely does not mean are warnings.
func TestCheckRequests(t *testing.T) {
	p := hostile.NewProvider(t)
	p.Publish(hostile.Skill{ID: "acme/pet", Endpoint: p.URL() + "/v1/pets/{petId}", Edit: func(d hostile.Object) {
		d["endpoint"].(hostile.Object)["method"] = "GET"
		d["inputs"] = []hostile.Object{{"name": "filter", "type": "object", "description": "Which.", "required": true}}
	}})
	status, findings, written := check(t, nil, "allow_http", "allow_networks 127.0.0.1", "allow_anonymous", providerBlock(p))
	if status != 0 {
		t.Errorf("%d: %s", status, written)
	}
	expectFindings(t, findings,
		finding{Result: "ok", Source: "acme", What: "it was read; 1 of 1 skills can be called"},
		finding{"warning", "acme", "acme.pet", "/endpoint/url has {petId}, but bridges replace only {execution_id}, in status_url and result_url: it is sent as %7BpetId%7D", "tell the provider", ""},
		finding{"warning", "acme", "acme.pet", "/endpoint/method is GET: inputs are the query; the answer must be an InvocationResponse. Objects and arrays are sent as JSON texts: filter", "tell the provider", ""},
	)
}

// TestCheckHold: check decides not which descriptor was seen first.
func TestCheckHold(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/one"})
	status, findings, written := check(t, nil, "allow_http", "allow_networks 127.0.0.1", "allow_anonymous", providerBlock(p, "on_change hold"))
	if status != 0 {
		t.Errorf("%d: %s", status, written)
	}
	expectFindings(t, findings, finding{Result: "ok", Source: "acme", What: "it was read; 1 of 1 skills can be called"})
}

// TestCheckRules: names in access rules and quotas that no skill has are found, with the line and the nearest name.
func TestCheckRules(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/fail"}, hostile.Skill{ID: "acme/echo"})
	status, findings, written := check(t, nil, "allow_http", "allow_networks 127.0.0.1", "allow_anonymous",
		providerBlock(p, "alias shout acme/echo"), "provider https://127.0.0.1:11 {\n\t\t\tnamespace away\n\t\t\talias far one\n\t\t}",
		"access {", "group staff alice", "allow staff * ", "deny bob acme.fial acme.echo shout", "deny stuff far away.one acme.*", "allow * *", "}",
		"quota agent acme.nothing {\n\t\t\trate 1 1m\n\t\t}", "quota staff acme.fail {\n\t\t\tconcurrent 1\n\t\t}")
	if status != 1 { // for the source away
		t.Errorf("%d: %s", status, written)
	}
	expectFindings(t, findings,
		finding{Result: "ok", Source: "acme", What: "it was read; 2 of 2 skills can be called"},
		finding{"failed", "away", "", "connection refused", "check that the URL is right", "ENDPOINT_UNREACHABLE"},
		finding{"warning", "", "acme.fial", "Caddyfile:25) is for a skill that no source lists", "did you mean acme.fail", ""},
		finding{"warning", "", "", `Caddyfile:26) is for a principal "stuff", and no group has this name`, "did you mean staff?", ""},
		finding{"warning", "", "acme.nothing", "Caddyfile:29) is for a skill", "correct the name, or remove it", ""},
	)
}

// TestCheckCallers: with callers_file, principals in rules and groups that no key has are found.
func TestCheckCallers(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	keys := filepath.Join(t.TempDir(), "callers")
	key := sha256.Sum256([]byte("a-key-of-agent"))
	if err := os.WriteFile(keys, []byte("agent "+hex.EncodeToString(key[:])+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, findings, written := check(t, nil, "allow_http", "allow_networks 127.0.0.1", "callers_file "+keys, providerBlock(p),
		"access {", "group staff agent alice", "deny nobody-else *", "allow staff *", "}",
		"quota agnet {\n\t\t\trate 1 1m\n\t\t}")
	if status != 0 {
		t.Errorf("%d: %s", status, written)
	}
	expectFindings(t, findings,
		finding{Result: "ok", Source: "acme", What: "it was read; 1 of 1 skills can be called"},
		finding{"warning", "", "", `has a principal "nobody-else", which has no key in callers_file`, "hash-key", ""},
		finding{"warning", "", "", `has a principal "agnet"`, "did you mean agent?", ""},
		finding{"warning", "", "", `Caddyfile:19) has a principal "alice"`, "hash-key", ""},
	)
}

// TestCheckToldCallers: what can't be told to providers is found with its line, before anything is read.
func TestCheckToldCallers(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	for caller, want := range map[string]string{
		"{http.nonsense.thing} user":              "{http.nonsense.thing} can't be sent to providers",
		"us {env.NOT_SET}":                        "caller.type: placeholder {env.NOT_SET} is empty",
		"{skill_bridge.principal_hash} {env.KEY}": "",
	} {
		status, _, written := check(t, nil, "allow_http", "allow_networks 127.0.0.1", "caller "+caller, providerBlock(p))
		if want != "" && (status != 1 || !strings.Contains(written, want) || !strings.Contains(written, "Caddyfile:13")) || want == "" && status != 0 {
			t.Errorf("%s: %d %s", caller, status, written)
		}
	}
	if n := len(p.Requests("acme/echo", hostile.Descriptor)); n != 1 {
		t.Errorf("%d documents were read", n)
	}
}

// TestCheckIssuers: the keys of the issuers of callers_jwt are tried. Principals in rules may be their users.
func TestCheckIssuers(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	issuer, wrong := issuertest.New(t), issuertest.New(t)
	path := filepath.Join(t.TempDir(), "callers")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	status, findings, written := check(t, nil, "allow_http", "allow_networks 127.0.0.1", "callers_file "+path, issuer.Option("prefix one:"), providerBlock(p), "access {", "allow one:alice *", "}")
	if status != 0 {
		t.Errorf("%d: %s", status, written)
	}
	expectFindings(t, findings,
		finding{Result: "ok", Source: "acme", What: "it was read; 1 of 1 skills can be called"},
		finding{Result: "ok", What: "the issuer " + issuer.URL + " can be read; keys for the tokens of callers: 1"},
	)
	status, findings, written = check(t, nil, "allow_http", "allow_networks 127.0.0.1", strings.Replace(wrong.Option(), wrong.URL, wrong.URL+"/", 1), providerBlock(p))
	if status != 1 {
		t.Errorf("%d: %s", status, written)
	}
	expectFindings(t, findings,
		finding{Result: "ok", Source: "acme", What: "it was read; 1 of 1 skills can be called"},
		finding{Result: "failed", What: `is the metadata of the issuer "` + wrong.URL + `", not of "` + wrong.URL + `/"`, Fix: "correct callers_jwt"},
	)
}

// TestCheckNoCallers: that callers_file has no key is a warning, since nobody could use the bridge.
func TestCheckNoCallers(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	keys := filepath.Join(t.TempDir(), "callers")
	if err := os.WriteFile(keys, []byte("# alice left\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, findings, written := check(t, nil, "allow_http", "allow_networks 127.0.0.1", "callers_file "+keys, providerBlock(p))
	if status != 0 {
		t.Errorf("%d: %s", status, written)
	}
	expectFindings(t, findings,
		finding{Result: "ok", Source: "acme", What: "it was read; 1 of 1 skills can be called"},
		finding{"warning", "", "", "callers_file has no key", "hash-key", ""},
	)
}

// TestCheckTokens: each configured token endpoint is asked for a token, also if no descriptor that can be read needs one.
func TestCheckTokens(t *testing.T) {
	p := hostile.NewProvider(t)
	p.Publish(hostile.Skill{ID: "acme/open"}, hostile.Skill{ID: "acme/broken", Edit: func(d hostile.Object) { delete(d, "endpoint") }})
	p.On("", hostile.Token, hostile.Respond(http.StatusUnauthorized, `{"error":"invalid_client"}`, "Content-Type", "application/json"))
	plain := hostile.NewProvider(t, hostile.Skill{ID: "open/one"})
	oauth := func(lines ...string) string {
		return "credentials oauth2 {\n\t\t\t\tclient_id bridge\n\t\t\t\tclient_secret {env.SECRET}\n\t\t\t\t" + strings.Join(lines, "\n\t\t\t\t") + "\n\t\t\t}"
	}
	options := []string{
		"allow_http", "allow_networks 127.0.0.1", "allow_anonymous", "allow_ports 11",
		providerBlock(p, oauth("token_url "+p.TokenURL())),
		"provider " + plain.URL() + " {\n\t\t\tnamespace plain\n\t\t\t" + oauth() + "\n\t\t}",
		"provider http://127.0.0.1:11 {\n\t\t\tnamespace away\n\t\t\t" + oauth("token_url "+p.TokenURL(), "scopes two") + "\n\t\t}",
	}
	status, findings, written := check(t, nil, options...)
	if status != 1 || strings.Contains(written, "the-secret") {
		t.Errorf("%d: %s", status, written)
	}
	common := []finding{
		{Result: "ok", Source: "acme", What: "1 of 2 skills can be called"},
		{"failed", "acme", "acme.broken", "", "tell the provider", "VALIDATION_ERROR"},
		{Result: "ok", Source: "plain", What: "1 of 1 skills"},
		{"warning", "plain", "", "no skill needs them, so they were not checked", "remove credentials", ""},
		{"failed", "away", "", "can't be reached", "", "ENDPOINT_UNREACHABLE"},
	}
	expectFindings(t, findings, append(common,
		finding{"failed", "acme", "", "", "check the credentials: client_id, client_secret", "AUTH_REQUIRED"},
		finding{"failed", "away", "", "", "check the credentials: client_id, client_secret", "AUTH_REQUIRED"})...)
	p.On("", hostile.Token, hostile.Issue("the-token", time.Hour))
	_, findings, written = check(t, nil, options...)
	if strings.Contains(written, "the-token") {
		t.Error(written)
	}
	expectFindings(t, findings, append(common,
		finding{"warning", "acme", "", "no skill that can be read needs the credentials; their token endpoint has issued a token", "check again", ""},
		finding{"warning", "away", "", "their token endpoint has issued a token", "check again", ""})...)
}

// TestCheckRefreshToken: without a database that could keep the next refresh token, the configured one is not used.
func TestCheckRefreshToken(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/one"})
	p.On("", hostile.Token, hostile.Issue("the-token", time.Hour))
	_, _, written := check(t, nil, "allow_http", "allow_networks 127.0.0.1", "allow_anonymous",
		providerBlock(p, "discovery_credentials oauth2 {\n\t\t\t\tclient_id bridge\n\t\t\t\tclient_secret {env.SECRET}\n\t\t\t\trefresh_token {env.SECRET}\n\t\t\t\ttoken_url "+p.TokenURL()+"\n\t\t\t}"))
	if n := p.Count("", hostile.Token); n != 0 || !strings.Contains(written, "The refresh token was not used") {
		t.Errorf("%d requests: %s", n, written)
	}
}

// TestCheckPlaceholders: an environment variable that is not set is named with the line that needs it.
func TestCheckPlaceholders(t *testing.T) {
	p := hostile.NewProvider(t)
	p.Publish(hostile.Skill{ID: "acme/one", Auth: hostile.APIKey("X-Key")})
	options := []string{"allow_http", "allow_networks 127.0.0.1", "allow_anonymous", providerBlock(p, "credentials api_key {env.KEY_OF_CHECK}")}
	if status, _, written := check(t, nil, options...); status != 1 || !strings.Contains(written, "/Caddyfile: skill_bridge: providers[0].credentials") ||
		!strings.Contains(written, "key: placeholder {env.KEY_OF_CHECK} is empty: environment variable KEY_OF_CHECK is not set where Caddy runs, at ") ||
		strings.Contains(written, "loading module") || strings.Contains(written, "--help") || !strings.Contains(written, "/Caddyfile:16") {
		t.Errorf("without the variable: %d: %s", status, written)
	}
	t.Setenv("KEY_OF_CHECK", "secret-of-check")
	if status, findings, written := check(t, nil, options...); status != 0 || len(findings) != 1 || strings.Contains(written, "secret-of-check") {
		t.Errorf("%d: %s", status, written)
	}
}

// TestCheckFails: each reason for which a source or a skill can't be used is a finding, with what to do about it.
func TestCheckFails(t *testing.T) {
	p := newProvider(t)
	p.Withdraw("acme/unread")
	empty := hostile.NewProvider(t)
	empty.On("", hostile.Index, hostile.Respond(http.StatusNotFound, "<html>not here</html>"))
	status, findings, written := check(t, nil, "allow_http", "allow_networks 127.0.0.1", "allow_anonymous",
		providerBlock(p, "credentials api_key {env.KEY}", "discovery_credentials api_key {env.KEY}", "alias shout acme/ecko", "alias 127.none acme/none"),
		"provider https://127.0.0.1:11 {\n\t\t\tnamespace away\n\t\t}",
		"provider https://10.0.0.1 {\n\t\t\tnamespace inside\n\t\t}",
		"provider "+strings.Replace(p.URL(), "http:", "https:", 1)+" {\n\t\t\tnamespace plain\n\t\t}",
		"provider "+empty.URL()+" {\n\t\t\tnamespace nothing\n\t\t}",
		"skill gone "+p.URL()+"/descriptors/acme%2Fgone", "skill unlike "+p.URL()+"/.well-known/skill-sharing")
	if status != 1 || strings.Contains(written, "open sesame") {
		t.Errorf("%d: %s", status, written)
	}
	expectFindings(t, findings,
		finding{Result: "ok", Source: "acme", What: "14 of 20 skills read; the API key was not tried: only a call shows whether it is accepted"},
		finding{"failed", "acme", "acme.broken", "", "caddy skill-bridge validate http://127.0.0.1:", "VALIDATION_ERROR"},
		finding{"failed", "acme", "acme.gone", "HTTP 404", "names a descriptor that does not exist", "SKILL_NOT_FOUND"},
		finding{"failed", "acme", "acme.port", "", "allow_ports 9", "ENDPOINT_UNREACHABLE"},
		finding{"failed", "acme", "acme.afar", "", "allow_ports 9", "ENDPOINT_UNREACHABLE"},
		finding{"warning", "acme", "acme.future", "not compatible", "newer build", "VERSION_INCOMPATIBLE"},
		finding{"warning", "acme", "acme.oauth", "of another type", "if you have credentials for oauth2, write beside the provider: skill <name>", "AUTH_REQUIRED"},
		finding{"failed", "acme", "shout", "which the source does not list", "did you mean acme/echo?", ""},
		finding{"failed", "acme", "127.none", "which the source does not list", "correct the alias", ""},
		finding{"failed", "away", "", "connection refused", "check that the URL is right", "ENDPOINT_UNREACHABLE"},
		finding{"failed", "plain", "", "the server does not speak TLS", "to allow plain HTTP, write http:// in the URL, and add the option allow_http", "ENDPOINT_UNREACHABLE"},
		finding{"failed", "nothing", "", "HTTP 404", "check the URL of the provider", "INVALID_PROVIDER_RESPONSE"},
		finding{"failed", "inside", "", "", "allow_networks 10.0.0.1", "ENDPOINT_UNREACHABLE"},
		finding{"failed", "gone", "gone", "HTTP 404", "check the URL of the skill", "SKILL_NOT_FOUND"},
		finding{"failed", "unlike", "unlike", "Invalid SkillDescriptor", "check the URL of the skill", "VALIDATION_ERROR"},
	)
}

// TestCheckCredentials: a credential that may not go where a descriptor sends it, and one that does not work, are found.
func TestCheckCredentials(t *testing.T) {
	p, other := hostile.NewProvider(t), hostile.NewProvider(t)
	oauth := "credentials oauth2 {\n\t\t\t\tclient_id bridge\n\t\t\t\tclient_secret {env.SECRET}\n\t\t\t}"
	p.Publish(hostile.Skill{ID: "acme/near", Auth: hostile.OAuth2(p.TokenURL())}, hostile.Skill{ID: "acme/far", Auth: hostile.OAuth2(other.TokenURL())},
		hostile.Skill{ID: "acme/there", Auth: hostile.OAuth2(p.TokenURL()), Endpoint: other.URL() + "/run"})
	p.On("", hostile.Token, hostile.Respond(http.StatusUnauthorized, `{"error":"invalid_client"}`, "Content-Type", "application/json"))
	open := []string{"allow_http", "allow_networks 127.0.0.1", "allow_anonymous", "allow_ports " + other.URL()[strings.LastIndex(other.URL(), ":")+1:]}
	status, findings, written := check(t, nil, append(open, providerBlock(p, oauth))...)
	host := strings.TrimPrefix(other.URL(), "http://")
	if status != 1 || strings.Contains(written, "the-secret") || other.Count("", hostile.Token) > 0 {
		t.Errorf("%d: %s", status, written)
	}
	expectFindings(t, findings,
		finding{Result: "ok", Source: "acme", What: "0 of 3 skills can be called"},
		finding{"failed", "acme", "acme.near", "", "check the credentials: client_id, client_secret", "AUTH_REQUIRED"},
		finding{"failed", "acme", "acme.far", "may not receive the client secret", "add to the provider: trust " + host, "AUTH_REQUIRED"},
		finding{"failed", "acme", "acme.there", "may not receive the provider's credentials", "add to the provider: trust " + host, "AUTH_REQUIRED"},
	)
	status, findings, _ = check(t, nil, append(open, "skill unused "+p.URL()+"/descriptors/acme%2Fnear {\n\t\t\tcredentials api_key {env.KEY}\n\t\t}")...)
	if status != 0 {
		t.Errorf("%d", status)
	}
	expectFindings(t, findings,
		finding{"warning", "unused", "unused", "of another type", "write credentials for oauth2 in place of those of the skill", "AUTH_REQUIRED"},
	)
	if status, _, written := check(t, []string{"--strict"}, append(open, "skill unused "+p.URL()+"/descriptors/acme%2Fnear")...); status != 1 {
		t.Errorf("%d: %s", status, written)
	}
	if status, findings, written := check(t, nil, "provider skills.example.com"); status != 1 || findings != nil || !strings.Contains(written, "Error: ") {
		t.Errorf("%d: %s", status, written)
	}
}

// TestCheckStore: a database that can't be used fails, with what to do. One that exists is used, and what was written is deleted.
func TestCheckStore(t *testing.T) {
	folder := t.TempDir()
	for store, want := range map[string]struct {
		failed    bool
		what, fix string
	}{
		"sqlite /dev/null/bridge.db":      {true, "SQLite in /dev/null/bridge.db", "store sqlite <file>"},
		"sqlite " + folder:                {true, "SQLite in " + folder, "store sqlite <file>"},
		"sqlite " + folder + "/notes.txt": {true, "SQLite in " + folder + "/notes.txt", "not a database of SQLite"},
		"sqlite " + folder + "/empty.db":  {false, "SQLite in " + folder + "/empty.db can be read and written; it is empty: the bridge makes its tables", ""},
		"memory":                          {false, "SQLite in memory can be read and written", ""},
		"postgres postgres://bridge:the-secret@127.0.0.1:9/some": {true, "127.0.0.1:9/some", " "},
	} {
		if err := errors.Join(os.WriteFile(folder+"/notes.txt", []byte(strings.Repeat("notes\n", 1000)), 0o600), os.WriteFile(folder+"/empty.db", nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "Caddyfile")
		text := "{\n\tadmin off\n\tpersist_config off\n}\nhttp://127.0.0.1:1 {\n\tskill_bridge {\n\t\tallow_anonymous\n\t\tstore " + store + "\n\t}\n}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		command := exec.CommandContext(t.Context(), "caddy", "skill-bridge", "check", "--json", "--config", file)
		command.Env = append(os.Environ(), "XDG_DATA_HOME="+t.TempDir())
		out, err := command.CombinedOutput()
		if (err != nil) != want.failed || !strings.Contains(string(out), want.what) || !strings.Contains(string(out), want.fix) || strings.Contains(string(out), "the-secret") {
			t.Errorf("%s: %v: %s", store, err, out)
		}
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 2 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestCheckAccounts: the redirect URIs of sources of which users have accounts are shown, and the metadata of their issuers is tried.
func TestCheckAccounts(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/book", Auth: hostile.OAuth2("https://login.example.com/token")})
	server, _ := authorizationServer(t)
	bridge := func(issuer string) []string {
		return []string{
			"allow_http", "allow_networks 127.0.0.0/8", "seal_key 00112233445566778899aabbccddeeff0123456789abcdeffedcba9876543210", "connect {", "url https://agents.example.com/connect", "}",
			"provider " + p.URL() + " {", "namespace acme", "credentials oauth2_user {", "client_id web", "client_secret {env.SECRET}", "issuer " + issuer, "}", "}",
		}
	}
	const uri = "https://agents.example.com/connect/acme/callback"
	for _, tc := range []struct {
		issuer string
		status int
		has    string
	}{{server, 0, uri}, {server + "/nowhere", 1, "metadata of the authorization server can't be read"}} {
		status, findings, written := check(t, nil, bridge(tc.issuer)...)
		if status != tc.status || !strings.Contains(written, uri) || !strings.Contains(written, "1 of 1 skills can be called") || !strings.Contains(written, tc.has) {
			t.Errorf("%s: %d %+v", tc.issuer, status, findings)
		}
	}
}

// TestS325CheckOfConnect: check finds what keeps all users from connecting an account that their agents could use.
func TestS325CheckOfConnect(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/book", Auth: hostile.OAuth2("https://login.example.com/token")})
	keys := filepath.Join(t.TempDir(), "callers")
	line, err := callers.Line("staff:ada", "the-key-of-ada-which-is-long-enough")
	if err == nil {
		err = os.WriteFile(keys, []byte(line), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	const (
		open    = "no user can connect an account, since no authentication in front of the pages of connect sets the principal"
		strange = "accounts that users connect are for no caller"
		jwt     = "callers_jwt https://login.example.com {\naudience https://agents.example.com\nprefix staff:\n}"
		login   = "}\nbasic_auth {\nada $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG"
	)
	for name, tc := range map[string]struct {
		principal, callers, login string
		want                      string
	}{
		"no login":                    {"", "", "", open},
		"no login, mounts":            {"", "rpc\nmcp", "", open},
		"own principal, no login":     {"{http.auth.user.id}", "rpc\ncallers_file " + keys, "", open},
		"login":                       {"", "", login, ""},
		"login, mounts":               {"", "rpc\nmcp", login, ""},
		"a header":                    {"{http.request.header.Remote-User}", "rpc", "", ""},
		"wrong spelling":              {"{http.auth.user}", "", login, open},
		"wrong spelling, calls":       {"", "principal {http.auth.id}", login, open},
		"prefix":                      {"staff:{http.auth.user.id}", "callers_file " + keys, login, ""},
		"prefix of none":              {"guest:{http.auth.user.id}", "callers_file " + keys, login, strange},
		"prefix, calls have none":     {"staff:{http.auth.user.id}", "", login, strange},
		"prefix of tokens":            {"staff:{http.auth.user.id}", jwt, login, ""},
		"prefix of tokens is missing": {"{http.auth.user.id}", jwt, login, strange},
		"prefix from outside":         {"{env.KEY}:{http.auth.user.id}", jwt, login, ""},
	} {
		t.Run(name, func(t *testing.T) {
			connect := "connect {\nurl https://agents.example.com/connect\n}"
			if tc.principal != "" {
				connect = strings.Replace(connect, "\n}", "\nprincipal "+tc.principal+"\n}", 1)
			}
			_, findings, _ := check(t, nil,
				"allow_http", "allow_networks 127.0.0.0/8", "seal_key 00112233445566778899aabbccddeeff0123456789abcdeffedcba9876543210", connect, tc.callers,
				"provider "+p.URL()+" {", "namespace acme", "credentials oauth2_user {", "client_id web", "}", "}", tc.login)
			for _, text := range []string{open, strange} {
				i := slices.IndexFunc(findings, func(f finding) bool { return strings.HasPrefix(f.What, text) })
				if (i >= 0) != (text == tc.want) || i >= 0 && (findings[i].Result != "warning" || findings[i].Fix == "") {
					t.Errorf("%s: %+v", text, findings)
				}
			}
		})
	}
}
