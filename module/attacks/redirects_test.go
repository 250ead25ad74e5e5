package attacks_test

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// redirects are all statuses with which an answer can lead elsewhere.
var redirects = []int{300, 301, 302, 303, 304, 305, 307, 308}

// follows reports whether a document may redirect with a status at all.
func follows(status int) bool {
	return status != 300 && status != 304 && status != 305
}

// documents are the parts of a provider that may redirect, if it is to a good place.
var documents = []place{{"", hostile.Index}, {"acme/x", hostile.Descriptor}}

// place is a part of a skill.
type place struct {
	skill string
	part  hostile.Part
}

// S4: a redirect of a document leads no further than three hops, and never to an
// address that is not public, from https to http, or to something that is not
// HTTP. (Two hops to other public hosts are fine: only what secrets may go there
// depends on the host.)
func TestS04RedirectsOfDocuments(t *testing.T) {
	canary := hostile.NewCanaryAt(t, ":0")
	names := hostile.NewNameServer(t)
	p := inHouse(t, hostile.Skill{ID: "acme/x"})
	names.Set("other.example.test", hostile.Addresses(house))
	names.Set("private.example.test", hostile.Addresses("127.0.0.1"))
	c := testbed.StartCaddy(t, bridge("allow_networks "+house, "allow_ports "+canary.Port(), names.Transport(), provider(p.URL(), "acme")))
	other, tries := "http://other.example.test:"+p.Port(), 0
	for _, d := range documents {
		proper := "/" + string(d.part) + "/acme%2Fx"
		if d.part == hostile.Index {
			proper = "/.well-known/skill-sharing"
		}
		// The hops on the way: the last one is repeated, as far as the bridge goes.
		for _, chain := range []struct {
			outcome string
			hops    []string
		}{
			{"completed", []string{proper + "?1"}},
			{"completed", []string{other + proper, p.URL() + proper, other + proper}},
			{"INVALID_PROVIDER_RESPONSE", []string{proper + "?1", proper + "?2", proper + "?3", proper + "?4"}},
			{"refused", []string{"http://127.0.0.1:" + canary.Port() + "/"}},
			{"refused", []string{other + proper, "http://127.0.0.1:" + canary.Port() + "/"}},
			{"refused", []string{other + proper, p.URL() + proper, "http://private.example.test:" + canary.Port() + "/"}},
			{"refused", []string{"//127.0.0.1:" + canary.Port() + "/"}},
			{"refused", []string{"//[::1]:" + canary.Port() + "/"}},
			{"refused", []string{"https://127.0.0.1:" + canary.Port() + "/"}},
			{"INVALID_PROVIDER_RESPONSE", []string{"file:///etc/hostname"}},
			{"INVALID_PROVIDER_RESPONSE", []string{"FILE:/etc/hostname"}},
			{"INVALID_PROVIDER_RESPONSE", []string{"gopher://127.0.0.1:" + canary.Port() + "/_x"}},
			{"INVALID_PROVIDER_RESPONSE", []string{"ftp://127.0.0.1:" + canary.Port() + "/"}},
			{"INVALID_PROVIDER_RESPONSE", []string{"data:application/json,{}"}},
			{"INVALID_PROVIDER_RESPONSE", []string{"javascript:alert(1)"}},
			{"INVALID_PROVIDER_RESPONSE", []string{"http:///nowhere"}},
			{"INVALID_PROVIDER_RESPONSE", []string{"http://user:password@" + strings.TrimPrefix(other, "http://") + proper}},
			{"INVALID_PROVIDER_RESPONSE", []string{"http://skills.example.com%00.127.0.0.1/"}},
		} {
			for _, status := range redirects {
				if !follows(status) {
					continue
				}
				tries++
				query := "?" + strconv.Itoa(tries) // a URL of another host that brought no document is left alone for a while
				p.Script(d.skill, d.part, func(n int) hostile.Action {
					if n > len(chain.hops) {
						return hostile.Usual()
					}
					target := chain.hops[n-1]
					if strings.HasPrefix(target, other) {
						target += query
					}
					return hostile.Redirect(status, target)
				})
				switch a := c.Execute("acme.x", nil); chain.outcome {
				case "refused":
					mustBeRefused(t, a)
				default:
					if a.Outcome() != chain.outcome {
						t.Errorf("%s, %d to %q: %v", d.part, status, chain.hops, a)
					}
				}
			}
		}
		for _, status := range redirects {
			if follows(status) {
				continue
			}
			p.On(d.skill, d.part, hostile.Redirect(status, "http://127.0.0.1:"+canary.Port()+"/"))
			if a := c.Execute("acme.x", nil); a.Outcome() == "completed" || a.Outcome() == "ENDPOINT_UNREACHABLE" {
				t.Errorf("%s, %d: %v", d.part, status, a)
			}
		}
		p.On(d.skill, d.part)
	}
}

// S4: no document is fetched without TLS on the way from one with it.
func TestS04RedirectsFromTLS(t *testing.T) {
	ca := hostile.NewCA(t)
	names := hostile.NewNameServer(t)
	names.Set("skills.example.test", hostile.Addresses("127.0.0.1"))
	p := hostile.NewTLSProvider(t, ca, hostile.Valid, hostile.Skill{ID: "acme/x"}).As("skills.example.test")
	plain := hostile.NewProvider(t, hostile.Skill{ID: "acme/x"}).As("skills.example.test")
	c := testbed.StartCaddy(t, bridge("allow_networks 127.0.0.1", "allow_ports "+plain.Port(),
		names.Transport("tls_trust_pool file "+ca.File()), provider(p.URL(), "acme")))
	mustComplete(t, c.Execute("acme.x", nil))
	for _, d := range documents {
		p.On(d.skill, d.part, hostile.Redirect(http.StatusFound, plain.URLOf(d.skill, d.part)))
		if a := c.Execute("acme.x", nil); a.Outcome() != "INVALID_PROVIDER_RESPONSE" {
			t.Errorf("%s: %v", d.part, a)
		}
		p.On(d.skill, d.part)
	}
	if n := plain.Connections(); n > 0 {
		t.Errorf("%d connections without TLS", n)
	}
}

// S4: the body of a redirect is read no further than that of any answer.
func TestS04EndlessRedirect(t *testing.T) {
	p := inHouse(t, hostile.Skill{ID: "acme/x"})
	c := testbed.StartCaddy(t, bridge("allow_networks "+house, "max_response_size 64KiB", "limits {\n\t\t\tdocument_size 16KiB\n\t\t}", provider(p.URL(), "acme")))
	endless := func(x *hostile.Exchange) {
		x.Writer.Header().Set("Location", p.URL()+"/elsewhere")
		x.Writer.WriteHeader(http.StatusFound)
		hostile.EndlessBody()(x)
	}
	for _, d := range append(documents[:2:2], place{"acme/x", hostile.Invoke}) {
		p.On(d.skill, d.part, endless)
		if a := c.Execute("acme.x", nil); a.Outcome() != "INVALID_PROVIDER_RESPONSE" || !strings.Contains(a.Message, "larger than") {
			t.Errorf("%s: %v", d.part, a)
		}
		for _, r := range p.Requests(d.skill, d.part) {
			if sent := r.Sent(); sent > 32<<20 {
				t.Errorf("%s: %d bytes were taken", d.part, sent)
			}
		}
		p.On(d.skill, d.part)
	}
}

// S4 and S6: invocations, polls, results and token requests follow no redirect at
// all, wherever it leads. Nothing of them reaches the other host: no key, no
// token, no client secret, no refresh token, no cookie, no input. Nor does any
// cookie come back to the host that set it.
func TestS06RedirectedInvocations(t *testing.T) {
	other := hostile.NewProvider(t, hostile.Skill{ID: "acme/key"}, hostile.Skill{ID: "acme/oauth"})
	canary := hostile.NewCanary(t)
	key := inHouse(t, hostile.Skill{ID: "acme/key", Auth: hostile.APIKey("X-API-Key")})
	oauth := inHouse(t)
	refresh := inHouse(t)
	for _, p := range []*hostile.Provider{oauth, refresh} {
		p.Publish(hostile.Skill{ID: "acme/oauth", Auth: hostile.OAuth2(p.TokenURL())})
	}
	secrets := []string{"a-secret-key", "a-client-secret", "a-refresh-token", hostile.IssuedToken, "a-secret-input"}
	other.MustNotReceive(secrets...)
	c := testbed.StartCaddy(t, bridge(
		"allow_networks 127.0.0.0/8", "allow_ports "+other.Port()+" "+canary.Port(), "allow_anonymous",
		provider(key.URL(), "key", "credentials api_key a-secret-key"),
		provider(oauth.URL(), "oauth", "credentials oauth2 {", "client_id bridge", "client_secret a-client-secret", "}"),
		provider(refresh.URL(), "refresh", "credentials oauth2 {", "client_id bridge", "client_secret a-client-secret", "refresh_token a-refresh-token", "}"),
	))
	for _, way := range []struct {
		provider  *hostile.Provider
		namespace string
		skill     string
	}{{key, "key", "acme/key"}, {oauth, "oauth", "acme/oauth"}, {refresh, "refresh", "acme/oauth"}} {
		p, name := way.provider, way.namespace+"."+strings.ReplaceAll(way.skill, "/", ".")
		parts := []hostile.Part{hostile.Token, hostile.Invoke, hostile.Status, hostile.Result}
		if way.namespace == "key" {
			parts = parts[1:]
		}
		for _, part := range parts {
			for i, status := range redirects {
				for nth, target := range []string{
					other.URLOf(way.skill, part), "http://" + canary.Address() + "/", "//" + canary.Address() + "/",
					p.URLOf(way.skill, part) + "?again",
				} {
					if nth != i%4 && !longtest.Runs(longtest.Long) { // one target for each status
						continue
					}
					skill := way.skill
					if part == hostile.Token {
						skill = ""
					}
					p.On(way.skill, hostile.Invoke, hostile.AcceptForResult(0))
					p.On(skill, part, func(x *hostile.Exchange) {
						http.SetCookie(x.Writer, &http.Cookie{Name: "session", Value: "a-cookie", Path: "/"})
						hostile.Redirect(status, target)(x)
					})
					before := p.Count(skill, part)
					a := c.Execute(name, hostile.Object{"text": "a-secret-input"})
					want := "INVALID_PROVIDER_RESPONSE"
					if part == hostile.Token {
						want = "AUTH_REQUIRED"
					}
					if a.Outcome() != want || p.Posts(a.Call) > 1 {
						t.Errorf("%s, %s, %d to %s: %d invocations, %v", name, part, status, target, p.Posts(a.Call), a)
					}
					if n := p.Count(skill, part) - before; part == hostile.Token && n > 1 || part != hostile.Token && n != 1 {
						t.Errorf("%s, %s, %d to %s: asked %d times", name, part, status, target, n)
					}
					p.On(skill, part)
				}
			}
		}
		p.On(way.skill, hostile.Invoke)
		mustComplete(t, c.Execute(name, nil))
		for _, r := range p.All() {
			if r.Header["Cookie"] != nil {
				t.Errorf("%s %s has a cookie", r.Method, r.Target)
			}
		}
	}
	if n := other.Connections(); n > 0 {
		t.Errorf("%d connections to the other host", n)
	}
}

// S6: a document may be redirected to another host, but what reads it there
// carries no credential, and neither does anything else go there.
func TestS06RedirectedDocuments(t *testing.T) {
	other := hostile.NewProvider(t, hostile.Skill{ID: "acme/x"}, hostile.Skill{ID: "acme/key", Auth: hostile.APIKey("X-API-Key")})
	p := inHouse(t, hostile.Skill{ID: "acme/x"}, hostile.Skill{ID: "acme/key", Auth: hostile.APIKey("X-API-Key")})
	other.MustNotReceive("a-secret-key", "a-discovery-key", "a-cookie", "a-secret-input")
	other.Publish(
		hostile.Skill{ID: "acme/x", DescriptorURL: other.URLOf("acme/x", hostile.Descriptor)},
		hostile.Skill{
			ID: "acme/key", Auth: hostile.APIKey("X-API-Key"), Endpoint: p.URLOf("acme/key", hostile.Invoke),
			StatusURL: p.URLOf("acme/key", hostile.Status), ResultURL: p.URLOf("acme/key", hostile.Result),
		},
	)
	c := testbed.StartCaddy(t, bridge(
		"allow_networks 127.0.0.0/8", "allow_ports "+other.Port(), "allow_anonymous",
		provider(p.URL(), "acme", "credentials api_key a-secret-key", "discovery_credentials api_key a-discovery-key"),
	))
	for _, status := range redirects {
		if !follows(status) {
			continue
		}
		for _, d := range documents {
			skill := d.skill
			if skill != "" {
				skill = "acme/key"
			}
			p.On(skill, d.part, func(x *hostile.Exchange) {
				http.SetCookie(x.Writer, &http.Cookie{Name: "session", Value: "a-cookie", Path: "/"})
				hostile.Redirect(status, other.URLOf(skill, d.part))(x)
			})
			a := c.Execute("acme.key", hostile.Object{"text": "a-secret-input"})
			mustBeKept(t, a, net.JoinHostPort("127.0.0.1", other.Port()))
			p.On(skill, d.part)
		}
	}
	if other.Count("", hostile.Index) == 0 || other.Count("acme/key", hostile.Descriptor) == 0 {
		t.Error("the redirects were not followed: nothing was shown")
	}
	if n := other.Count("acme/key", hostile.Invoke) + other.Count("acme/key", hostile.Status); n > 0 {
		t.Errorf("%d requests of a run at the other host", n)
	}
	if len(p.Received("a-discovery-key")) == 0 {
		t.Error("the provider itself did not get its key")
	}
	for _, r := range p.All() {
		if r.Header["Cookie"] != nil {
			t.Errorf("%s %s has a cookie", r.Method, r.Target)
		}
	}
	if len(c.Log.Lines(fmt.Sprintf(`"line":"trust 127.0.0.1:%s"`, other.Port()))) == 0 {
		t.Error("the operator is not told what to trust")
	}
}
