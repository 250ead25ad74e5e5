package run

import "time"

// Ref identifies a run. It is sufficient to follow the run to its end. Its JSON is stored.
type Ref struct {
	Source      string    `json:"source,omitzero"` // namespace of the provider or registry, or name of the directly configured skill
	SkillID     string    `json:"skill_id,omitzero"`
	Version     string    `json:"version,omitzero"` // of the skill
	ExecutionID string    `json:"execution_id,omitzero"`
	Accepted    time.Time `json:"accepted,omitzero"`   // when the run was accepted; zero: it is not known
	NotBefore   time.Time `json:"not_before,omitzero"` // the earliest time of the next poll, by the provider's Retry-After; zero: none
	// Kept is the id of the entry of the run in the ledger; empty: it has none. Tasks have none.
	Kept string `json:"-"`
}
