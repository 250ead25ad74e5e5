package attacks_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// S49: who runs a host below the provider's gets no secret by that, on any port,
// unless the operator trusts it by name or by `trust *.`; the log names both lines.
func TestS49Subdomains(t *testing.T) {
	s := newStage(t)
	s.names.Set("mallory.a.example.test", hostile.Addresses(impostor))
	s.names.Set("deep.mallory.a.example.test", hostile.Addresses(impostor))
	s.other.Publish(hostile.Skill{ID: "acme/x"})
	port := s.own.Port()
	below := "https://mallory.a.example.test:" + port
	publish := func(endpoint string) {
		s.own.Publish(hostile.Skill{ID: "acme/x", Auth: hostile.APIKey("X-API-Key"), Endpoint: endpoint + "/run/acme%2Fx"})
	}
	c := s.start(t, "credentials api_key a-secret-key")
	for _, host := range []string{below, "https://mallory.a.example.test", "https://deep.mallory.a.example.test:" + port} {
		publish(host)
		mustBeKept(t, c.Execute("acme.x", nil), "mallory")
	}
	if n := s.other.Connections(); n > 0 {
		t.Errorf("%d connections to a subdomain", n)
	}
	for _, line := range []string{`"line":"trust mallory.a.example.test:` + port + `"`, `"line_for_subdomains":"trust *.a.example.test:` + port + `"`} {
		if len(c.Log.Lines("a credential was not sent", line)) == 0 {
			t.Errorf("the log has no %s", line)
		}
	}
	c.Stop()

	// The name of one opens that one, `*.` all on that port, and neither the host
	// that they are below of, nor others.
	publish(below)
	for _, trust := range []string{"trust mallory.a.example.test", "trust *.a.example.test", "trust *.a.example.test:1", "trust *.mallory.a.example.test:" + port} {
		c = s.start(t, trust, "credentials api_key a-secret-key")
		mustBeKept(t, c.Execute("acme.x", nil), "mallory")
		c.Stop()
	}
	if n := len(s.other.Received("a-secret-key")); n > 0 {
		t.Errorf("the subdomain got the key %d times", n)
	}
	// The certificate of the tests is good for names directly below example.test only,
	// so that of a connection that is tried, TLS fails.
	for _, trust := range []string{"trust mallory.a.example.test:" + port, "trust *.a.example.test:" + port} {
		c = s.start(t, trust, "credentials api_key a-secret-key")
		if a := c.Execute("acme.x", nil); a.Outcome() != "ENDPOINT_UNREACHABLE" {
			t.Errorf("%s: %v", trust, a)
		}
		c.Stop()
	}
	c = s.start(t, "trust *.example.test:"+port, "credentials api_key a-secret-key")
	publish("https://b.example.test:" + port)
	mustComplete(t, c.Execute("acme.x", nil))
	if n := len(s.other.Received("a-secret-key")); n != 1 {
		t.Errorf("the trusted subdomain got the key %d times", n)
	}
}

// S59: whether a name exists in the operator's network can't be told from an answer,
// nor by a provider from what it is asked: one that leads to private addresses and one
// that does not exist are the same, in every place that can name a URL and however
// often it is tried. The log tells which it is.
func TestS59NamesOfTheInside(t *testing.T) {
	p := inHouse(t)
	names := hostile.NewNameServer(t)
	kinds := map[string]hostile.Lookup{
		"aaaa": hostile.NXDomain(), "bbbb": hostile.Addresses(), "cccc": hostile.Addresses("10.0.0.1"), "dddd": hostile.Addresses("127.0.0.1"),
		"eeee": hostile.Addresses("169.254.169.254"), "ffff": hostile.Addresses("fd00::1", "10.0.0.1"),
	}
	for name, lookup := range kinds {
		names.Set(name+".corp.example", lookup)
	}
	// The breaker, stale documents and remembered failures are as they are by default.
	c := testbed.StartCaddy(t, "http://127.0.0.1:{$PORT} {\n\tskill_bridge /rpc {\n\t\tallow_http\n\t\tallow_anonymous\n\t\tallow_networks "+house+"\n"+
		"\t\tpoll_interval 1ms 20ms\n\t\tcircuit_breaker {\n\t\t\tfailures 3\n\t\t}\n\t\tcache {\n\t\t\tttl 0s\n\t\t\tnegative_ttl 0s\n\t\t}\n\t\t"+names.Transport()+"\n\t\t"+
		provider(p.URL(), "acme", "credentials oauth2 {", "client_id bridge", "client_secret a-client-secret", "}", "trust *.corp.example:80 *.corp.example")+"\n\t}\n}\n")
	for _, place := range namedURLs {
		answers, refused := map[string]string{}, 0
		for name := range kinds {
			p.On("", hostile.Index)
			p.Publish(hostile.Skill{ID: "acme/x"})
			p.On("acme/x", hostile.Descriptor)
			p.On("acme/x", hostile.Invoke, hostile.AcceptForResult(0))
			scheme := "http://"
			if place.name == "token_url" {
				scheme = "https://"
			}
			place.set(p, scheme+name+".corp.example/")
			for range 4 { // as many as open a breaker, and one
				a := c.Execute("acme.x", nil)
				text := strings.ReplaceAll(fmt.Sprint(a.Outcome(), a.Message, a.Data.Phase, a.Data.Executed, a.Data.Next, string(a.Data.Details), a.Data.Retry != nil), name, "NAME")
				if a.Data.ExecutionID != "" {
					text = strings.ReplaceAll(text, a.Data.ExecutionID, "RUN")
				}
				if strings.Contains(text, "not public") || strings.Contains(text, "not exist") {
					t.Errorf("%s, %s: the answer tells which it is: %v", place.name, name, a)
				}
				answers[text] += name + " "
				refused += strings.Count(text, "ENDPOINT_UNREACHABLE")
			}
			p.On("acme/x", hostile.Invoke)
		}
		if refused == 0 && !strings.HasPrefix(place.name, "redirect") { // then documents of before are used
			t.Errorf("%s: nothing was refused: %q", place.name, answers)
		}
		if len(answers) != 1 {
			t.Errorf("%s: %d different answers: %q", place.name, len(answers), answers)
		}
	}
	for line, name := range map[string]string{"did not connect: host name does not exist": "aaaa", "did not connect: address is not public": "cccc"} {
		if len(c.Log.Lines(line, name+".corp.example")) == 0 {
			t.Errorf("the log does not tell of %s: %s", name, line)
		}
	}
}

// S60: private addresses and those of metadata services are out of reach also behind
// the prefixes of translators and tunnels, where the operator has opened these, and
// metadata addresses of all clouds where he has opened the networks that they are in.
func TestS60AddressesWithinAddresses(t *testing.T) {
	o := newOutside(t)
	o.names.Set("nat64.example.test", hostile.Addresses("64:ff9b::a00:1"))
	o.names.Set("dns64.example.test", hostile.Addresses("64:ff9b::808:808"))
	o.names.Set("metadata.tencentyun.com", hostile.Addresses("169.254.0.23"))
	c := testbed.StartCaddy(t, o.config("allow_networks 64:ff9b::/96 64:ff9b:1::/48 2002::/16 2001::/32 ::/96 169.254.0.0/16 fd00::/8 100.64.0.0/10 192.0.0.0/24"))
	o.mustRefuse(t, c,
		"[64:ff9b::a00:1]", "[64:ff9b::7f00:1]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b::6464:64c8]", "[64:ff9b:1::a00:1]", "[64:ff9b:1:a00:0:100::]", "[64:ff9b:1:a00:0:100:808:808]",
		"[64:ff9b:1:fffe::7f00:1]", "[2002:7f00:1::1]", "[2002:c0a8:101::]", "[2001:0:808:808::80ff:fffe]", "[2001:0:a00:1::f7f7:f7f7]", "[::10.0.0.1]", "[::a9fe:a9fe]",
		"[fd00::5efe:a00:1]", "[fd00::200:5efe:a9fe:a9fe]", "[2606:4700::5efe:7f00:1]", "nat64.example.test", "metadata.tencentyun.com",
		"169.254.42.42", "[fd00:42::42]", "169.254.0.23", "169.254.169.253", "[fd00:ec2::253]", "169.254.169.252", "[fd00:c1::a9fe:a9fe]", "[fd00:a9fe:a9fe::1]",
	)
	// What was opened is open for addresses that may be reached themselves.
	for _, host := range []string{"[64:ff9b::808:808]", "dns64.example.test", "[64:ff9b:1:fffe::808:808]", "[2002:808:808::1]"} {
		o.Publish(hostile.Skill{ID: "acme/x", Endpoint: "http://" + host + "/run/acme%2Fx"})
		mustComplete(t, c.Execute("acme.x", nil))
	}
}

// S60: the query of a URL that the operator wrote may be a key of its own. No line of
// the log has it, whatever happens to the host.
func TestS60QueryOfDescriptorURL(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/x", Unlisted: true})
	c := testbed.StartCaddy(t, bridge("allow_networks 127.0.0.1",
		"skill one "+p.URLOf("acme/x", hostile.Descriptor)+"?key=a-secret-in-a-query"))
	c.Log.MustNotShow("a-secret-in-a-query")
	mustComplete(t, c.Execute("one", nil))
	for _, action := range []hostile.Action{
		hostile.Respond(http.StatusInternalServerError, ""), hostile.Respond(http.StatusNotFound, ""), hostile.Respond(http.StatusOK, "no JSON"),
		hostile.Respond(http.StatusNotModified, ""), hostile.Respond(http.StatusFound, "", "Location", "http://10.0.0.1/"), hostile.Reset(),
	} {
		p.On("acme/x", hostile.Descriptor, action)
		if a := c.Execute("one", nil); a.Outcome() == "completed" {
			t.Errorf("completed: %v", a)
		}
	}
	p.Down()
	p.Disconnect()
	if a := c.Execute("one", nil); a.Outcome() != "ENDPOINT_UNREACHABLE" {
		t.Errorf("the host is down: %v", a)
	}
	if len(c.Log.Lines(`"level":"warn"`)) == 0 {
		t.Error("there is no warning to look at")
	}
}

// identified is a bridge that has a client certificate, which it shows to providers.
func (s *stage) identified(lines ...string) string {
	certificate, key := s.ca.ClientCertificate("the-bridge")
	return bridge(append([]string{
		"allow_networks 127.0.0.1 " + impostor, "allow_ports " + s.other.Port(), "allow_anonymous",
		s.names.Transport("tls_trust_pool file "+s.ca.File(), "tls_client_auth "+certificate+" "+key),
	}, lines...)...)
}

// clients are the names that a provider was shown with the requests for a part of a
// skill, each once, of those that came after the first ones.
func clients(p *hostile.Provider, first int, skill string, part hostile.Part) []string {
	var names []string
	for _, r := range p.All()[first:] {
		if r.Skill == skill && r.Part == part {
			names = append(names, r.Client)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// S48: a client certificate is a secret like any other. It is shown to the provider's
// own host and to trusted ones, whether a skill wants a credential or not, if the
// descriptor came from there, and to nobody else: not for an endpoint, a status or
// result URL elsewhere, a descriptor elsewhere that leads back, a redirect, nor on a
// connection that a request of the provider itself has left open.
func TestS48ClientCertificate(t *testing.T) {
	s := newStage(t)
	port := s.own.Port()
	elsewhere := "https://b.example.test:" + port
	for _, id := range []string{"acme/out", "acme/status", "acme/back", "acme/redirected", "acme/returned"} {
		s.other.Publish(hostile.Skill{ID: id})
	}
	s.own.Publish(
		hostile.Skill{ID: "acme/own"},
		hostile.Skill{ID: "acme/key", Auth: hostile.APIKey("X-API-Key")},
		hostile.Skill{ID: "acme/out", Endpoint: elsewhere + "/run/acme%2Fout", Edit: func(d hostile.Object) { d["endpoint"].(hostile.Object)["method"] = "DELETE" }},
		hostile.Skill{ID: "acme/status", StatusURL: elsewhere + "/status/acme%2Fstatus/{execution_id}"},
		hostile.Skill{ID: "acme/back", DescriptorURL: elsewhere + "/descriptors/acme%2Fback"},
		hostile.Skill{ID: "acme/redirected"},
		hostile.Skill{ID: "acme/returned", DescriptorURL: elsewhere + "/descriptors/acme%2Freturned"},
	)
	s.own.On("acme/status", hostile.Invoke, hostile.Accept(1))
	s.other.On("acme/status", hostile.Status, hostile.Complete("a result of the other host"))
	s.other.Publish(hostile.Skill{ID: "acme/back", Endpoint: s.own.URLOf("acme/back", hostile.Invoke)})
	s.other.Publish(hostile.Skill{ID: "acme/redirected", Endpoint: s.own.URLOf("acme/redirected", hostile.Invoke)})
	s.own.On("acme/redirected", hostile.Descriptor, hostile.Redirect(http.StatusFound, elsewhere+"/descriptors/acme%2Fredirected"))
	s.other.On("acme/returned", hostile.Descriptor, hostile.Redirect(http.StatusFound, s.own.URLOf("acme/returned", hostile.Descriptor)))

	acme := provider(s.own.URL(), "acme", "credentials api_key a-secret-key")
	c := testbed.StartCaddy(t, s.identified(acme))
	for range 3 {
		for _, name := range []string{"acme.own", "acme.key", "acme.out", "acme.status", "acme.back", "acme.redirected", "acme.returned"} {
			mustComplete(t, c.Execute(name, nil))
		}
	}
	for _, r := range s.other.All() {
		if r.Client != "" {
			t.Errorf("%s %s at the other host was shown the certificate", r.Method, r.Target)
		}
	}
	if len(s.other.Requests("acme/out", hostile.Invoke)) == 0 || len(s.other.Requests("acme/status", hostile.Status)) == 0 {
		t.Error("the other host was not asked: nothing was shown")
	}
	for _, want := range []struct {
		skill string
		part  hostile.Part
		name  string
	}{
		{"", hostile.Index, "the-bridge"},
		{"acme/own", hostile.Descriptor, "the-bridge"},
		{"acme/own", hostile.Invoke, "the-bridge"},
		{"acme/key", hostile.Invoke, "the-bridge"},
		{"acme/status", hostile.Invoke, "the-bridge"},
		{"acme/back", hostile.Invoke, ""}, // what comes from elsewhere does not act in the bridge's name
		{"acme/redirected", hostile.Invoke, ""},
		{"acme/returned", hostile.Descriptor, ""},
	} {
		if got := clients(s.own, 0, want.skill, want.part); !slices.Equal(got, []string{want.name}) {
			t.Errorf("%s of %s was shown %q, want %q", want.part, want.skill, got, want.name)
		}
	}
	if len(c.Log.Lines("the client certificate was not presented", `"line":"trust b.example.test:`+port+`"`)) == 0 {
		t.Error("the operator is not told what to trust")
	}
	c.Stop()

	// Who is trusted is shown it.
	before := len(s.other.All())
	c = testbed.StartCaddy(t, s.identified(provider(s.own.URL(), "acme", "trust b.example.test:"+port)))
	for _, name := range []string{"acme.out", "acme.back"} {
		mustComplete(t, c.Execute(name, nil))
	}
	if got := clients(s.other, before, "acme/out", hostile.Invoke); !slices.Equal(got, []string{"the-bridge"}) {
		t.Errorf("a trusted host was shown %q", got)
	}
}

// S48: a registry has no certificate for the skills that it lists: they are run in the
// bridge's name only as those of a provider that lists them itself.
func TestS48ClientCertificateOfRegistry(t *testing.T) {
	s := newStage(t)
	s.own.Publish(hostile.Skill{ID: "acme/listed"}, hostile.Skill{ID: "acme/file", Unlisted: true})
	list := hostile.NewTLSProvider(t, s.ca, hostile.Valid, hostile.Skill{ID: "own/skill"},
		hostile.Skill{ID: "acme/listed", DescriptorURL: s.own.URLOf("acme/listed", hostile.Descriptor)},
		hostile.Skill{ID: "acme/file", DescriptorURL: s.own.URLOf("acme/file", hostile.Descriptor)}).As("localhost")
	registry := "registry " + list.URLOf("", hostile.Registry) + " {\n\t\t\tnamespace all\n\t\t}"
	s.names.Set("localhost", hostile.Addresses("127.0.0.1"))
	run := func(lines ...string) {
		t.Helper()
		c := testbed.StartCaddy(t, s.identified(append(lines, registry)...))
		for _, name := range []string{"all.acme.listed", "all.acme.file", "all.own.skill"} {
			mustComplete(t, c.Execute(name, nil))
		}
		c.Stop()
	}
	run(provider(s.own.URL(), "owner"))
	if listed, file, own := clients(s.own, 0, "acme/listed", hostile.Invoke), clients(s.own, 0, "acme/file", hostile.Invoke), clients(list, 0, "own/skill", hostile.Invoke); !slices.Equal(listed, []string{"the-bridge"}) || !slices.Equal(file, []string{""}) || !slices.Equal(own, []string{""}) {
		t.Errorf("listed: %q, not listed: %q, the registry's own: %q", listed, file, own)
	}
	if got := clients(list, 0, "", hostile.Registry); !slices.Equal(got, []string{"the-bridge"}) {
		t.Errorf("the registry was shown %q", got)
	}
	// A provider that is down keeps nobody from what needs no credential.
	before := len(s.own.All())
	s.own.On("", hostile.Index, hostile.Respond(http.StatusInternalServerError, ""))
	run(provider(s.own.URL(), "owner"))
	if got := clients(s.own, before, "acme/listed", hostile.Invoke); !slices.Equal(got, []string{""}) {
		t.Errorf("without an index: %q", got)
	}
}

// S49: who can put a file on a provider's host and have a registry list it gets the
// provider's key sent nowhere: the provider's own index has to list the skill, with the
// same descriptor, or the operator gives the skill credentials of its own.
func TestS49RegistryAndAnUploadedFile(t *testing.T) {
	own := inHouse(t)
	key := hostile.APIKey("X-API-Key")
	own.Publish(
		hostile.Skill{ID: "acme/listed", Auth: key},
		hostile.Skill{ID: "acme/upload", Auth: key, Unlisted: true, Endpoint: own.URL() + "/admin/users", Edit: func(d hostile.Object) { d["endpoint"].(hostile.Object)["method"] = "DELETE" }},
		hostile.Skill{ID: "acme/open", Unlisted: true},
		// The index lists the id, but another descriptor.
		hostile.Skill{ID: "acme/other", Auth: key, DescriptorURL: own.URLOf("acme/other", hostile.Descriptor) + "?v=2"},
	)
	list := hostile.NewProvider(t)
	for _, id := range []string{"acme/listed", "acme/upload", "acme/open", "acme/other"} {
		list.Publish(hostile.Skill{ID: id, DescriptorURL: own.URLOf(id, hostile.Descriptor)})
	}
	registry := "registry " + newRegistry(t, list).URL + " {\n\t\t\tnamespace all\n\t\t}"
	start := func(lines ...string) *testbed.Caddy {
		lines = append(lines, "allow_networks 127.0.0.0/8", "allow_anonymous", provider(own.URL(), "own", "credentials api_key a-secret-key"), registry)
		return testbed.StartCaddy(t, bridge(lines...))
	}
	c := start()
	c.Log.MustNotShow("a-secret-key")
	mustComplete(t, c.Execute("all.acme.listed", nil))
	mustComplete(t, c.Execute("all.acme.open", nil))
	for _, name := range []string{"all.acme.upload", "all.acme.other"} {
		mustBeKept(t, c.Execute(name, nil), house)
	}
	if n := len(own.Received("a-secret-key")); n != 1 {
		t.Errorf("the key was sent %d times", n)
	}
	if len(c.Log.Lines("a credential was not sent", "skill <name> <descriptor-url>", "acme/upload")) == 0 {
		t.Error("the operator is not told what to trust")
	}
	// While the index can't be read, what needs no credential goes on, and the rest may be tried again.
	own.On("", hostile.Index, hostile.Respond(http.StatusServiceUnavailable, ""))
	mustComplete(t, c.Execute("all.acme.open", nil))
	if a := c.Execute("all.acme.listed", nil); a.Outcome() != "ENDPOINT_UNREACHABLE" || a.Data.Executed != "no" || a.Data.Next != "retry" {
		t.Errorf("without an index: %v", a)
	}
	own.On("", hostile.Index)
	mustComplete(t, c.Execute("all.acme.listed", nil))
	c.Stop()
	c = start("skill other " + own.URLOf("acme/other", hostile.Descriptor) + " {\n\t\t\tcredentials api_key a-secret-key\n\t\t}")
	mustComplete(t, c.Execute("other", nil))
	mustBeKept(t, c.Execute("all.acme.other", nil), house)
	if n := len(own.Received("a-secret-key")); n != 3 {
		t.Errorf("with a skill that has the key, it was sent %d times in all", n)
	}
}

// S49: a descriptor is JSON by its media type, so that no upload of another kind can
// be one, also where a host serves it without any type.
func TestS49MediaTypeOfDescriptors(t *testing.T) {
	p := inHouse(t, hostile.Skill{ID: "acme/x", Auth: hostile.APIKey("X-API-Key")})
	c := testbed.StartCaddy(t, bridge("allow_networks "+house, "allow_anonymous", provider(p.URL(), "acme", "credentials api_key a-secret-key"),
		"skill direct "+p.URLOf("acme/x", hostile.Descriptor)+" {\n\t\t\tcredentials api_key a-secret-key\n\t\t}"))
	served := func(mediaType string) hostile.Action {
		return func(x *hostile.Exchange) {
			x.Writer = asType{x.Writer, mediaType}
			hostile.Usual()(x)
		}
	}
	for mediaType, fine := range map[string]bool{
		"application/json": true, "application/json; charset=utf-8": true, "application/vnd.skill+json": true,
		"image/png": false, "text/plain": false, "text/html": false, "application/octet-stream": false, "application/javascript": false, "": false, "json": false,
	} {
		p.On("acme/x", hostile.Descriptor, served(mediaType))
		for _, name := range []string{"acme.x", "direct"} {
			a := c.Execute(name, nil)
			if fine {
				mustComplete(t, a)
			} else if a.Outcome() != "VALIDATION_ERROR" || a.Code != -32055 || a.Data.Phase != "descriptor" || p.Posts(a.Call) != 0 {
				t.Errorf("%q: %v", mediaType, a)
			}
		}
	}
}

// asType answers with another media type; empty: none.
type asType struct {
	http.ResponseWriter
	mediaType string
}

func (w asType) WriteHeader(status int) {
	w.Header()["Content-Type"] = nil // nothing is guessed
	if w.mediaType != "" {
		w.Header().Set("Content-Type", w.mediaType)
	}
	w.ResponseWriter.WriteHeader(status)
}
