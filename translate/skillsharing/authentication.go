package skillsharing

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// judgeURLs checks URLs of a skill before the invocation, because a run
// that can't be followed must not be started.
func (c *Client) judgeURLs(ctx context.Context, s *discovery.Skill, urls []*url.URL) *run.Failure {
	for _, u := range urls {
		if e := c.judgeURL(ctx, s, u); e != nil {
			return e
		}
	}
	return nil
}

// judgeURL returns why the client may not send a request for a skill to a URL; nil: it may.
func (c *Client) judgeURL(ctx context.Context, s *discovery.Skill, u *url.URL) *run.Failure {
	if e := c.Permitted(ctx, u, run.PhaseInvoke); e != nil {
		return e
	}
	if !s.NeedsCredential() {
		return nil
	}
	e, notice := c.denial(s, u)
	if notice != nil {
		c.Observer.Notice(ctx, notice)
	}
	return e
}

// WithoutCredential returns the failure of a call for which the bridge has no usable
// credential; nil: no such failure is known without a request. It reports nothing to the
// observer, since there is no call.
func (c *Client) WithoutCredential(s *discovery.Skill) *run.Failure {
	if !s.NeedsCredential() {
		return nil
	}
	for _, u := range s.URLs {
		if e, _ := c.denial(s, u); e != nil {
			return c.finish(s, e)
		}
	}
	return nil
}

// denial returns why the configured credential must not be sent to u for the skill
// s, and a notice for the log; nil: it may be sent.
func (c *Client) denial(s *discovery.Skill, u *url.URL) (*run.Failure, *exchange.Notice) {
	if c.Credentials == nil {
		return missingCredential(s, "no credentials are configured for its provider"), nil
	}
	if !c.Credentials.Supports(&s.Auth) {
		return missingCredential(s, "the configured credentials are of another type"), nil
	}
	if u := s.Stranger(c.AllowedHosts); u != nil {
		reason := "the descriptor comes from a host that may not receive the provider's credentials"
		if u != s.URL {
			reason = "a host that may not receive the provider's credentials redirected to the descriptor"
		}
		return c.Untrusted(&s.Auth, u, reason)
	}
	if !c.AllowedHosts.Includes(u) {
		return c.Untrusted(&s.Auth, u, "the descriptor names a host that may not receive the provider's credentials")
	}
	return nil, nil
}

// Unlisted returns the failure of a registry's skill that must not use the credentials
// of the client's provider, although they may be sent to its hosts. Without this rule,
// everyone who can put a file on such a host, and make a registry list it, could use
// the credentials. The notice is for the log.
func (c *Client) Unlisted(s *discovery.Skill, registry string) (*run.Failure, *exchange.Notice) {
	const reason = "a registry lists the skill, but the index of the provider that hosts it does not"
	e := run.NeedsCredential(exchange.DemandOf(&s.Auth, run.Bridge, reason), "The skill needs a credential that may not be sent: "+reason+".")
	e.Advice = run.AskOperator + ": the log names the setting."
	e.Demand.Withheld, e.SkillID = true, s.ID
	return e, &exchange.Notice{
		Level: slog.LevelWarn, Source: c.Source, SecretDenied: true,
		Message: "a credential was not sent: " + reason + "; if you trust the skill with it, add skill <name> <descriptor-url> { credentials ... } beside the provider",
		Attrs: []slog.Attr{
			slog.String("registry", registry), slog.String("skill_id", s.ID), slog.String("host", s.InvokeURL.Host),
		},
	}
}

// missingCredential returns the failure of a skill that needs a credential which is not
// configured.
func missingCredential(s *discovery.Skill, reason string) *run.Failure {
	e := run.NeedsCredential(exchange.DemandOf(&s.Auth, run.Provider, reason), fmt.Sprintf("Skill %s needs authentication (%s), and %s.", safetext.Clip(s.ID, 200), s.Auth.Type, reason))
	e.Advice = run.AskOperator + " to configure credentials for it."
	return e
}

// completeDemand adds the authentication in the descriptor to the failure for a
// provider's 401, so that an agent always learns what is missing, and what to do about a 401 or a 403.
func (c *Client) completeDemand(s *discovery.Skill, e *run.Failure) {
	if e.By != run.Provider || e.Kind != run.AuthRequired && e.Kind != run.PermissionDenied {
		return
	}
	if e.Demand == nil && e.Phase != run.PhaseAuth { // otherwise the credential has already said what to do
		c.explainRefusal(s, e)
	}
	if e.Kind == run.PermissionDenied {
		return
	}
	d := exchange.DemandOf(&s.Auth, run.Provider, "")
	if e.Demand != nil {
		*d = *e.Demand
	}
	d.By, d.FromProvider = run.Provider, true
	e.Demand = d
}

// askScopes makes a refusal for lack of scopes a request to the user who can consent to them.
func (c *Client) askScopes(ctx context.Context, s *discovery.Skill, e *run.Failure) {
	personal, ok := c.Credentials.(credential.Personal)
	if !ok || e.Kind != run.PermissionDenied || e.By != run.Provider || e.Demand != nil {
		return
	}
	var details struct {
		Scopes []string `json:"required_scopes"`
	}
	if json.Unmarshal(e.ProviderSaid().Details, &details) != nil || len(details.Scopes) == 0 {
		return
	}
	owner, _ := ctx.Value(credential.OwnerKey{}).(string)
	if missing := personal.Missing(ctx, owner, &s.Auth, details.Scopes, nil); missing != nil {
		e.Demand, e.Advice = missing.Demand, ""
	}
}

// Refusal returns what the first answer about a run says about the bridge's credential: the failure of a call with its HTTP status and the code
// of its error. nil: the provider has accepted the credential.
func Refusal(c *Client, s *discovery.Skill, r *document.Response) *run.Failure {
	kind := document.KindOfStatus(r.HTTPStatus)
	if r.Error != nil && kind != run.AuthRequired && document.Kinds[document.ErrorCode(r.Error.Code)] == run.AuthRequired {
		kind = run.PermissionDenied // perhaps of what the skill itself uses: it proves nothing
	}
	if kind != run.AuthRequired && kind != run.PermissionDenied {
		return nil
	}
	return c.finish(s, &run.Failure{
		Kind: kind, Phase: run.PhaseInvoke, By: run.Provider, HTTPStatus: r.HTTPStatus, Executed: run.ExecutedNo,
		Message: fmt.Sprintf("The provider answered HTTP %d.", r.HTTPStatus),
	})
}

// explainRefusal adds to the failure of a refused request an advice and, for a 401, whether the bridge had sent a credential. A provider
// may also answer a wrong key with 403.
func (c *Client) explainRefusal(s *discovery.Skill, e *run.Failure) {
	sends := s.NeedsCredential()
	if sends {
		e.Advice = credential.AdviceFor(c.Credentials)
	}
	if e.Message != "" && (e.Kind != run.PermissionDenied || e.Advice != "") && !strings.ContainsAny(e.Message[len(e.Message)-1:], ".!?") {
		e.Message += "." // the provider's sentence has no full stop, and another one follows
	}
	if e.Kind == run.PermissionDenied {
		return
	}
	sent := "The provider refused the bridge's credential."
	if !sends {
		sent, e.Advice = "The skill's descriptor asks for no authentication, so the bridge sent none.", run.AskOperator+" to tell the provider."
	}
	e.Message += " (" + sent + ")"
}

// renew replaces a credential that the provider has answered with 401. It
// reports whether to repeat the request.
func (c *Client) renew(ctx context.Context, s *discovery.Skill, rejected *http.Request, body []byte) (bool, *run.Failure) {
	r, ok := c.Credentials.(credential.Renewer)
	if !ok || !s.NeedsCredential() {
		return false, nil
	}
	renewed, err := r.Renew(ctx, c.Authentication(ctx, &s.Auth, rejected, body))
	return renewed, c.AuthError(ctx, &s.Auth, err)
}
