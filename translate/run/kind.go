package run

// Kind classifies failures. Fronts map kinds to their own codes.
type Kind uint8

// The kinds of failures.
const (
	Internal            Kind = iota // a bug of the bridge
	InvalidArguments                // the caller's own request; Argument says what in it
	SkillNotFound                   // no skill has that name or version
	AuthRequired                    // a credential is missing or was refused
	PermissionDenied                // the credential does not suffice
	DeadlineExceeded                // the deadline passed
	Unreachable                     // the provider can't be reached
	VersionIncompatible             // the provider speaks a newer protocol
	InvalidDocument                 // an index or descriptor is invalid
	ProviderFault                   // the provider's answer means nothing
	RateLimited                     // too many requests
	Stopped                         // the bridge is being stopped, and can't wait for the end
	ClientGone                      // the caller does not wait for the answer any more
	RunFailed                       // the provider reported the end of the run as failed or timed out
)

// kindNames are what logs, metrics and traces call the kinds.
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
	ProviderFault:       "provider_fault",
	RateLimited:         "rate_limited",
	Stopped:             "stopped",
	ClientGone:          "client_gone",
	RunFailed:           "failed",
}

// String implements [fmt.Stringer] in the words of logs, metrics and traces.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return kindNames[Internal]
}

// Phase is the step of a call in which a failure arose.
type Phase string

// The phases of a call, in order.
const (
	PhaseDiscovery  Phase = "discovery"  // reading an index
	PhaseDescriptor Phase = "descriptor" // reading a descriptor
	PhaseAuth       Phase = "auth"       // obtaining or applying a credential
	PhaseInvoke     Phase = "invoke"     // submitting the run
	PhasePoll       Phase = "poll"       // asking for its status
	PhaseResult     Phase = "result"     // fetching its output
)

// Party is one of the two that a caller does not know from each other.
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
	ExecutedNo    Executed = "no"    // nothing reached the endpoint, or it refused outright
	ExecutedMaybe Executed = "maybe" // the request was written; nothing else is known
	ExecutedYes   Executed = "yes"   // the provider accepted the run
)
