package run

import (
	"errors"
	"io/fs"
	"syscall"
)

// Next says what an agent should do about a failure.
type Next string

// What an agent can do next.
const (
	NextRetry        Next = "retry"        // send the same request later: nothing is executed twice
	NextFixParams    Next = "fix_params"   // correct the request
	NextAuthenticate Next = "authenticate" // authenticate to the bridge
	NextConnect      Next = "connect"      // have the user connect an account of their own, at a link
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
	case f.Retry != nil && f.Retry.Joins && f.Executed == ExecutedMaybe:
		return NextRetry
	case f.Executed != ExecutedYes:
		return f.remedy()
	}
	if next := f.remedy(); next == NextConnect || f.beforeRequest() && next != NextNone {
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
	case f.Demand != nil && f.Demand.ConnectURL != "":
		return NextConnect
	case f.Demand != nil && f.Demand.CallerActs:
		return NextAuthenticate
	case f.Gone():
		return NextOtherSkill
	case f.WrongOrigin():
		return NextAskOperator
	}
	switch f.Kind {
	case Internal:
		switch {
		case f.Executed != ExecutedNo || f.Retry == nil:
		case needsOperator(f.Cause):
			return NextAskOperator
		default:
			return NextRetry
		}
	case InvalidArguments, SkillNotFound:
		if f.Argument == nil || f.Argument.Reason != Unsupported {
			return NextFixParams
		}
	case AuthRequired, PermissionDenied:
		return NextAskOperator
	case VersionIncompatible, InvalidDocument, NotSupported:
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

// needsOperator reports whether a failure of the storage or the database does not end by itself: files may not be written, or there is no room for them.
func needsOperator(err error) bool {
	if u, ok := errors.AsType[interface {
		error
		NeedsOperator() bool
	}](err); ok {
		return u.NeedsOperator()
	}
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.ENOTDIR)
}

// StorageAdvice says what a caller can do after a failure of the storage.
func StorageAdvice(err error) string {
	if needsOperator(err) {
		return "the operator of the bridge has to make its database usable: the log and 'caddy skill-bridge status' say how"
	}
	return "try again later"
}
