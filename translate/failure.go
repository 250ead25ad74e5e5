package translate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// kinds maps what the Skill Sharing Protocol calls an error to what it means
// for a call. It is the only such table.
var kinds = map[skillsharing.ErrorCode]Kind{
	skillsharing.ValidationError:         InvalidArguments,
	skillsharing.AuthRequired:            AuthRequired,
	skillsharing.PermissionDenied:        PermissionDenied,
	skillsharing.SkillNotFound:           SkillNotFound,
	skillsharing.InvocationTimeout:       TimedOut,
	skillsharing.EndpointUnreachable:     Unreachable,
	skillsharing.VersionIncompatible:     VersionIncompatible,
	skillsharing.InvalidProviderResponse: ProviderFault,
	skillsharing.RateLimited:             RateLimited,
}

// failed makes the Failure of an Error.
func failed(e *skillsharing.Error) *Failure {
	kind, ok := kinds[e.Code]
	if !ok {
		kind = Internal
	}
	switch {
	case kind == InvalidArguments && e.Hint == skillsharing.HintDocument:
		kind = InvalidDocument
	case e.Hint == skillsharing.HintStopping:
		kind = Stopped
	}
	next := nextStep(kind, e)
	if next == NextRetry && e.Retry.Kind() != '{' { // the refusal does not say when
		own := *e // it may be shared
		own.Retry = skillsharing.SuggestRetry(2*time.Second, 3)
		e = &own
	}
	return &Failure{Kind: kind, Next: next, Err: e}
}

// concernsSkill reports whether a failure to read a descriptor says anything about the
// skill: that there was no time, or no place, does not.
func (f *Failure) concernsSkill() bool {
	switch f.Kind {
	case TimedOut, Stopped:
		return false
	case RateLimited:
		return f.Err.Source == skillsharing.SourceProvider
	}
	return true
}

// aboutRun makes a failure to find a skill one to follow a run of it. What the
// caller or the operator has to do first stays.
func aboutRun(f *Failure, executionID string) *Failure {
	e := *f.Err // it may be shared
	if f.Kind == SkillNotFound {
		return failed(&skillsharing.Error{
			Code: skillsharing.InvalidProviderResponse, Phase: e.Phase, Source: skillsharing.SourceBridge, SkillID: e.SkillID,
			Message:     "The run can't be followed: its skill is not offered any more.",
			ExecutionID: executionID, Executed: skillsharing.ExecutedYes, Hint: skillsharing.HintRunLost,
		})
	}
	e.ExecutionID, e.Executed = executionID, skillsharing.ExecutedYes
	about := &Failure{Kind: f.Kind, Next: f.Next, Err: &e}
	if f.Next == NextRetry || f.Next == NextFixParams || f.Next == NextNone {
		about.Next = NextFollowRun
	}
	return about
}

// withoutTimeout is the failure of a call that only asked how a run is:
// that there was no time to find out says nothing about the run.
func withoutTimeout(ctx context.Context, f *Failure, executionID string) *Failure {
	if f == nil || f.Kind != TimedOut || f.Err.Source != skillsharing.SourceBridge || !errors.Is(ctx.Err(), context.DeadlineExceeded) && ctx.Err() != nil {
		return f
	}
	return failed(&skillsharing.Error{
		Code: skillsharing.EndpointUnreachable, Phase: f.Err.Phase, Source: skillsharing.SourceBridge, SkillID: f.Err.SkillID, URL: f.Err.URL,
		Message: "How the run is could not be learned in time; it may still be going on.",
		Details: jsontext.Value(`{"reason":"it did not answer in time"}`), Retry: f.Err.Retry,
		ExecutionID: executionID, Executed: skillsharing.ExecutedYes, Cause: f.Err.Cause,
	})
}

// nextStep says what an agent should do about an error.
func nextStep(kind Kind, e *skillsharing.Error) Next {
	switch {
	case e.Hint == skillsharing.HintRunLost:
		return NextNone
	case e.Executed == skillsharing.ExecutedYes:
		return NextFollowRun
	case e.Hint == skillsharing.HintRefused:
		return NextAskOperator
	case e.Hint == skillsharing.HintAnonymous:
		return NextAuthenticate
	case e.Hint == skillsharing.HintGone:
		return NextOtherSkill
	}
	switch kind {
	case InvalidArguments:
		return NextFixParams
	case SkillNotFound:
		if e.Source == skillsharing.SourceProvider {
			return NextOtherSkill
		}
		return NextFixParams
	case AuthRequired, PermissionDenied:
		return NextAskOperator
	case VersionIncompatible, InvalidDocument:
		return NextOtherSkill
	case TimedOut, Unreachable, RateLimited, Stopped:
		if e.Executed == skillsharing.ExecutedNo {
			return NextRetry
		}
	case ProviderFault:
		if e.Executed == skillsharing.ExecutedNo {
			return NextOtherSkill
		}
	}
	return NextNone
}

// runFailed is the Failure of a run whose bad end the provider reported.
func runFailed(e *skillsharing.Error) *Failure {
	return &Failure{Kind: RunFailed, Next: NextNone, Err: e}
}

// notFound is the Failure of a name that means nothing here.
func notFound(name string, candidates []string, unread []string) *Failure {
	name = shorten(name)
	message := fmt.Sprintf("Invalid params: skill '%s' not found.", name)
	if len(candidates) > 0 {
		message += fmt.Sprintf(" Did you mean %s?", enumerate(candidates))
	}
	if len(unread) > 0 {
		message += fmt.Sprintf(" (Not searched, because they can't be read right now: %s.)", enumerate(unread))
	}
	f := failed(&skillsharing.Error{
		Code: skillsharing.SkillNotFound, Message: message, Phase: skillsharing.PhaseDiscovery, Source: skillsharing.SourceBridge,
		Executed: skillsharing.ExecutedNo, Details: notFoundDetails(name, candidates),
		Arguments: &skillsharing.ArgumentError{Param: "name", Reason: "not_found"},
	})
	f.NoneNear = len(candidates) == 0
	return f
}

func notFoundDetails(name string, candidates []string) jsontext.Value {
	b := append([]byte(nil), `{"skill_id":`...)
	b = appendString(b, name)
	if len(candidates) > 0 {
		b = append(b, `,"candidates":[`...)
		for i, c := range candidates {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, c)
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

func appendString(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // the only error is bad UTF-8, which is replaced
	return b
}

// ambiguous is the Failure of an id that is no name because there are several sources.
func ambiguous(name string, candidates []string) *Failure {
	name = shorten(name)
	return &Failure{Kind: InvalidArguments, Next: NextFixParams, Err: &skillsharing.Error{
		Message: fmt.Sprintf("Invalid params: '%s' does not say which skill is meant; say %s.", name, enumerate(candidates)),
		Phase:   skillsharing.PhaseDiscovery, Source: skillsharing.SourceBridge, Executed: skillsharing.ExecutedNo,
		Arguments: &skillsharing.ArgumentError{Param: "name", Reason: "ambiguous", Candidates: candidates},
	}}
}

// otherVersion is the error of a version that the provider does not offer.
func otherVersion(s *skillsharing.Skill, wanted string) *skillsharing.Error {
	return &skillsharing.Error{
		Code: skillsharing.SkillNotFound, Phase: skillsharing.PhaseDescriptor, Source: skillsharing.SourceBridge, SkillID: s.ID,
		Message:   fmt.Sprintf("Invalid params: skill '%s' has version %s, not %s; leave version out to use it.", s.ID, s.Version, wanted),
		Executed:  skillsharing.ExecutedNo,
		Details:   append(appendString([]byte(`{"skill_id":`), s.ID), '}'),
		Arguments: &skillsharing.ArgumentError{Param: "version", Reason: "not_found"},
	}
}

// anonymous is the Failure of a caller who has not proved who he is to a source
// that wants to know.
func anonymous() *Failure {
	return failed(&skillsharing.Error{
		Code: skillsharing.AuthRequired, Phase: skillsharing.PhaseAuth, Source: skillsharing.SourceBridge,
		Executed: skillsharing.ExecutedNo, Hint: skillsharing.HintAnonymous,
		Message: "This bridge lets authenticated callers only use this provider: authenticate the HTTP request as its operator has told you.",
		Details: jsontext.Value(`{"required_by":"bridge","reason":"the request names no principal"}`),
	})
}

// busy is the Failure of a call for which there is no place.
func busy(limit string, most int64) *Failure {
	return failed(&skillsharing.Error{
		Code: skillsharing.RateLimited, Phase: skillsharing.PhaseDiscovery, Source: skillsharing.SourceBridge, Executed: skillsharing.ExecutedNo,
		Message: fmt.Sprintf("Too many calls are in progress here (limits %s: %d); try again later.", strings.ReplaceAll(limit, "_", " "), most),
		Details: fmt.Appendf(nil, `{"limit":%q,"max":%d}`, limit, most),
		Retry:   skillsharing.SuggestRetry(time.Second, 5),
	})
}

// slowDiscovery is the error of a source whose documents took too long, though the
// call itself still had time. The reading fails at about the same time, which is
// remembered for a while.
func slowDiscovery(e *skillsharing.Error, remembered time.Duration) *skillsharing.Error {
	return &skillsharing.Error{
		Code: skillsharing.EndpointUnreachable, Phase: e.Phase, Source: skillsharing.SourceBridge, Executed: skillsharing.ExecutedNo,
		Message: fmt.Sprintf("The provider's documents could not be read within %s.", discoveryTimeout),
		Details: jsontext.Value(`{"reason":"it did not answer in time"}`), URL: e.URL,
		Retry: skillsharing.SuggestRetry(max(2*time.Second, remembered+time.Second), 3),
	}
}

// addTimeout completes the error of a passed deadline with what the deadline was.
func addTimeout(e *skillsharing.Error, timeout time.Duration) {
	if e.Code != skillsharing.InvocationTimeout || e.Source != skillsharing.SourceBridge || e.Details != nil || !errors.Is(e.Cause, context.DeadlineExceeded) {
		return
	}
	after := fmt.Sprintf("time was up after %d ms.", timeout.Milliseconds())
	switch {
	case e.Executed == skillsharing.ExecutedYes:
		e.Message = "The skill had not finished when its " + after + " The run may still be going on: ask for its end before you start another one."
	case e.Phase == skillsharing.PhaseDiscovery || e.Phase == skillsharing.PhaseDescriptor:
		e.Message = strings.TrimSuffix(e.Message, ".") + ": " + after
	default:
		e.Message = "The provider had not accepted the run when its " + after
	}
	details := fmt.Appendf(nil, `{"timeout_ms":%d`, timeout.Milliseconds())
	if e.ExecutionID != "" {
		details = appendString(append(details, `,"execution_id":`...), e.ExecutionID)
	}
	e.Details = append(details, '}')
}

// maxQuotedName is how much of a name that means nothing is repeated, in bytes.
const maxQuotedName = 200

func shorten(name string) string {
	if len(name) <= maxQuotedName {
		return name
	}
	return strings.ToValidUTF8(name[:maxQuotedName], "") + "…"
}

// enumerate makes a list for a sentence: 'a', 'b' or 'c'.
func enumerate(names []string) string {
	list := "'" + strings.Join(names, "', '") + "'"
	if i := strings.LastIndex(list, "', '"); i >= 0 {
		list = list[:i] + "' or '" + list[i+len("', '"):]
	}
	return list
}
