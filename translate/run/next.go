package run

// Next says what an agent should do about a failure.
type Next string

// What an agent can do next.
const (
	NextRetry        Next = "retry"        // send the same request later: nothing was executed
	NextFixParams    Next = "fix_params"   // correct the request
	NextAuthenticate Next = "authenticate" // authenticate to the bridge
	NextAskOperator  Next = "ask_operator" // ask the bridge's operator for a change
	NextFollowRun    Next = "follow_run"   // follow the run, which exists; do not start another
	NextOtherSkill   Next = "other_skill"  // use another skill
	NextNone         Next = "none"         // nothing is known to help
)

// Next says what an agent should do about the failure.
func (f *Failure) Next() Next {
	switch {
	case f.Lost, f.Kind == RunFailed:
		return NextNone
	case f.Executed != ExecutedYes:
		return f.remedy()
	}
	if next := f.remedy(); f.beforeRequest() && next != NextNone {
		return next // it has to be done before the run can be followed
	}
	return NextFollowRun
}

// beforeRequest reports whether the call failed before it sent a request to the endpoint.
func (f *Failure) beforeRequest() bool {
	return f.Phase == PhaseDiscovery || f.Phase == PhaseDescriptor || f.Phase == PhaseAuth
}

// remedy returns the next step for the cause of the failure. It ignores whether a run exists.
func (f *Failure) remedy() Next {
	switch {
	case f.Refused != "":
		return NextAskOperator
	case f.Demand != nil && f.Demand.CallerActs:
		return NextAuthenticate
	case f.Gone():
		return NextOtherSkill
	}
	switch f.Kind {
	case Internal:
		if f.Executed == ExecutedNo && f.Retry != nil {
			return NextRetry
		}
	case InvalidArguments, SkillNotFound:
		if f.Argument == nil || f.Argument.Reason != Unsupported {
			return NextFixParams
		}
	case AuthRequired, PermissionDenied:
		return NextAskOperator
	case VersionIncompatible, InvalidDocument:
		return NextOtherSkill
	case DeadlineExceeded, Unreachable, RateLimited, Stopped, CallerGone:
		if f.Executed == ExecutedNo {
			return NextRetry
		}
	case ProviderFault:
		if f.Executed == ExecutedNo || f.beforeRequest() {
			return NextOtherSkill
		}
	}
	return NextNone
}
