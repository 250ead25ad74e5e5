package cli

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// wholeError is a failure for machines. What is not known is left out.
type wholeError struct {
	Code       skillsharing.ErrorCode `json:"code,omitzero"`
	Message    string                 `json:"message"`
	Phase      run.Phase              `json:"phase,omitzero"`
	Source     run.Party              `json:"source,omitzero"`
	HTTPStatus int                    `json:"http_status,omitzero"`
	Executed   run.Executed           `json:"executed,omitzero"`
	Next       run.Next               `json:"next,omitzero"`
	Details    jsontext.Value         `json:"details,omitzero"`
	Retry      jsontext.Value         `json:"retry,omitzero"`
	URL        string                 `json:"url,omitzero"`
}

func newWholeError(e *run.Failure, next run.Next) *wholeError {
	return &wholeError{skillsharing.CodeOf(e), plain(e.Message), e.Phase, e.By, e.HTTPStatus, e.Executed, next, detailsOf(e), skillsprotocol.Retry(e), e.URL}
}

// failedOutcome is what a command writes for machines if it has no other result.
type failedOutcome struct {
	Error *wholeError `json:"error"`
}

// emptyDocument is what the judgement of a document says of an empty one.
const emptyDocument = "is not JSON: unexpected EOF"

// plain is a message of the bridge for a terminal. It leaves out the advice to ask the
// operator of the bridge: at a terminal the operator reads it.
func plain(message string) string {
	message = strings.Replace(message, `must not be empty, not ""`, "must not be empty", 1)
	if before, found := strings.CutSuffix(message, "the document "+emptyDocument); found {
		return before + "the answer is empty"
	}
	if i := strings.LastIndex(message, ". Ask the operator of the bridge"); i >= 0 {
		return message[:i+1]
	}
	if i := strings.LastIndex(message, ": ask the operator of the bridge"); i >= 0 {
		return message[:i] + ".)"
	}
	return message
}

// explain writes what failed, and what to do about it where there is something.
func (p *Provider) explain(e *run.Failure, next string) {
	p.Screen.Complain("%s", plain(e.Message))
	about := string(skillsharing.CodeOf(e))
	if e.HTTPStatus != 0 {
		about += fmt.Sprintf(", HTTP %d", e.HTTPStatus)
	}
	fmt.Fprintf(p.Screen.Err, "       (%s, phase %s, executed: %s)\n", printable(about), e.Phase, e.Executed)
	if e.URL != "" {
		fmt.Fprintln(p.Screen.Err, "       at "+printable(e.URL))
	}
	if e.Kind == run.InvalidDocument {
		fmt.Fprint(p.Screen.Err, faultLines(Faults(e)))
	}
	if next != "" {
		p.Screen.Advise(next)
	}
}

// next says what to do about a failure, with commands and flags. It never advises to call
// a skill again that may have been executed.
func (p *Provider) next(f *run.Failure) string {
	e := f
	switch {
	case f.Kind == run.AuthRequired:
		return p.thenFollow(e, p.credentialAdvice(e))
	case f.Kind == run.PermissionDenied:
		return p.thenFollow(e, p.permissionAdvice(e))
	case e.Refused != "":
		return widening(e)
	case e.Lost:
		return lostAdvice(e)
	}
	switch f.Next() {
	case run.NextFixParams:
		if f.Kind == run.SkillNotFound {
			return "see which skills there are: " + p.command("list")
		}
		return "see what the skill takes: " + p.command("describe", e.SkillID)
	case run.NextFollowRun:
		if e.ExecutionID != "" {
			return "the run exists, do not start another; follow it: " + p.command("follow", e.SkillID, e.ExecutionID)
		}
	case run.NextRetry:
		return retryAdvice(e)
	case run.NextOtherSkill:
		return p.unusableAdvice(e)
	}
	if e.Executed == run.ExecutedMaybe {
		return "it is not known whether the skill was executed: find that out before you call it again, which may execute it twice"
	}
	return ""
}

// thenFollow completes advice about a run that has been accepted.
func (p *Provider) thenFollow(e *run.Failure, advice string) string {
	if e.ExecutionID == "" {
		return advice
	}
	return advice + "; then follow the run: " + p.command("follow", e.SkillID, e.ExecutionID)
}

// unusableAdvice is about skills that can't be used until their providers correct them.
func (p *Provider) unusableAdvice(e *run.Failure) string {
	switch {
	case e.Kind == run.VersionIncompatible:
		return "the skill follows another version of the protocol than this program: use a newer build of Skill Bridge, or another skill"
	case e.Phase == run.PhaseDiscovery:
		return "check that this is the origin of a provider of skills, and its port; if it is, its index has to be corrected there"
	case e.Phase == run.PhaseDescriptor && e.Gone():
		return "the index names a descriptor that is not there, which its provider has to correct; other skills: " + p.command("list")
	case e.Phase == run.PhaseDescriptor:
		return "this skill can't be used until its provider has corrected its descriptor"
	case e.Gone():
		return "the provider does not run this skill any more; see which others there are: " + p.command("list")
	}
	return "nothing was executed; tell the provider, whose answer is at fault"
}

// retryAdvice is about failures before anything was executed that may pass.
func retryAdvice(e *run.Failure) string {
	if isDocument(e) && (e.Timeout > 0 || e.Kind == run.DeadlineExceeded) {
		return "try again later: nothing was executed. No flag makes it wait longer for documents, since the bridge does not, either"
	}
	if errors.Is(e.Cause, syscall.ECONNREFUSED) {
		return "check the host and the port, on which no program listens, or try again later: nothing was executed"
	}
	return "try again later: nothing was executed"
}

// lostAdvice is about a run that can't be followed to its end.
func lostAdvice(e *run.Failure) string {
	if e.HTTPStatus == http.StatusNotFound || e.HTTPStatus == http.StatusGone {
		return "check the execution id and the skill: the provider does not know such a run, or no longer. Only the provider can say how the run ended"
	}
	return "the run was accepted, so do not start another: ask the provider how it ended"
}

// Unreadable writes why a document could not be read, and what would help. It returns the
// exit status.
func (p *Provider) Unreadable(e *run.Failure, waited time.Duration, asJSON bool) int {
	failure := *e // which may be shared
	if e.Kind == run.DeadlineExceeded {
		failure.Message = unread(waited)
	}
	p.Screen.Complain("%s", plain(failure.Message))
	if failure.URL != "" {
		fmt.Fprintln(p.Screen.Err, "       at "+printable(failure.URL))
	}
	if next := p.unreadAdvice(&failure); next != "" {
		p.Screen.Advise(next)
	}
	if asJSON {
		p.Screen.JSON(failedOutcome{newWholeError(&failure, "")})
	}
	return ProtocolError
}

func (p *Provider) unreadAdvice(e *run.Failure) string {
	switch {
	case e.Refused != "":
		return widening(e)
	case e.Gone():
		return "check the URL: there is no such document"
	case e.Kind == run.AuthRequired:
		return p.credentialAdvice(e)
	case e.Kind == run.PermissionDenied:
		return p.permissionAdvice(e)
	case e.Kind == run.Unreachable, e.Expired(), e.Kind == run.RateLimited:
		return strings.TrimSuffix(retryAdvice(e), ": nothing was executed")
	}
	return ""
}

// widening names the flag that would permit what was refused.
func widening(e *run.Failure) string {
	refused, err := url.Parse(e.URL)
	if err != nil {
		refused = new(url.URL)
	}
	switch e.Refused {
	case run.RulePlainHTTP:
		return "if that is meant, add --allow-http"
	case run.RuleNoSuchHost:
		return "check the host name"
	case run.RuleAddress:
		return "if this address may be called, add --allow-networks " + network(refused)
	case run.RulePort:
		if port := refused.Port(); port != "" {
			return "if this port may be called, add --allow-ports " + port
		}
	}
	return ""
}

// network is the smallest network that a host is in, where its URL shows that.
func network(u *url.URL) string {
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return u.Hostname()
	}
	if u.Hostname() == "localhost" {
		return "127.0.0.1,::1"
	}
	return "<its network, such as 10.1.2.0/24>"
}

// isDocument reports whether an error is about reading an index or a descriptor.
func isDocument(e *run.Failure) bool {
	return e.Phase == run.PhaseDiscovery || e.Phase == run.PhaseDescriptor
}

func (p *Provider) credentialAdvice(e *run.Failure) string {
	wanted, denied := "", p.Denied.advice()
	if e.Demand != nil {
		wanted = e.Demand.Type
	}
	switch {
	case denied != "":
		return denied
	case wanted != "" && wanted != string(skillsharing.AuthAPIKey) && wanted != string(skillsharing.AuthNone):
		return "this skill needs " + wanted + ", which takes a Caddyfile with `credentials`"
	case wanted == string(skillsharing.AuthNone):
		return "tell the provider: its descriptor has to say which authentication the skill needs"
	case isDocument(e) && !p.Keyed:
		return "name the environment variable that has the API key, and send it for documents: --api-key-env NAME --private"
	case isDocument(e) && !p.Private:
		return "add --private, which sends the key for documents, too"
	case !p.Keyed:
		return "name the environment variable that has the API key: --api-key-env NAME"
	default:
		return "check the key in the variable that --api-key-env names, and --api-key-header"
	}
}

// permissionAdvice is about a provider that accepts the key, or needs none, and refuses.
func (p *Provider) permissionAdvice(e *run.Failure) string {
	switch {
	case isDocument(e) && p.Keyed && !p.Private:
		return "add --private, which sends the key for documents, too"
	case !p.Keyed && isDocument(e):
		return "if there is a key that opens it, add --api-key-env NAME --private"
	case !p.Keyed:
		return "if there is a key that may use the skill, add --api-key-env NAME; else only the provider can permit it"
	}
	return "ask the provider to permit it to this key, or name another key with --api-key-env"
}
