package admin

import (
	"context"
	"encoding/json" // Caddy's admin API is made with it
	"net/http"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
)

// Grants is the answer of the admin API about the accounts that users have connected. It has no tokens.
type Grants struct {
	// Connected counts all of them by source, whatever the query selects.
	Connected map[string]int `json:"connected"`
	Grants    []Grant        `json:"grants"` // at most 1000
	// Unread are the databases that could not be read.
	Unread []Unread `json:"unread,omitempty"`
}

// Grant is an account that a user has connected.
type Grant struct {
	Bridge int `json:"bridge"`
	*credentials.Grant
}

// RevokeRequest asks for the end of the grants of a principal.
type RevokeRequest struct {
	Principal string `json:"principal"`
}

// maxShownGrants is the maximum number of grants in an answer.
const maxShownGrants = 1000

// grants answers a request about grants. The query may have a principal.
func (adminAPI) grants(r *http.Request) Grants {
	return grantsOf(r.Context(), r.URL.Query().Get("principal"), maxShownGrants)
}

// grantsOf returns the grants of a principal; empty: of all.
func grantsOf(ctx context.Context, principal string, limit int) Grants {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	answer := Grants{Connected: map[string]int{}, Grants: []Grant{}}
	for _, b := range observe.WithGrants() {
		counts, err := b.Grants.Count(ctx)
		for namespace, n := range counts {
			answer.Connected[namespace] += n
		}
		var found []*credentials.Grant
		if most := limit - len(answer.Grants); err == nil && most > 0 {
			found, err = b.Grants.List(ctx, principal, most)
		}
		for _, g := range found {
			answer.Grants = append(answer.Grants, Grant{b.Number, g})
		}
		if err != nil {
			answer.Unread = addUnread(answer.Unread, b.Store, err)
		}
	}
	return answer
}

// revoke ends the grants of a principal, and returns them.
func (adminAPI) revoke(r *http.Request) (answer Grants, err error) {
	var wanted RevokeRequest
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&wanted); err != nil || wanted.Principal == "" {
		return answer, refusal(http.StatusBadRequest, `the body has to be {"principal": …}`)
	}
	answer = grantsOf(r.Context(), wanted.Principal, maxShownGrants)
	if len(answer.Unread) > 0 {
		return answer, refusal(http.StatusServiceUnavailable, "nothing was revoked: %s can't be read: %s", answer.Unread[0].Place, answer.Unread[0].Error)
	}
	found := len(answer.Grants)
	answer.Grants = []Grant{}
	for _, b := range observe.WithGrants() {
		ended, err := b.Grants.Revoke(context.WithoutCancel(r.Context()), wanted.Principal) // which takes seconds for each dead provider: the client may leave before
		for _, g := range ended {
			answer.Grants = append(answer.Grants, Grant{b.Number, g})
		}
		if err != nil {
			return answer, refusal(http.StatusServiceUnavailable, "%d of %d grants were revoked: %w", len(answer.Grants), found, err)
		}
	}
	return answer, nil
}
