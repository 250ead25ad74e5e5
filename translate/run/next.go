package run

// Next says what an agent should do about a failure.
type Next string

// What an agent can do next.
const (
	NextRetry        Next = "retry"        // the same again, later: nothing was executed
	NextFixParams    Next = "fix_params"   // correct the request
	NextAuthenticate Next = "authenticate" // prove who is asking to the bridge
	NextAskOperator  Next = "ask_operator" // only the bridge's operator can change it
	NextFollowRun    Next = "follow_run"   // the run exists: ask for its end, do not start another
	NextOtherSkill   Next = "other_skill"  // this skill can't be used
	NextNone         Next = "none"         // nothing that helps is known
)

// Next says what an agent should do about the failure.
func (f *Failure) Next() Next {
	switch {
	case f.Lost, f.Kind == RunFailed:
		return NextNone
	case f.Executed != ExecutedYes:
		return f.remedy()
	}
	if next := f.remedy(); f.unasked() && next != NextNone {
		return next // has to be done first
	}
	return NextFollowRun
}

// unasked reports whether the endpoint was not asked anything, about a run neither.
func (f *Failure) unasked() bool {
	return f.Phase == PhaseDiscovery || f.Phase == PhaseDescriptor || f.Phase == PhaseAuth
}

// remedy says what helps against the cause of the failure.
func (f *Failure) remedy() Next {
	switch {
	case f.Refused != "":
		return NextAskOperator
	case f.Demand != nil && f.Demand.OfCaller:
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
	case DeadlineExceeded, Unreachable, RateLimited, Stopped, ClientGone:
		if f.Executed == ExecutedNo {
			return NextRetry
		}
	case ProviderFault:
		if f.Executed == ExecutedNo || f.unasked() {
			return NextOtherSkill
		}
	}
	return NextNone
}
