package skillsharing_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// room is a budget of one call.
type room struct{ most, kept int64 }

// Reserve implements skillsharing.AnswerBudget.
func (r *room) Reserve(size int64) bool {
	r.kept = 0
	if size > r.most {
		return false
	}
	r.kept = size
	return true
}

// AnswerLimit implements skillsharing.AnswerBudget.
func (r *room) AnswerLimit() (string, int64) { return "answer_size", r.most }

func in(ctx context.Context, budget exchange.AnswerBudget) context.Context {
	return context.WithValue(ctx, exchange.AnswerBudgetKey{}, budget)
}

// TestSubmitWithoutRoom: of an answer for which there is no room, the beginning says
// which run it is about.
func TestSubmitWithoutRoom(t *testing.T) {
	output := `"output":"` + strings.Repeat("x", 100_000) + `"`
	for _, c := range []struct {
		name, body string
		status     int
		most       int64
		executed   run.Executed
		id         string // empty and executed yes: there is room
	}{
		{"room", `{"execution_id":"e","status":"completed",` + output + `}`, 200, 1 << 20, "", ""},
		{"id first", `{"execution_id":"e","status":"completed",` + output + `}`, 200, 50_000, run.ExecutedYes, "e"},
		{"id with escapes", `{"x":[1,{"execution_id":"f"}],"execution_id":"\u0065",` + output + `}`, 200, 50_000, run.ExecutedYes, "e"},
		{"id last", `{"status":"completed",` + output + `,"execution_id":"e"}`, 200, 50_000, run.ExecutedMaybe, ""},
		{"long id", `{"execution_id":"` + strings.Repeat("e", 513) + `",` + output + `}`, 200, 50_000, run.ExecutedMaybe, ""},
		{"number", `{"execution_id":1,` + output + `}`, 200, 50_000, run.ExecutedMaybe, ""},
		{"not an object", `[{"execution_id":"e",` + output + `}]`, 200, 50_000, run.ExecutedMaybe, ""},
		{"refused", `{"error":{"code":"SKILL_NOT_FOUND"},` + output + `}`, 404, 50_000, run.ExecutedNo, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			transport := script(t, says(c.status, c.body))
			client, s := newClient(t, acme, transport), skillAt(t, acme)
			r, e := client.Submit(in(t.Context(), &room{most: c.most}), s, &skillsharing.Invocation{}, new(skillsharing.Stats))
			if c.executed == "" {
				if e != nil || len(r.Output) < 100_000 {
					t.Errorf("%v", e)
				}
				return
			}
			wantError(t, e, run.RateLimited, c.executed)
			if e.ExecutionID != c.id || string(front.Details(e)) != `{"limit":"answer_size","max":50000}` || !strings.Contains(e.Message, "at most 50000 bytes") || len(transport.asked) != 1 {
				t.Errorf("%+v", e)
			}
		})
	}
}

// TestFollowersWithoutRoom: one who has no room for the end of a run, though it is he who
// asks, keeps it from nobody else.
func TestFollowersWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		completed := `{"execution_id":"exec-1","status":"completed","output":"` + strings.Repeat("x", 100_000) + `"}`
		transport := script(t, then(says(200, runs), says(200, runs), says(200, completed))...)
		client, s := newClient(t, acme, transport), skillAt(t, acme)
		narrow := watching(in(t.Context(), &room{most: 50_000}), client, s, resumed(time.Hour))
		wide := watching(t.Context(), client, s, resumed(time.Hour))
		if w := <-narrow; w.err == nil {
			t.Errorf("%+v", w.response.State)
		} else {
			wantError(t, w.err, run.RateLimited, run.ExecutedYes)
		}
		if w := <-wide; w.err != nil || len(w.response.Output) < 100_000 {
			t.Errorf("%v", w.err)
		}
		if n := client.Followers(); n != 0 {
			t.Errorf("%d runs are still followed", n)
		}
	})
}

// patientRoom is a budget that waits for a minute for each answer.
type patientRoom struct {
	room
	awaited []int64 // the most of each
}

// Await implements exchange.PatientBudget.
func (r *patientRoom) Await(ctx context.Context, size, most int64) bool {
	if size <= r.kept {
		return true
	}
	if r.kept > 0 {
		panic("it waits while it has room")
	}
	r.awaited = append(r.awaited, most)
	select {
	case <-time.After(time.Minute):
		r.kept = most
		return true
	case <-ctx.Done():
		return false
	}
}

// Release implements exchange.PatientBudget.
func (r *patientRoom) Release() { r.kept = 0 }

// TestPatientBudget: reading an answer waits for room once, before most of it is read, and longer than a body may stop. It has room
// for the whole answer then, and what it did not need is free when it is read. The next answer waits with nothing.
func TestPatientBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("x", 100_000)
		transport := script(t, then(says(200, strings.TrimSuffix(runs, "}")+`,"pad":"`+long+`"}`), says(503, long), says(200, `{"execution_id":"exec-1","status":"completed","output":"`+long+`"}`))...)
		client, s := newClient(t, acme, transport), skillAt(t, acme)
		client.Limits.BodyTimeout = 10 * time.Second
		budget := &patientRoom{room: room{most: 1 << 30}}
		r, e := client.Follow(in(t.Context(), budget), s, &skillsharing.FollowOptions{ExecutionID: runID}, new(skillsharing.Stats))
		if e != nil || len(r.Output) < len(long) {
			t.Fatalf("%+v", e)
		}
		if len(budget.awaited) != 3 || budget.kept < int64(len(long)) || budget.kept > int64(len(long))+6000 {
			t.Errorf("%d, and %d are kept", budget.awaited, budget.kept)
		}
		for _, most := range budget.awaited {
			if most < int64(len(long)) || most > int64(len(long))+6000 && most < client.MaxResponseSize {
				t.Errorf("%d for %d bytes", most, len(long))
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		transport = script(t, says(200, `{"execution_id":"e","status":"completed","output":"`+long+`"}`))
		if _, e := newClient(t, acme, transport).Submit(in(ctx, &patientRoom{}), s, &skillsharing.Invocation{}, new(skillsharing.Stats)); e == nil {
			t.Error("the call has room after its end")
		} else {
			wantError(t, e, run.RateLimited, run.ExecutedYes)
		}
	})
}
