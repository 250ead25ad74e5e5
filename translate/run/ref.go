package run

import "time"

// Ref is all that is needed to follow a run to its end, now or later.
type Ref struct {
	Source      string // namespace of the provider or registry, or name of the directly configured skill
	SkillID     string
	Version     string // of the skill
	ExecutionID string
	Accepted    time.Time // when the run was accepted; zero: that is not known
	NotBefore   time.Time // when the provider wants to be asked again at the earliest; zero: it has not said
}
