package run

import "time"

// Ref identifies a run. It is sufficient to follow the run to its end.
type Ref struct {
	Source      string // namespace of the provider or registry, or name of the directly configured skill
	SkillID     string
	Version     string // of the skill
	ExecutionID string
	Accepted    time.Time // when the run was accepted; zero: it is not known
	NotBefore   time.Time // the earliest time of the next poll, by the provider's Retry-After; zero: none
	// Kept is the id of the entry of the run in the ledger; empty: it has none. Tasks have none.
	Kept string `json:"-"`
}
