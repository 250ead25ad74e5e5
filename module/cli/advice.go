package cli

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// operatorAdvice returns the advice about a failure of a bridge in this process that another caller of it would not get, with commands and
// flags. known is false if there is none.
func (e *Endpoint) operatorAdvice(f *run.Failure) (advice string, known bool) {
	switch next := f.Next(); {
	case f.Kind == run.AuthRequired, f.Kind == run.PermissionDenied:
		advice = e.credentialAdvice(f)
		if f.ExecutionID != "" {
			advice += "; then follow the run: " + e.command("follow", f.SkillID, f.ExecutionID)
		}
	case f.Refused != "":
		advice = Permit(f, func(option string) string { return "--" + strings.ReplaceAll(option, "_", "-") })
	case f.Lost && (f.HTTPStatus == http.StatusNotFound || f.HTTPStatus == http.StatusGone):
		advice = "check the execution id and the skill: the provider does not know such a run, or has deleted it. Only the provider can say how the run ended"
	case f.Lost:
		advice = "the run was accepted, so do not start another: ask the provider how it ended"
	case next == run.NextFollowRun && f.ExecutionID != "":
		advice = "the run exists, do not start another; follow it: " + e.command("follow", f.SkillID, f.ExecutionID)
	case next == run.NextRetry && document.IsDocument(f.Phase) && (f.Timeout > 0 || f.Kind == run.DeadlineExceeded):
		advice = "try again later: nothing was executed. The time for reading documents is fixed, as it is for the bridge"
	case errors.Is(f.Cause, syscall.ECONNREFUSED) && next == run.NextRetry:
		advice = "check the host and the port: no program listens there; or try again later: nothing was executed"
	case next == run.NextRetry:
		advice = "try again later: nothing was executed"
	case next == run.NextOtherSkill, f.WrongOrigin():
		advice = e.unusableAdvice(f)
	default:
		return "", next == run.NextAskOperator || next == run.NextFollowRun // it is the user of the command whom another caller would ask
	}
	return advice, true
}

// unusableAdvice returns the advice about a skill that can't be used until its provider corrects it.
func (e *Endpoint) unusableAdvice(f *run.Failure) string {
	switch {
	case f.Kind == run.VersionIncompatible:
		return "the skill follows another version of the protocol than this program: use a newer build of Skill Bridge, or another skill"
	case f.URL == e.URL && (f.HTTPStatus == http.StatusNotFound || f.HTTPStatus == http.StatusGone):
		return "check the URL: there is no such document"
	case f.Phase == run.PhaseDiscovery:
		return "check that this is the origin of a provider of skills, and its port; if it is, its index has to be corrected there"
	case f.Phase == run.PhaseDescriptor && f.Gone():
		return "the index names a descriptor that does not exist; its provider must correct that. Other skills: " + e.command("list")
	case f.Phase == run.PhaseDescriptor:
		return "this skill can't be used until its provider corrects its descriptor"
	case f.Gone():
		return "the provider no longer runs this skill; list the others: " + e.command("list")
	}
	return "nothing was executed; tell the provider that its answer is invalid"
}

// Permit says how an operator permits a refused request. written returns an option of the Caddyfile with its value as it has to be written.
func Permit(f *run.Failure, written func(option string) string) string {
	refused, err := url.Parse(f.URL)
	if err != nil {
		refused = new(url.URL)
	}
	switch f.Refused {
	case run.RulePlainHTTP, run.RuleNotTLS:
		return "to allow plain HTTP, write http:// in the URL, and add " + written("allow_http")
	case run.RuleNoSuchHost:
		return "check the host name"
	case run.RuleCertificate:
		return "ask the provider to correct that; if the issuer is one of yours, name the file with its certificate in the variable SSL_CERT_FILE, or in a Caddyfile: " +
			"transport http { tls_trust_pool file <file> }"
	case run.RuleAddress:
		return "to allow this address, add " + written("allow_networks") + " " + network(refused.Hostname())
	case run.RulePort:
		return "to allow this port, add " + written("allow_ports") + " " + cmp.Or(refused.Port(), "<port>")
	case run.RuleCredential:
		return "configure token_url, or use a provider with https://"
	}
	return "tell the provider"
}

// network returns the value of allow_networks for a host, or a placeholder if its address is unknown.
func network(host string) string {
	if _, err := netip.ParseAddr(host); err == nil {
		return host
	}
	if host == "localhost" {
		return "127.0.0.1,::1"
	}
	return "<its network, such as 10.1.2.0/24>"
}

// oauthFlags are the flags for tokens.
const oauthFlags = "--oauth-client-id ID --oauth-secret-env NAME"

// credentialAdvice returns the advice about a missing, refused or insufficient credential.
func (e *Endpoint) credentialAdvice(f *run.Failure) string {
	keyed, token := e.Provider.Credentials != "", e.Provider.Credentials == "--oauth-client-id"
	key, authType := "--api-key-env NAME", ""
	if document.IsDocument(f.Phase) {
		key += " --private"
	}
	if f.Demand != nil {
		authType = f.Demand.Type
	}
	denied := e.Provider.trustAdvice()
	switch forbidden := f.Kind == run.PermissionDenied; {
	case denied != "" && !forbidden:
		return denied
	case document.IsDocument(f.Phase) && keyed && !e.Provider.Private:
		return "add --private, which sends the credentials for documents, too"
	case forbidden && !keyed:
		return "if you have a key that may use the skill, add " + key + "; otherwise only the provider can allow it"
	case forbidden && token:
		return "ask the provider to allow it for this client, or add the scopes that the skill needs: --oauth-scopes"
	case forbidden:
		return "ask the provider to allow it for this key, or name another key with --api-key-env"
	case authType == string(document.AuthNone):
		return "tell the provider: its descriptor must say which authentication the skill needs"
	case authType == string(document.AuthOAuth2) && !token:
		return "this skill needs an OAuth token: " + oauthFlags
	case authType == string(document.AuthAPIKey) && token:
		return "this skill needs an API key: --api-key-env NAME instead of " + oauthFlags
	case authType != "" && authType != string(document.AuthAPIKey) && authType != string(document.AuthOAuth2):
		return "this skill needs " + authType + ", for which you need a Caddyfile with `credentials`"
	case !keyed:
		return "name the environment variable that has the API key: " + key
	case token:
		return "check the client's id, the secret in the variable that --oauth-secret-env names, and --oauth-token-url, or try --oauth-auth-style params (header is the default)"
	}
	return "check the key in the variable that --api-key-env names, and --api-key-header and --api-key-prefix"
}

// Principal is the caller of a bridge in the process of a command: its user, who may see private skills.
const Principal = "local"

// Provider is what an [Endpoint] in this process knows beyond its answers: the user of the command is the operator of the bridge, too, and gets
// the failures of calls as an operator does, with advice about flags.
type Provider struct {
	// Credentials is the flag of the credentials: --api-key-env or --oauth-client-id; empty: there are none.
	Credentials string
	Private     bool // requests for documents carry them, too
	// ReadAll reads the descriptors of all skills, so that their states are known.
	ReadAll func(ctx context.Context)
	// Unread returns why the skills of the provider can't be listed; nil: they can.
	Unread func(ctx context.Context) *run.Failure
	// Token returns the run token of a run of a skill.
	Token func(ctx context.Context, skill, executionID string) (string, *run.Failure)

	mu      sync.Mutex
	failure *run.Failure     // of the newest call
	denied  *exchange.Notice // the newest of a credential that was not sent to a host, which failures do not name, because agents read them
}

// Called takes the outcome of a call of the bridge.
func (p *Provider) Called(r *run.Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failure = r.Failure
}

// Noticed takes a notice for the operator.
func (p *Provider) Noticed(n *exchange.Notice) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n.SecretDenied {
		p.denied = n
	}
}

// take returns the failure of the newest call, once.
func (p *Provider) take() *run.Failure {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.failure
	p.failure = nil
	return f
}

// trustAdvice names the flag that lets a host receive the credential; empty: every host received it.
func (p *Provider) trustAdvice() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.denied == nil {
		return ""
	}
	attrs := map[string]string{}
	for _, a := range p.denied.Attrs {
		attrs[a.Key] = a.Value.String()
	}
	advice := "the key was not sent to " + attrs["host"]
	option, host, permits := strings.Cut(attrs["line"], " ") // of a Caddyfile
	if !permits {
		return advice + ", which does not use TLS: tell the provider"
	}
	return advice + ", which is not the provider's own host; to send it there, add --" + option + " " + quote(host)
}
