package skillsharing_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

const connectURL = "https://agents.example.com/connect/acme"

// personal are credentials of which each principal has its own, as long as they are not disconnected.
type personal struct{ disconnected atomic.Bool }

func (*personal) Supports(auth *document.Auth) bool { return auth != nil }
func (*personal) Secrets() []string                 { return nil }

func (p *personal) Missing(_ context.Context, owner string, _ *document.Auth, scopes []string, _ func(context.Context) []*document.Auth) *run.Failure {
	link := connectURL
	switch {
	case p.disconnected.Load():
	case owner != "ann" || strings.Join(scopes, " ") != "write":
		return nil
	default:
		link += "?scopes=write"
	}
	return &run.Failure{
		Kind: run.AuthRequired, Phase: run.PhaseAuth, By: run.Bridge, Executed: run.ExecutedNo, Message: "The user has not connected an account.",
		Demand: &run.Demand{By: run.Provider, ConnectURL: link},
	}
}

func (p *personal) Authenticate(ctx context.Context, a *credential.Authentication) error {
	if missing := p.Missing(ctx, a.Owner, a.Auth, nil, nil); missing != nil {
		return missing
	}
	a.Request.Header.Set("X-API-Key", "token of "+a.Owner)
	return nil
}

// TestS181RunsOfUsers: a provider may use the same execution id for runs of several users; each gets the answers for its own token only.
func TestS181RunsOfUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, acme, roundTripper(func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Second) // both are followed at once
			return says(200, strings.Replace(completes, "true", `"`+r.Header.Get("X-API-Key")+`"`, 1))(r)
		}))
		c.Credentials = new(personal)
		skill := skillAt(t, acme, `/auth={"type":"api_key"}`)
		done := make(chan string)
		for _, owner := range []string{"ann", "bob"} {
			go func() {
				r, e := c.Follow(credential.WithOwner(t.Context(), owner), skill, &skillsharing.FollowOptions{ExecutionID: runID}, new(skillsharing.Stats))
				if e != nil {
					t.Error(e)
					done <- ""
					return
				}
				if want := `{"ok":"token of ` + owner + `"}`; string(r.Output) != want {
					t.Errorf("%s got %s", owner, r.Output)
				}
				done <- owner
			}()
		}
		<-done
		<-done
	})
}

// TestFollowAfterDisconnect: the grant of a run under way ends. The user has to connect an account before the run can be followed.
func TestFollowAfterDisconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := new(personal)
		c := newClient(t, acme, roundTripper(func(r *http.Request) (*http.Response, error) {
			own.disconnected.Store(true)
			return says(200, runs)(r)
		}))
		c.Credentials = own
		_, e := c.Follow(credential.WithOwner(t.Context(), "ann"), skillAt(t, acme, `/auth={"type":"api_key"}`),
			&skillsharing.FollowOptions{ExecutionID: runID}, new(skillsharing.Stats))
		wantError(t, e, run.AuthRequired, run.ExecutedYes)
		if e.Next() != run.NextConnect || e.ExecutionID != runID || e.Demand.ConnectURL != connectURL {
			t.Errorf("got %+v, next %s", e, e.Next())
		}
	})
}

// TestSubmitAsksForScopes: PERMISSION_DENIED with scopes that the user can consent to asks for them; otherwise it is a matter for the operator.
func TestSubmitAsksForScopes(t *testing.T) {
	for body, want := range map[string]run.Next{
		`{"error":{"code":"PERMISSION_DENIED","message":"m","details":{"required_scopes":["write"]}}}`: run.NextConnect,
		`{"error":{"code":"PERMISSION_DENIED","message":"m","details":{"required_scopes":["read"]}}}`:  run.NextAskOperator,
		`{"error":{"code":"PERMISSION_DENIED","message":"m","details":{"required_scopes":"write"}}}`:   run.NextAskOperator,
		`{"error":{"code":"PERMISSION_DENIED","message":"m"}}`:                                         run.NextAskOperator,
	} {
		c := newClient(t, acme, script(t, says(403, body)))
		c.Credentials = new(personal)
		_, e, _ := submit(credential.WithOwner(t.Context(), "ann"), c, skillAt(t, acme, `/auth={"type":"api_key"}`))
		wantError(t, e, run.PermissionDenied, run.ExecutedNo)
		if e.Next() != want || want == run.NextConnect && e.Demand.ConnectURL != connectURL+"?scopes=write" {
			t.Errorf("%s: next %s, %+v", body, e.Next(), e.Demand)
		}
	}
}
