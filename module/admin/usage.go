package admin

import (
	"net/http"

	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/usage"
)

// shownUsage is how many rows an answer has if the request has no limit.
const shownUsage = 1000

// usage answers a request about what callers have used.
func (adminAPI) usage(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		return methodError(w, r, http.MethodGet)
	}
	query := r.URL.Query()
	limit, err := number(query, "limit", shownUsage, usage.MaxRows)
	if err != nil {
		return err
	}
	is := func(name, value string) bool { return !query.Has(name) || query.Get(name) == value }
	answer := observe.Usage().Usage(limit, func(row *usage.Row) bool {
		return is("principal", row.Principal) && is("namespace", row.Namespace) && is("skill_id", row.SkillID)
	})
	for i := range answer.Rows {
		row := &answer.Rows[i]
		row.Principal, row.SkillID = shown(row.Principal), shown(row.SkillID)
	}
	return writeAdmin(w, answer)
}
