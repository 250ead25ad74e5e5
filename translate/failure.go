package translate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
)

// concernsSkill reports whether a failure to read a descriptor says anything about the
// skill: that there was no time, or no place, does not.
func concernsSkill(f *run.Failure) bool {
	switch f.Kind {
	case run.DeadlineExceeded, run.Stopped:
		return false
	case run.RateLimited:
		return f.By == run.Provider
	}
	return true
}

// aboutRun makes a failure to find a skill one to follow a run of it.
func aboutRun(f *run.Failure, executionID string) *run.Failure {
	if f.Kind == run.SkillNotFound {
		return &run.Failure{
			Kind: run.ProviderFault, Phase: f.Phase, By: run.Bridge, SkillID: f.SkillID,
			Message:     "The run can't be followed: its skill is not offered any more.",
			ExecutionID: executionID, Executed: run.ExecutedYes, Lost: true,
		}
	}
	about := *f // it may be shared
	about.Retry = f.Again()
	about.ExecutionID, about.Executed = executionID, run.ExecutedYes
	return &about
}

// withoutTimeout is the failure of a call that only asked how a run is:
// that there was no time to find out says nothing about the run.
func withoutTimeout(ctx context.Context, f *run.Failure, executionID string) *run.Failure {
	if f == nil || f.Kind != run.DeadlineExceeded || f.By != run.Bridge || !errors.Is(ctx.Err(), context.DeadlineExceeded) && ctx.Err() != nil {
		return f
	}
	return &run.Failure{
		Kind: run.Unreachable, Phase: f.Phase, By: run.Bridge, SkillID: f.SkillID, URL: f.URL,
		Message: "How the run is could not be learned in time; it may still be going on.",
		Reach:   &run.Reach{Reason: "it did not answer in time"}, Retry: f.Retry,
		ExecutionID: executionID, Executed: run.ExecutedYes, Cause: f.Cause,
	}
}

// notFound is the failure of a name that means nothing here.
func notFound(name string, candidates []string, unread []string) *run.Failure {
	name = shorten(name)
	message := fmt.Sprintf("skill '%s' not found.", name)
	if len(candidates) > 0 {
		message += fmt.Sprintf(" Did you mean %s?", enumerate(candidates))
	}
	if len(unread) > 0 {
		message += fmt.Sprintf(" (Not searched, because they can't be read right now: %s.)", enumerate(unread))
	}
	return &run.Failure{
		Kind: run.SkillNotFound, Message: message, Phase: run.PhaseDiscovery, By: run.Bridge,
		Executed: run.ExecutedNo, Argument: &run.Argument{Field: run.FieldSkill, Reason: run.NotFound, Value: name, Candidates: candidates},
	}
}

// ambiguous is the failure of an id that is no name because there are several sources.
func ambiguous(name string, candidates []string) *run.Failure {
	name = shorten(name)
	return &run.Failure{
		Kind: run.InvalidArguments, Message: fmt.Sprintf("'%s' does not say which skill is meant; say %s.", name, enumerate(candidates)),
		Phase: run.PhaseDiscovery, By: run.Bridge, Executed: run.ExecutedNo,
		Argument: &run.Argument{Field: run.FieldSkill, Reason: run.Ambiguous, Candidates: candidates},
	}
}

// otherVersion is the error of a version that the provider does not offer.
func otherVersion(s *discovery.Skill, wanted string) *run.Failure {
	return &run.Failure{
		Kind: run.SkillNotFound, Phase: run.PhaseDescriptor, By: run.Bridge, SkillID: s.ID,
		Message:  fmt.Sprintf("skill '%s' has version %s, not %s.", s.ID, s.Version, wanted),
		Executed: run.ExecutedNo,
		Argument: &run.Argument{Field: run.FieldVersion, Reason: run.NotFound},
	}
}

// anonymous is the failure of a caller who has not proved who he is to a source
// that wants to know.
func anonymous() *run.Failure {
	return &run.Failure{
		Kind: run.AuthRequired, Phase: run.PhaseAuth, By: run.Bridge, Executed: run.ExecutedNo, Demand: run.NoPrincipal(),
		Message: "This bridge lets authenticated callers only use this provider: authenticate the HTTP request as its operator has told you.",
	}
}

// busy is the failure of a call for which there is no place.
func busy(limit string, most int64) *run.Failure {
	return &run.Failure{
		Kind: run.RateLimited, Phase: run.PhaseDiscovery, By: run.Bridge, Executed: run.ExecutedNo,
		Message: fmt.Sprintf("Too many calls are in progress here (limits %s: %d); try again later.", strings.ReplaceAll(limit, "_", " "), most),
		Limit:   &run.Limit{Name: limit, Max: most},
		Retry:   run.Again(time.Second, 5),
	}
}

// slowDiscovery is the error of a source whose documents took too long, though the
// call itself still had time. The reading fails at about the same time, which is
// remembered for a while.
func slowDiscovery(e *run.Failure, remembered time.Duration) *run.Failure {
	return &run.Failure{
		Kind: run.Unreachable, Phase: e.Phase, By: run.Bridge, Executed: run.ExecutedNo,
		Message: fmt.Sprintf("The provider's documents could not be read within %s.", discoveryTimeout),
		Reach:   &run.Reach{Reason: "it did not answer in time"}, Timeout: discoveryTimeout, URL: e.URL,
		Retry: run.Again(max(2*time.Second, remembered+time.Second), 3),
	}
}

// addTimeout completes the error of a passed deadline with what the deadline was.
func addTimeout(e *run.Failure, timeout time.Duration) {
	if e.Kind != run.DeadlineExceeded || e.By != run.Bridge || !errors.Is(e.Cause, context.DeadlineExceeded) {
		return
	}
	after := fmt.Sprintf("time was up after %d ms.", timeout.Milliseconds())
	switch {
	case e.Executed == run.ExecutedYes:
		e.Message = "The skill had not finished when its " + after + " The run may still be going on: ask for its end before you start another one."
	case e.Phase == run.PhaseDiscovery || e.Phase == run.PhaseDescriptor:
		e.Message = strings.TrimSuffix(e.Message, ".") + ": " + after
	default:
		e.Message = "The provider had not accepted the run when its " + after
	}
	e.Timeout = timeout
}

// maxQuotedName is how much of a name that means nothing is repeated, in bytes.
const maxQuotedName = 200

func shorten(name string) string { return safetext.Clip(name, maxQuotedName) }

// enumerate makes a list for a sentence: 'a', 'b' or 'c'.
func enumerate(names []string) string {
	list := "'" + strings.Join(names, "', '") + "'"
	if i := strings.LastIndex(list, "', '"); i >= 0 {
		list = list[:i] + "' or '" + list[i+len("', '"):]
	}
	return list
}
