package attacks_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// bobHash is the bcrypt hash, of the least cost, of bobPassword.
const (
	bobPassword = "bob-pw-canary"
	bobHash     = "$2a$04$VWJZgtnjh4e.o6rUon7AmONxwQu0Cb/4Ll0fm.0tnHyRZfiUCpfJm"
)

// inFront puts directives in front of the bridge of a Caddyfile.
func inFront(caddyfile string, directives ...string) string {
	return strings.Replace(caddyfile, "\tskill_bridge", "\t"+strings.Join(directives, "\n\t")+"\n\tskill_bridge", 1)
}

// reload runs another Caddyfile. Caddy closes idle connections then, which a client
// may notice too late to use another one for a POST.
func reload(c *testbed.Caddy, caddyfile string) error {
	err := c.Reload(caddyfile)
	c.HTTP.CloseIdleConnections()
	return err
}

// mustAskToAuthenticate fails the test unless a caller was told to prove who he is,
// and nothing was executed.
func mustAskToAuthenticate(t *testing.T, a testbed.Answer) {
	t.Helper()
	if a.Outcome() != "AUTH_REQUIRED" || a.Code != -32050 || details(t, a).RequiredBy != "bridge" || a.Data.Next != "authenticate" || a.Data.Executed != "no" {
		t.Errorf("the caller was not asked to authenticate: %v", a)
	}
}

// callers are what the tests of authentication in front of the bridge have in
// common: an anonymous caller, and known ones by their principals.
type callers struct {
	anonymous *testbed.Client
	known     map[string]*testbed.Client
}

// mustTellApart tests a bridge whose provider "closed" wants principals and whose
// provider "open" does not.
func (c callers) mustTellApart(t *testing.T, log *testbed.Log, p *hostile.Provider) {
	t.Helper()
	before := len(p.All())
	mustAskToAuthenticate(t, c.anonymous.Execute("closed.s.echo", nil))
	mustAskToAuthenticate(t, c.anonymous.Call("describe_skill", hostile.Object{"name": "closed.s.echo"}))
	mustAskToAuthenticate(t, c.anonymous.Call("read_skill_file", hostile.Object{"name": "closed.s.echo", "path": "SKILL.md"}))
	mustAskToAuthenticate(t, c.anonymous.Execute("closed.nothing", nil))
	if n := len(p.All()) - before; n != 0 {
		t.Errorf("%d requests were made for an anonymous caller who may not use the provider", n)
	}
	mustComplete(t, c.anonymous.Execute("open.s.echo", nil))
	if names := c.anonymous.Names(); !slices.Equal(names, []string{"open.s.echo"}) {
		t.Errorf("an anonymous caller is shown %v", names)
	}
	for principal, client := range c.known {
		mustComplete(t, client.Execute("closed.s.echo", nil))
		mustComplete(t, client.Execute("open.s.echo", nil))
		if names := client.Names(); !slices.Equal(names, []string{"closed.s.echo", "open.s.echo"}) {
			t.Errorf("%s is shown %v", principal, names)
		}
		if !log.Has(`"principal":` + quoted(principal)) {
			t.Errorf("no call of %s was logged as his", principal)
		}
	}
}

// halfOpen are the lines of a bridge for callers.mustTellApart.
func halfOpen(p *hostile.Provider, principal string) string {
	return testbed.Bridge(principal,
		provider(p.URL(), "open"), provider(p.URL(), "closed", "require_principal", "credentials api_key {env.S_KEY}"))
}

func echoProvider(t *testing.T) *hostile.Provider {
	t.Helper()
	t.Setenv("S_KEY", "s-key")
	return hostile.NewProvider(t, hostile.Skill{ID: "s/echo"})
}

// «Who is asking» with basic_auth: {http.auth.user.id} is the principal without
// any option.
func TestPrincipalOfBasicAuth(t *testing.T) {
	p := echoProvider(t)
	text := inFront(halfOpen(p, "principal {http.auth.user.id}"),
		"@claims header Authorization *", "basic_auth @claims {", "\tagent "+agentHash, "\tbob "+bobHash, "}")
	c := testbed.StartCaddy(t, text)
	callers{c.Client, map[string]*testbed.Client{
		"agent": c.With(testbed.BasicAuth("agent", agentMark)), "bob": c.With(testbed.BasicAuth("bob", bobPassword)),
	}}.mustTellApart(t, c.Log, p)
	for _, wrong := range []testbed.Option{testbed.BasicAuth("agent", bobPassword), testbed.Header("Authorization", "Bearer agent")} {
		if a := c.With(wrong).Execute("closed.s.echo", nil); a.Status != http.StatusUnauthorized {
			t.Errorf("wrong credentials: %v", a)
		}
	}
	// Nothing that a request says about itself makes a principal.
	for _, name := range []string{"Remote-User", "X-User", "X-Forwarded-User", "Http.auth.user.id"} {
		mustAskToAuthenticate(t, c.With(testbed.Header(name, "agent")).Execute("closed.s.echo", nil))
	}
	mustAskToAuthenticate(t, c.With(testbed.Param("principal", "agent"), testbed.Param("caller", "agent")).Execute("closed.s.echo", nil))

	if err := reload(c, inFront(testbed.Bridge("require_principal", provider(p.URL(), "open", "credentials api_key {env.S_KEY}")),
		"@claims header Authorization *", "basic_auth @claims {", "\tagent "+agentHash, "}")); err != nil {
		t.Fatal(err)
	}
	before := len(p.All())
	for _, method := range []string{"execute_skill", "describe_skill", "list_skills", "load_skills_protocol_guide"} {
		mustAskToAuthenticate(t, c.Call(method, hostile.Object{"name": "open.s.echo"}))
	}
	mustAskToAuthenticate(t, c.Call("read_skill_file", hostile.Object{"name": "open.s.echo", "path": "SKILL.md"}))
	if n := len(p.All()) - before; n != 0 {
		t.Errorf("%d requests were made for anonymous callers", n)
	}
	mustComplete(t, c.With(testbed.BasicAuth("agent", agentMark)).Execute("open.s.echo", nil))
}

// «Who is asking» with forward_auth: the header that copy_headers sets is the
// principal; one that the client sends itself is not.
func TestPrincipalOfForwardAuth(t *testing.T) {
	p := echoProvider(t)
	tokens := map[string]string{"Bearer alice-token": "alice", "Bearer bob-token": "bob"}
	authority := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := r.Header.Get("Authorization")
		switch {
		case tokens[token] != "":
			w.Header().Set("Remote-User", tokens[token])
		case token != "": // who sends none may pass as nobody
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(authority.Close)
	c := testbed.StartCaddy(t, inFront(halfOpen(p, "principal {http.request.header.Remote-User}"),
		"forward_auth "+strings.TrimPrefix(authority.URL, "http://")+" {", "\turi /verify", "\tcopy_headers Remote-User", "}"))
	alice := c.With(testbed.Header("Authorization", "Bearer alice-token"))
	callers{c.Client, map[string]*testbed.Client{
		"alice": alice, "bob": c.With(testbed.Header("Authorization", "Bearer bob-token")),
	}}.mustTellApart(t, c.Log, p)
	if a := c.With(testbed.Header("Authorization", "Bearer forged")).Execute("closed.s.echo", nil); a.Status != http.StatusUnauthorized {
		t.Errorf("a forged token: %v", a)
	}
	for _, name := range []string{"Remote-User", "remote-user", "REMOTE-USER", "Remote_User"} {
		mustAskToAuthenticate(t, c.With(testbed.Header(name, "mallory")).Execute("closed.s.echo", nil))
		mustComplete(t, alice.With(testbed.Header(name, "mallory")).Execute("closed.s.echo", nil))
	}
	if c.Log.Has(`"principal":"mallory`) {
		t.Error("a client chose its own principal")
	}
}

// leaf writes a certificate that a CA signed, and its key, to files. A parent of
// nil makes a CA.
func leaf(t *testing.T, name string, parent *tls.Certificate) (certificate *tls.Certificate, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost"},
	}
	signer, signerKey := template, any(key)
	if parent == nil {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	} else {
		signer, signerKey = parent.Leaf, parent.PrivateKey
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, signer, key.Public(), signerKey)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	rawKey, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	certFile, keyFile = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: raw}, keyFile: {Type: "PRIVATE KEY", Bytes: rawKey}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key, Leaf: parsed}, certFile, keyFile
}

// «Who is asking» with client certificates: the subject of one that the server's
// own CA has signed is the principal.
func TestPrincipalOfClientCertificate(t *testing.T) {
	p := echoProvider(t)
	ca, caFile, _ := leaf(t, "CA", nil)
	other, _, _ := leaf(t, "CA", nil)
	_, serverCert, serverKey := leaf(t, "server", ca)
	alice, _, _ := leaf(t, "alice", ca)
	mallory, _, _ := leaf(t, "alice", other)
	text := inFront(halfOpen(p, "principal {tls_client_subject}"),
		"tls "+serverCert+" "+serverKey+" {", "\tclient_auth {", "\t\tmode verify_if_given", "\t\ttrust_pool file "+caFile, "\t}", "}")
	c := testbed.StartCaddy(t, strings.Replace(text, "http://127.0.0.1", "https://localhost", 1))
	roots := x509.NewCertPool()
	roots.AddCert(ca.Leaf)
	client := func(certificates ...tls.Certificate) *testbed.Client {
		transport := &http.Transport{TLSClientConfig: &tls.Config{ServerName: "localhost", RootCAs: roots, Certificates: certificates, MinVersion: tls.VersionTLS12}}
		t.Cleanup(transport.CloseIdleConnections)
		own := testbed.NewClient(t, "https://localhost:"+c.Port("PORT")+"/rpc")
		own.HTTP = &http.Client{Transport: transport}
		return own
	}
	callers{client(), map[string]*testbed.Client{"CN=alice": client(*alice)}}.mustTellApart(t, c.Log, p)
	posts := p.Count("s/echo", hostile.Invoke)
	// Go's client leaves out a certificate of a CA that the server does not name, so it is insisted on.
	forged := client()
	forged.HTTP.Transport.(*http.Transport).TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return mallory, nil }
	if a := forged.Execute("closed.s.echo", nil); a.Outcome() != "broken" {
		t.Errorf("a certificate of another CA: %v", a)
	}
	if n := p.Count("s/echo", hostile.Invoke) - posts; n != 0 {
		t.Errorf("%d invocations were made with a forged certificate", n)
	}
}

// S29: private entries that were read with the operator's credentials are unknown
// to anonymous callers in every method, in no way different from what does not
// exist; principals see them. The provider is not even asked, so that no timing
// tells.
func TestS29PrivateEntriesAreUnknownToAnonymous(t *testing.T) {
	t.Setenv("S_READ", "reading-key")
	p := hostile.NewProvider(t,
		hostile.Skill{ID: "s/forecast"}, hostile.Skill{ID: "s/payroll", Access: "private"}, hostile.Skill{ID: "s/restricted", Access: "restricted"},
		hostile.Skill{ID: "s/aliased", Access: "private"})
	p.Script("", hostile.Index, func(int) hostile.Action {
		return func(x *hostile.Exchange) {
			if x.HTTP.Header.Get("X-Api-Key") != "reading-key" {
				hostile.Respond(http.StatusUnauthorized, "")(x)
				return
			}
			hostile.Usual()(x)
		}
	})
	c := testbed.StartCaddy(t, inFront(testbed.Bridge("allow_anonymous", provider(p.URL(), "acme", "discovery_credentials api_key {env.S_READ}", "alias shown s/aliased")),
		"@claims header Authorization *", "basic_auth @claims {", "\tagent "+agentHash, "}"))
	agent := c.With(testbed.BasicAuth("agent", agentMark))
	// What the agent sees first must not be what the next anonymous caller gets.
	if names := agent.Names(); !slices.Contains(names, "acme.s.payroll") {
		t.Errorf("a principal is shown %v", names)
	}
	mustComplete(t, agent.Execute("acme.s.payroll", nil))
	if names := c.Names(); !slices.Equal(names, []string{"acme.s.forecast", "acme.s.restricted", "shown"}) {
		t.Errorf("an anonymous caller is shown %v", names)
	}
	mustComplete(t, c.Execute("shown", nil))
	invocations, descriptors := p.Count("s/payroll", hostile.Invoke), p.Count("s/payroll", hostile.Descriptor)
	exists := []string{"acme.s.payroll", "acme/s/payroll", "s/payroll", "s.payroll"}
	missing := []string{"acme.s.nothing", "acme/s/nothing", "s/nothing", "s.nothing"}
	near := []string{"acme.s.payrol", "acme.s.payrolls", "s/payrol", "acme.s.Payroll"}
	for i := range exists {
		for _, request := range []struct {
			method string
			params hostile.Object
		}{
			{"execute_skill", hostile.Object{"args": hostile.Object{}}},
			{"execute_skill", hostile.Object{"version": "9.9.9"}},
			{"describe_skill", hostile.Object{"detail": "full"}},
			{"describe_skill", hostile.Object{"version": "1.0.0"}},
			{"read_skill_file", hostile.Object{"path": "SKILL.md"}},
			{"read_skill_file", hostile.Object{"path": "descriptor.json"}},
		} {
			ask := func(name string) testbed.Answer {
				request.params["name"] = name
				return c.Call(request.method, request.params)
			}
			a, b := ask(exists[i]), ask(missing[i])
			if a.Outcome() != "SKILL_NOT_FOUND" || strings.ReplaceAll(string(a.Body), "payroll", "nothing") != string(b.Body) {
				t.Errorf("%s tells a private skill from none:\n%v\n%v", request.method, a, b)
			}
			if suggestion := ask(near[i]); strings.Contains(strings.ReplaceAll(string(suggestion.Body), near[i], ""), "payroll") {
				t.Errorf("%s suggests a private skill: %v", request.method, suggestion)
			}
		}
	}
	for _, a := range []testbed.Answer{
		c.Call("load_skills_protocol_guide", nil), c.Call("list_skills", hostile.Object{"detail": "summary", "limit": 1}),
		c.Call("list_skills", hostile.Object{"namespace": "acme"}), c.Call("list_skills", hostile.Object{"namespace": "acme.s.payroll"}),
	} {
		if strings.Contains(strings.ReplaceAll(string(a.Body), "acme.s.payroll", ""), "payroll") {
			t.Errorf("an anonymous caller is told of a private skill: %v", a)
		}
	}
	if p.Count("s/payroll", hostile.Invoke) != invocations || p.Count("s/payroll", hostile.Descriptor) != descriptors {
		t.Error("the provider was asked about a private skill on behalf of an anonymous caller")
	}
	mustComplete(t, agent.Execute("acme.s.payroll", nil)) // and what the anonymous got is not what the agent gets
	for _, method := range []string{"describe_skill", "read_skill_file"} {
		if a := agent.Call(method, hostile.Object{"name": "acme.s.payroll", "path": "SKILL.md"}); a.Code != 0 {
			t.Errorf("a principal: %v", a)
		}
	}
}

// S58: principals are compared as they are, so that nobody gets another's runs by a
// name that only looks like his: one that begins or ends with a space, of whatever
// kind, or that has control characters or invalid UTF-8, is refused in every method, also where
// anonymous callers are served, and so is the page.
func TestS58LookAlikePrincipals(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/slow"})
	p.On("s/slow", hostile.Invoke, hostile.Accept(endless))
	c := testbed.StartCaddy(t, testbed.Bridge("allow_anonymous", "browse", "principal {http.request.header.Remote-User}", provider(p.URL(), "acme")))
	as := func(principal string) *testbed.Client { return c.With(testbed.Header("Remote-User", principal)) }
	token, invalid := leave(t, as("alice"), "acme.s.slow"), refused(t, as("alice"))
	if a := look(as("alice"), token); a.Outcome() != "running" {
		t.Fatalf("her own token: %v", a)
	}
	before := requests(p)
	odd := []string{
		"alice\u00a0", "\u00a0alice", "alice\u2003", "alice\u3000", "\u2028alice", "alice\u0085", "alice\u200b", "\ufeffalice", "\u00a0",
		"al\tice", "al\u009fice", "alice\u202e", "al\xefice", "alice\xff", "\xed\xa0\x80",
	}
	for _, principal := range odd {
		for _, request := range []struct {
			method string
			params hostile.Object
		}{
			{"get_run", hostile.Object{"run_token": token, "wait_ms": 0}},
			{"execute_skill", hostile.Object{"name": "acme.s.slow", "wait_ms": 0}},
			{"list_skills", nil},
			{"describe_skill", hostile.Object{"name": "acme.s.slow"}},
			{"load_skills_protocol_guide", nil},
		} {
			a := as(principal).Call(request.method, request.params)
			if a.Code != -32050 || details(t, a).RequiredBy != "bridge" || a.Data.Next != "ask_operator" || a.Data.Executed != "no" {
				t.Errorf("%s of %q: %v", request.method, principal, a)
			}
		}
		page := as(principal).With(testbed.Header("Remote-User", principal), testbed.Header("Accept", "text/html")).Send(http.MethodGet, c.URL, "")
		if page.Status != http.StatusForbidden || strings.Contains(string(page.Body), "s.slow") {
			t.Errorf("the page of %q: %v", principal, page)
		}
	}
	if n := requests(p) - before; n != 0 {
		t.Errorf("%d requests for callers who were refused", n)
	}
	if !c.Log.Has("begins or ends with a space") {
		t.Error("the log does not tell why")
	}
	for _, principal := range []string{"Alice", "ALICE", "аlice", "al ice", "alice smith", "al\u200cice", ""} {
		if a := look(as(principal), token); string(a.Body) != invalid {
			t.Errorf("%q with the token of alice: %v", principal, a)
		}
		leave(t, as(principal), "acme.s.slow")
	}
}

// S58: a gateway that answers a principal's header several times names nobody: Caddy's
// forward_auth joins the values, and the whole could be the name of another. Empty values
// are none.
func TestS58SeveralPrincipals(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/x"})
	var values atomic.Pointer[[]string]
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header()["Remote-User"] = *values.Load() }))
	t.Cleanup(gateway.Close)
	c := testbed.StartCaddy(t, inFront(
		testbed.Bridge("require_principal", "principal {http.request.header.Remote-User}", provider(p.URL(), "acme")),
		"forward_auth "+strings.TrimPrefix(gateway.URL, "http://")+" {", "\turi /verify", "\tcopy_headers Remote-User", "}"))
	for _, test := range []struct {
		values []string
		next   string // empty: it is a principal
	}{
		{nil, "authenticate"},
		{[]string{""}, "authenticate"},
		{[]string{"", ""}, "authenticate"},
		{[]string{"carol"}, ""},
		{[]string{"carol", "alice"}, "ask_operator"},
		{[]string{"", "alice"}, "ask_operator"},
		{[]string{"Doe, Jane"}, ""},
	} {
		values.Store(&test.values)
		a := c.Execute("acme.s.x", nil)
		if test.next == "" {
			mustComplete(t, a)
		} else if a.Code != -32050 || a.Data.Next != test.next || details(t, a).RequiredBy != "bridge" {
			t.Errorf("%q: %v", test.values, a)
		}
	}
	if len(c.Log.Lines("the header that names the principal has several values")) == 0 {
		t.Error("the log does not tell why")
	}
}

// S30: there is nothing to guess: no method asks about a run by its id (get_run and cancel_run
// want a token), and ids that the bridge makes are random, of more than 128 bits.
func TestS30RunsCanNotBeAskedFor(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/slow"}, hostile.Skill{ID: "s/quick"})
	gate := hostile.NewGate(t)
	p.On("s/slow", hostile.Invoke, hostile.Accept(0))
	p.On("s/slow", hostile.Status, gate.Then(hostile.Usual()))
	p.On("s/quick", hostile.Invoke, hostile.Respond(http.StatusOK, `{"status":"completed","output":1}`))
	c := testbed.StartCaddy(t, testbed.Bridge("poll_interval 5ms 20ms", provider(p.URL(), "acme")))
	owner := make(chan testbed.Answer, 1)
	go func() { owner <- c.Execute("acme.s.slow", nil) }()
	testbed.Eventually(t, 30*time.Second, func() bool { return gate.Waiting() > 0 }, "the run is followed")
	for _, method := range []string{"get_run", "get_result", "follow_run", "run_status", "read_blob", "tasks/get", "cancel_run", "get_execution"} {
		a := c.Call(method, hostile.Object{"run_id": "run-1", "execution_id": "run-1", "id": "run-1", "name": "acme.s.slow"})
		if want := map[bool]int{true: -32602, false: -32601}[method == "get_run" || method == "cancel_run"]; a.Code != want {
			t.Errorf("%s: %v", method, a)
		}
	}
	if a := c.Call("get_run", hostile.Object{"run_token": "run-1"}); a.Code != -32602 {
		t.Errorf("an id in place of a token: %v", a)
	}
	for _, params := range []hostile.Object{{"run_id": "run-1"}, {"execution_id": "run-1"}, {"run": hostile.Object{"execution_id": "run-1"}}} {
		params["name"] = "acme.s.quick"
		if a := c.Call("execute_skill", params); a.Run().RunID == "run-1" {
			t.Errorf("a run was joined by its id: %v", a)
		}
	}
	if n := p.Count("s/slow", hostile.Status); n != 1 {
		t.Errorf("%d requests for the status of the other's run", n)
	}
	gate.Open()
	mustComplete(t, <-owner)
	known := map[string]bool{}
	for range 1000 {
		id := c.Execute("acme.s.quick", nil).Run().RunID
		random, ok := strings.CutPrefix(id, "run_")
		if !ok || len(random) < 26 || strings.Trim(random, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" || known[id] {
			t.Fatalf("the id %q", id)
		}
		known[id] = true
	}
}

// S31: of interleaved calls by two principals, with outputs of very different
// lengths that only one of them may see, none gets a byte of another's.
func TestS31NoByteOfAnothersAnswer(t *testing.T) {
	calls := 1000
	switch {
	case longtest.Runs(longtest.Minutes):
		calls = 1_000_000
	case longtest.Runs(longtest.Long):
		calls = 3000
	}
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/secret"}, hostile.Skill{ID: "s/failing"})
	p.Lean()
	// Each output repeats the id of its call, 1 to some thousand times.
	p.On("s/secret", hostile.Invoke, func(x *hostile.Exchange) {
		hostile.Complete(strings.Repeat("<"+x.Request.Call+">", 1+len(x.Request.Call)%2*x.Number*37%3000))(x)
		p.Forget(x.Request.Call)
	})
	p.On("s/failing", hostile.Invoke, func(x *hostile.Exchange) {
		hostile.Fail("OWN", strings.Repeat("<"+x.Request.Call+">", 1+x.Number*7%40))(x)
		p.Forget(x.Request.Call)
	})
	c := testbed.StartCaddy(t, inFront(testbed.Bridge(provider(p.URL(), "acme")),
		"basic_auth {", "\tagent "+agentHash, "\tbob "+bobHash, "}"))
	c.Log.Lean()
	clients := []*testbed.Client{c.With(testbed.BasicAuth("agent", agentMark)), c.With(testbed.BasicAuth("bob", bobPassword))}
	mine := func(worker, call int) string {
		return strings.Repeat("p", call%3) + strconv.Itoa(worker%2) + "-" + strconv.Itoa(call)
	}
	var leaked atomic.Int64
	report := testbed.Load{
		Workers: 8, Calls: calls,
		Do: func(worker, call int) testbed.Answer {
			own := mine(worker, call)
			name := []string{"acme.s.secret", "acme.s.failing"}[call%2]
			if call%5 == 0 { // a batch, answered from one buffer
				return clients[worker%2].Post(fmt.Sprintf(`[{"jsonrpc":"2.0","id":"%[1]s","method":"execute_skill","params":{"name":"acme.s.secret","args":{"call":"%[1]s"}}},
					{"jsonrpc":"2.0","id":2,"method":"execute_skill","params":{"name":"%[2]s","args":{"call":"%[1]s"}}}]`, own, name))
			}
			return clients[worker%2].Execute(name, hostile.Object{"call": own})
		},
		Done: func(worker, call int, a testbed.Answer) {
			own := "<" + mine(worker, call) + ">"
			rest := strings.ReplaceAll(strings.ReplaceAll(string(a.Body), own, ""), "<"+mine(worker, call), "") // a message may be cut
			if !strings.Contains(string(a.Body), own) || strings.Contains(strings.ReplaceAll(rest, "\\u003c", "<"), "<") {
				if leaked.Add(1) < 5 {
					t.Errorf("call %s was answered %.2000s", own, a.Body)
				}
			}
		},
	}.Run(t)
	t.Log(report)
	report.Only(t, "completed", "failed OWN", "http 200")
}

// S32: what one caller asks for and others wait for as well is not lost when the
// first goes or has no time left, is asked for once, and ends for nobody else.
func TestS32NobodyPaysForAnothersEnd(t *testing.T) {
	t.Setenv("S_SECRET", "client-secret")
	for _, part := range []hostile.Part{hostile.Index, hostile.Descriptor, hostile.Token} {
		t.Run(string(part), func(t *testing.T) {
			p := hostile.NewProvider(t)
			p.Publish(hostile.Skill{ID: "s/oauth", Auth: hostile.OAuth2(p.TokenURL())})
			probe := hostile.NewProvider(t, hostile.Skill{ID: "s/probe"})
			skill := ""
			if part == hostile.Descriptor {
				skill = "s/oauth"
			}
			gate := hostile.NewGate(t)
			p.On(skill, part, gate.Then(hostile.Usual()))
			c := testbed.StartCaddy(t, testbed.Bridge("allow_anonymous", provider(probe.URL(), "probe"),
				provider(p.URL(), "acme", "credentials oauth2 {", "\tclient_id id", "\tclient_secret {env.S_SECRET}", "\ttoken_url "+p.TokenURL(), "}")))
			ctx, cancel := context.WithCancel(t.Context())
			var callers sync.WaitGroup
			callers.Go(func() {
				if a := c.With(testbed.Context(ctx)).Execute("acme.s.oauth", nil); a.Outcome() != "gone" {
					t.Errorf("the first caller: %v", a)
				}
			})
			testbed.Eventually(t, 30*time.Second, func() bool { return gate.Waiting() == 1 }, "the first caller's request is made")
			const others = 5
			for range others {
				callers.Go(func() {
					a := c.Post(`[{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"probe.s.probe"}},
						{"jsonrpc":"2.0","id":2,"method":"execute_skill","params":{"name":"acme.s.oauth"}}]`)
					if n := strings.Count(string(a.Body), `"status":"completed"`); n != 2 {
						t.Errorf("another caller: %v", a)
					}
				})
			}
			testbed.Eventually(t, 30*time.Second, func() bool { return probe.Count("s/probe", hostile.Invoke) == others }, "the others have come")
			cancel()
			if a := c.With(testbed.Timeout(20*time.Millisecond)).Execute("acme.s.oauth", nil); a.Outcome() != "INVOCATION_TIMEOUT" {
				t.Errorf("a caller in a hurry: %v", a)
			}
			gate.Open()
			callers.Wait()
			if n := p.Count(skill, part); n != 1 {
				t.Errorf("%s was asked for %d times", part, n)
			}
			mustComplete(t, c.Execute("acme.s.oauth", nil))
		})
	}
}

// S38: as the contract settles it, an anonymous agent can't use the operator's
// credentials unless he has said so: not directly, not through a registry that is
// open to everybody.
func TestS38NoConfusedDeputy(t *testing.T) {
	t.Setenv("S_KEY", "operators-key")
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/restricted", Access: "restricted", Auth: hostile.APIKey("X-Key")})
	p.MustNotReceive("operators-key")
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"skills":[{"id":"s/restricted","name":"R","description":"R.","version":"1.0.0","capability_type":"api","access":"restricted","descriptor_url":%q}]}`,
			p.URLOf("s/restricted", hostile.Descriptor))
	}))
	t.Cleanup(registry.Close)
	outer := t // whose Caddy is reloaded
	block := []string{"credentials api_key {env.S_KEY}"}
	var c *testbed.Caddy
	for _, test := range []struct {
		name  string
		lines []string
		calls []string
	}{
		{"the handler's", []string{"require_principal", provider(p.URL(), "acme", block...)}, []string{"acme.s.restricted"}},
		{"the provider's", []string{provider(p.URL(), "acme", append(block, "require_principal", "alias mine s/restricted")...)}, []string{"acme.s.restricted", "mine"}},
		{"the provider's, but open otherwise", []string{"allow_anonymous", provider(p.URL(), "acme", append(block, "require_principal")...)}, []string{"acme.s.restricted", "s/restricted"}},
		{"through a registry", []string{
			"allow_anonymous", provider(p.URL(), "acme", append(block, "require_principal")...), "registry " + registry.URL + " {\n\tnamespace reg\n}",
		}, []string{"reg.s.restricted", "acme.s.restricted"}},
		{"a direct skill's", []string{"skill direct " + p.URLOf("s/restricted", hostile.Descriptor) + " {\n\trequire_principal\n\tcredentials api_key {env.S_KEY}\n}"}, []string{"direct"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := inFront(testbed.Bridge(test.lines...), "@claims header Authorization *", "basic_auth @claims {", "\tagent "+agentHash, "}")
			if c == nil {
				c = testbed.StartCaddy(outer, text)
			} else if err := reload(c, text); err != nil {
				t.Fatal(err)
			}
			for _, name := range test.calls {
				mustAskToAuthenticate(t, c.Execute(name, nil))
			}
		})
	}
}
