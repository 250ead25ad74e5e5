package cli

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// next says what to do about a failure, with commands and flags. It never advises to call
// a skill again that may have been executed.
func (p *Provider) next(f *run.Failure) string {
	switch {
	case f.Kind == run.AuthRequired, f.Kind == run.PermissionDenied:
		advice := p.credentialAdvice(f)
		if f.ExecutionID != "" {
			advice += "; then follow the run: " + p.command("follow", f.SkillID, f.ExecutionID)
		}
		return advice
	case f.Refused != "":
		return widening(f)
	case f.Lost && (f.HTTPStatus == http.StatusNotFound || f.HTTPStatus == http.StatusGone):
		return "check the execution id and the skill: the provider does not know such a run, or no longer. Only the provider can say how the run ended"
	case f.Lost:
		return "the run was accepted, so do not start another: ask the provider how it ended"
	}
	switch next := f.Next(); {
	case next == run.NextFixParams && f.Kind == run.SkillNotFound:
		return "see which skills there are: " + p.command("list")
	case next == run.NextFixParams:
		return "see what the skill takes: " + p.command("describe", f.SkillID)
	case next == run.NextFollowRun && f.ExecutionID != "":
		return "the run exists, do not start another; follow it: " + p.command("follow", f.SkillID, f.ExecutionID)
	case next == run.NextRetry && isDocument(f) && (f.Timeout > 0 || f.Kind == run.DeadlineExceeded):
		return lateDocument
	case next == run.NextRetry:
		return retryAdvice(f) + ": nothing was executed"
	case next == run.NextOtherSkill:
		return p.unusableAdvice(f)
	case f.Executed == run.ExecutedMaybe:
		return "it is not known whether the skill was executed: find that out before you call it again, which may execute it twice"
	}
	return ""
}

// unusableAdvice is about skills that can't be used until their providers correct them.
func (p *Provider) unusableAdvice(f *run.Failure) string {
	switch {
	case f.Kind == run.VersionIncompatible:
		return "the skill follows another version of the protocol than this program: use a newer build of Skill Bridge, or another skill"
	case f.Phase == run.PhaseDiscovery:
		return "check that this is the origin of a provider of skills, and its port; if it is, its index has to be corrected there"
	case f.Phase == run.PhaseDescriptor && f.Gone():
		return "the index names a descriptor that is not there, which its provider has to correct; other skills: " + p.command("list")
	case f.Phase == run.PhaseDescriptor:
		return "this skill can't be used until its provider has corrected its descriptor"
	case f.Gone():
		return "the provider does not run this skill any more; see which others there are: " + p.command("list")
	}
	return "nothing was executed; tell the provider, whose answer is at fault"
}

const lateDocument = "try again later: nothing was executed. No flag makes it wait longer for documents, since the bridge does not, either"

// retryAdvice is about failures that may pass.
func retryAdvice(f *run.Failure) string {
	if errors.Is(f.Cause, syscall.ECONNREFUSED) {
		return "check the host and the port, on which no program listens, or try again later"
	}
	return "try again later"
}

// unreadAdvice says what to do if a document can't be read that is to be validated.
func (p *Provider) unreadAdvice(f *run.Failure) string {
	switch {
	case f.Refused != "":
		return widening(f)
	case f.Gone():
		return "check the URL: there is no such document"
	case f.Kind == run.AuthRequired, f.Kind == run.PermissionDenied:
		return p.credentialAdvice(f)
	case f.Kind == run.DeadlineExceeded:
		return lateDocument
	case f.Kind == run.Unreachable, f.Expired(), f.Kind == run.RateLimited:
		return retryAdvice(f)
	}
	return ""
}

// widening names the flag that would permit a request.
func widening(f *run.Failure) string {
	refused, err := url.Parse(f.URL)
	if err != nil {
		refused = new(url.URL)
	}
	switch f.Refused {
	case run.RulePlainHTTP:
		return "if that is meant, add --allow-http"
	case run.RuleNoSuchHost:
		return "check the host name"
	case run.RuleAddress:
		return "if this address may be called, add --allow-networks " + network(refused.Hostname())
	case run.RulePort:
		if port := refused.Port(); port != "" {
			return "if this port may be called, add --allow-ports " + port
		}
	}
	return ""
}

// network is the smallest network that a host is in, if its name shows that.
func network(host string) string {
	if _, err := netip.ParseAddr(host); err == nil {
		return host
	}
	if host == "localhost" {
		return "127.0.0.1,::1"
	}
	return "<its network, such as 10.1.2.0/24>"
}

// credentialAdvice is about a provider that demands a credential, or refuses the one that
// it got, or all.
func (p *Provider) credentialAdvice(f *run.Failure) string {
	const private = "add --private, which sends the key for documents, too"
	ofDocument, wanted, denied := isDocument(f), "", p.Denied.advice()
	if f.Demand != nil {
		wanted = f.Demand.Type
	}
	if f.Kind == run.PermissionDenied {
		switch {
		case ofDocument && p.Keyed && !p.Private:
			return private
		case ofDocument && !p.Keyed:
			return "if there is a key that opens it, add --api-key-env NAME --private"
		case !p.Keyed:
			return "if there is a key that may use the skill, add --api-key-env NAME; else only the provider can permit it"
		}
		return "ask the provider to permit it to this key, or name another key with --api-key-env"
	}
	switch {
	case denied != "":
		return denied
	case wanted == string(document.AuthNone):
		return "tell the provider: its descriptor has to say which authentication the skill needs"
	case wanted != "" && wanted != string(document.AuthAPIKey):
		return "this skill needs " + wanted + ", which takes a Caddyfile with `credentials`"
	case ofDocument && !p.Keyed:
		return "name the environment variable that has the API key, and send it for documents: --api-key-env NAME --private"
	case ofDocument && !p.Private:
		return private
	case !p.Keyed:
		return "name the environment variable that has the API key: --api-key-env NAME"
	}
	return "check the key in the variable that --api-key-env names, and --api-key-header"
}
