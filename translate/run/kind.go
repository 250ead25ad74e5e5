package run

import "slices"

// Kind classifies failures. Each front maps kinds to its error codes.
type Kind uint8

// The kinds of failures.
const (
	Internal            Kind = iota // a bug of the bridge
	InvalidArguments                // the caller's request is wrong; Argument says where
	SkillNotFound                   // no skill has that name or version
	AuthRequired                    // a credential is missing or was refused
	PermissionDenied                // the credential does not suffice
	DeadlineExceeded                // the deadline passed
	Unreachable                     // the provider can't be reached
	VersionIncompatible             // the skill needs a newer version of the protocol
	InvalidDocument                 // an index or descriptor is invalid
	NotSupported                    // the skill follows the protocol, but asks for what the bridge can't send
	ProviderFault                   // the provider's answer is invalid
	RateLimited                     // too many requests
	Stopped                         // the bridge is being stopped
	CallerGone                      // the caller has disconnected
	CallerCanceled                  // the caller has canceled the call; a run that was accepted goes on
	RunFailed                       // the run ended, but not with an output
)

// kindNames are the names of the kinds in logs, metrics and traces.
var kindNames = [...]string{
	Internal:            "internal",
	InvalidArguments:    "invalid_arguments",
	SkillNotFound:       "skill_not_found",
	AuthRequired:        "auth_required",
	PermissionDenied:    "permission_denied",
	DeadlineExceeded:    "timed_out",
	Unreachable:         "unreachable",
	VersionIncompatible: "version_incompatible",
	InvalidDocument:     "invalid_document",
	NotSupported:        "unsupported",
	ProviderFault:       "provider_fault",
	RateLimited:         "rate_limited",
	Stopped:             "stopped",
	CallerGone:          "caller_gone",
	CallerCanceled:      "canceled",
	RunFailed:           "failed",
}

// String implements [fmt.Stringer] with the name in logs, metrics and traces.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return kindNames[Internal]
}

// MarshalText implements [encoding.TextMarshaler] with the name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. An unknown name is that of [Internal].
func (k *Kind) UnmarshalText(name []byte) error {
	*k = Kind(max(slices.Index(kindNames[:], string(name)), 0)) //nolint:gosec // there are few
	return nil
}

// Phase is the step of a call in which a failure arose.
type Phase string

// The phases of a call, in order.
const (
	PhaseDiscovery  Phase = "discovery"  // reading an index
	PhaseDescriptor Phase = "descriptor" // reading a descriptor
	PhaseAuth       Phase = "auth"       // obtaining or applying a credential
	PhaseInvoke     Phase = "invoke"     // submitting the run
	PhasePoll       Phase = "poll"       // reading its status
	PhaseResult     Phase = "result"     // reading its output
)

// Party says who reports a failure: the bridge or the provider.
type Party string

// The parties.
const (
	Bridge   Party = "bridge"
	Provider Party = "provider"
)

// Executed says whether the skill may have run.
type Executed string

// The degrees of certainty about an execution.
const (
	ExecutedNo    Executed = "no"    // no request reached the endpoint, or the endpoint refused it
	ExecutedMaybe Executed = "maybe" // the request was sent, but there was no usable answer
	ExecutedYes   Executed = "yes"   // the provider accepted the run
)
