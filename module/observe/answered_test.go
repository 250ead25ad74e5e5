package observe

import (
	"net/http"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// TestRefusalsByProvidersAreExplained: the line of a call that a provider refuses says of
// which skill, what the provider answered and what to do, and nothing of its message.
func TestRefusalsByProvidersAreExplained(t *testing.T) {
	const said = "No weather for the secret city."
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/a"}, hostile.Skill{ID: "acme/b"}, hostile.Skill{ID: "acme/run"}, hostile.Skill{ID: "acme/gone"})
	c := testbed.StartCaddy(t, testbed.Bridge("circuit_breaker off", "provider "+p.URL()+" {", "namespace acme", "}"))
	c.Log.MustNotShow("secret city")
	const last = "; only the agent's answer has the provider's message"
	for _, tc := range []struct {
		skill  string
		answer hostile.Action
		level  string
		want   string
	}{
		{
			"a", hostile.Problem(http.StatusUnauthorized, "AUTH_REQUIRED", said), "warn",
			"the provider of acme/a answered the invocation with HTTP 401 Unauthorized (AUTH_REQUIRED): check the credentials of this source, or add some",
		},
		{
			"a", hostile.Problem(http.StatusForbidden, "PERMISSION_DENIED", said), "warn",
			"the provider of acme/a answered the invocation with HTTP 403 Forbidden (PERMISSION_DENIED): ask the provider to allow the credentials of this source to use the skill, or use others",
		},
		{"b", hostile.Problem(http.StatusForbidden, "PERMISSION_DENIED", said), "warn", "the provider of acme/b answered the invocation with HTTP 403"}, // not hidden by the other skill's
		{
			"a", hostile.Respond(http.StatusUnprocessableEntity, `{"reason":"`+said+`"}`), "info",
			"the provider of acme/a answered the invocation with HTTP 422 Unprocessable Entity (VALIDATION_ERROR): the agent must change its arguments",
		},
		{
			"a", hostile.Problem(http.StatusInternalServerError, said, said), "warn",
			"the provider of acme/a answered the invocation with HTTP 500 Internal Server Error (INVALID_PROVIDER_RESPONSE): if this continues, ask the provider",
		},
		{"a", hostile.Respond(599, said), "info", "the provider of acme/a answered the invocation with HTTP 599 (INVALID_PROVIDER_RESPONSE): if this continues, ask the provider"},
		{"a", hostile.Fail(said, said), "info", "the provider of acme/a reported that the run failed (EXECUTION_FAILED): the agent decides whether to repeat the call"},
	} {
		before := len(c.Log.Lines("call failed"))
		p.On("acme/"+tc.skill, hostile.Invoke, tc.answer)
		c.Execute("acme."+tc.skill, nil)
		lines := c.Log.Lines("call failed")[before:]
		if len(lines) != 1 || !strings.Contains(lines[0], `"level":"`+tc.level) || !strings.Contains(lines[0], `"error":"`+tc.want) || !strings.Contains(lines[0], last) {
			t.Errorf("%s: %s", tc.want, lines)
		}
	}
	p.On("acme/gone", hostile.Descriptor, hostile.Respond(http.StatusNotFound, `{"error":{"code":"SKILL_NOT_FOUND","message":"`+said+`"}}`))
	c.Execute("acme.gone", nil)
	if lines := c.Log.Lines(`"level":"warn"`, "the provider of acme/gone answered the request for the descriptor with HTTP 404 Not Found (SKILL_NOT_FOUND): there is no such document: check its URL, or ask the provider"); len(lines) != 1 {
		t.Errorf("%s", c.Log.Lines("acme/gone"))
	}
	p.On("acme/run", hostile.Invoke, hostile.Accept(5))
	p.On("acme/run", hostile.Status, hostile.Problem(http.StatusForbidden, "PERMISSION_DENIED", said))
	c.Execute("acme.run", nil)
	if lines := c.Log.Lines("the provider of acme/run answered the request for the status of the run with HTTP 403 Forbidden (PERMISSION_DENIED)"); len(lines) != 1 {
		t.Errorf("%s", c.Log.Lines("acme/run"))
	}
}

// TestRefusedCredentials: whatever the credential, the line of a call that is refused because of it says which options to check, as it does for
// a refused OAuth 2.0 secret.
func TestRefusedCredentials(t *testing.T) {
	for _, tc := range []struct {
		name        string
		auth        hostile.Object
		credentials string
		want        string
	}{
		{"api_key", hostile.APIKey("X-Key"), "api_key k-123456", "key, header and prefix of api_key"},
		{"headers", hostile.Object{"type": "custom", "custom": hostile.Object{"instructions": "Send X-Key.", "parameters": []any{}}}, "headers {\nX-Key k-123456\n}", "the values of headers"},
		{"hmac", hostile.Object{"type": "custom", "custom": hostile.Object{"instructions": "Sign.", "parameters": []any{}}}, "hmac {\nsecret k-123456\n}", "secret, signed and encoding of hmac"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := hostile.NewProvider(t, hostile.Skill{ID: "acme/a", Auth: tc.auth})
			closed := hostile.NewProvider(t)
			closed.On("", hostile.Index, hostile.Respond(http.StatusUnauthorized, ""))
			c := testbed.StartCaddy(t, testbed.Bridge("allow_anonymous", "provider "+p.URL()+" {", "namespace acme", "credentials "+tc.credentials, "}",
				"provider "+closed.URL()+" {", "namespace closed", "discovery_credentials "+tc.credentials, "}"))
			const only = " Only the agent's answer has the provider's message"
			advice := " Check " + tc.want + " for this provider."
			check := func(skill, what string) {
				t.Helper()
				if a := c.Execute(skill, nil); !strings.Contains(a.Message, " Ask the operator of the bridge to check "+tc.want+" for this provider.") {
					t.Errorf("the answer: %s", a)
				}
				if lines := c.Log.Lines("call failed", `"level":"warn"`, what+advice+only); len(lines) != 1 {
					t.Errorf("no line %q: %s", what+advice+only, c.Log.Lines("call failed"))
				}
			}
			for status, code := range map[int]string{http.StatusUnauthorized: "401 Unauthorized (AUTH_REQUIRED).", http.StatusForbidden: "403 Forbidden (PERMISSION_DENIED)."} {
				p.On("acme/a", hostile.Invoke, hostile.Respond(status, ""))
				check("acme.a", "answered the invocation with HTTP "+code)
			}
			check("closed.x", "answered the request for its index with HTTP 401 Unauthorized (AUTH_REQUIRED).")
		})
	}
}
