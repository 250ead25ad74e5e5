package observe

import (
	"cmp"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// Outcomes of calls in logs, metrics and traces.
const (
	outcomeCompleted = "completed"
	outcomeRunning   = "running"
	// outcomeAnonymous is the outcome of a call without a required principal.
	outcomeAnonymous = "unauthenticated"
	// outcomeAsked is the outcome of a call whose agent was asked for further inputs.
	outcomeAsked = "input_required"
	// outcomeOverQuota is the outcome of a call that a quota of its caller refused.
	outcomeOverQuota = "over_quota"
)

// asksForRun reports whether a call executes or follows a run: others describe skills or list them, or read or change a task.
func asksForRun(s *translate.Statistics) bool {
	switch s.Operation {
	case translate.OperationDescribe, translate.OperationList, translate.OperationTask, translate.OperationNone:
		return false
	}
	return true
}

// operationOf returns the operation of a call for logs; empty: it is not known.
func operationOf(s *translate.Statistics) string {
	if s.Operation == translate.OperationNone {
		return ""
	}
	return string(s.Operation)
}

// methodOf returns the method of a call for metrics and traces, which need one. Without one, it is that of the fronts for methods that do not exist.
func methodOf(c *translate.Call) string { return cmp.Or(c.Method, "unknown") }

// asks reports whether a call is no failure, since its agent was asked for further inputs.
func asks(o *run.Run) bool { return o.Failure != nil && o.Failure.Asks() }

// overQuota reports whether a quota of the caller refused the call. The operator need not act.
func overQuota(f *run.Failure) bool { return f != nil && f.Limit != nil && f.Limit.Own }

// limitOf returns the name of the limit that a call exceeded; empty: it exceeded none.
func limitOf(f *run.Failure) string {
	if f == nil || f.Limit == nil {
		return ""
	}
	return f.Limit.Name
}

// taskOf returns the id of the task of a call that has ended; empty: it has none.
func taskOf(c *translate.Call) string {
	if c.Task == nil {
		return ""
	}
	return safetext.Field(c.Task(), MaxLogged)
}

// outcomeOf returns the outcome of a call. A call about a run that has neither a
// run nor a failure was ended by a panic.
func outcomeOf(o *run.Run, s *translate.Statistics) string {
	switch {
	case o.Failure == nil && !asksForRun(s):
		return outcomeCompleted
	case asks(o):
		return outcomeAsked
	case overQuota(o.Failure):
		return outcomeOverQuota
	case o.Failure != nil && o.Failure.Next() == run.NextAuthenticate:
		return outcomeAnonymous
	case o.Failure != nil:
		return o.Failure.Kind.String()
	case o.State == 0:
		return run.Internal.String()
	case o.State.Ended():
		return outcomeCompleted
	}
	return outcomeRunning
}
