package callbacks_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/deliverytest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/callbacks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// bridge sends the call-backs of the runs of a ledger.
type bridge struct {
	*callbacks.Sender
	*deliverytest.Instance
	*delivery.Deliverer
	t  *testing.T
	to *receiver

	mu      sync.Mutex
	reports []delivery.Attempt
	outcome error // of reading an outcome
}

func open(t *testing.T, d *deliverytest.Database, to *receiver, k keys) *bridge {
	t.Helper()
	b := &bridge{Instance: d.Instance(), t: t, to: to}
	b.Sender = &callbacks.Sender{
		Sender: delivery.Sender{
			Client: &webhook.Client{Transport: to, Judge: func(context.Context, *url.URL) error { return nil }},
			Served: delivery.Served{Realm: "realm", Front: "rpc"},
			Attempted: func(a *delivery.Attempt) {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.reports = append(b.reports, *a)
			},
			Panicked: func(_ context.Context, v any, stack []byte) { t.Errorf("%v\n%s", v, stack) },
		},
		Sealer: runtoken.New(k, runtoken.Lifetime, nil),
		Outcome: func(_ context.Context, e *ledger.Entry, _ exchange.AnswerBudget) (run.Run, bool) {
			b.mu.Lock()
			defer b.mu.Unlock()
			o := run.Run{Ref: e.Ref, State: run.Completed, Output: e.Outcome}
			if b.outcome != nil {
				o.Failure = &run.Failure{Kind: run.Internal, Cause: b.outcome}
			}
			return o, e.Outcome != nil || e.State == ledger.Unknown
		},
		Body: func(_ context.Context, e *ledger.Entry, o *run.Run) []byte {
			switch {
			case e.Skill == "denied":
				return nil
			case o == nil:
				return []byte(e.Owner.Principal + " asks")
			}
			return []byte(e.Owner.Principal + " " + e.Skill + " " + string(o.Output))
		},
	}
	b.Deliverer = delivery.New(b.Instance, b.Instance.Subscribe, b.Instance)
	b.Deliverer.Begin(b.Sender.Events())
	synctest.Wait()
	return b
}

func (b *bridge) close() {
	b.Deliverer.End(&b.Sender.Sender)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	b.Deliverer.Close(ctx)
}

// begin claims a run with a call-back.
func (b *bridge) begin(skill, url, token string) *ledger.Entry {
	b.t.Helper()
	var ids run.IDs
	e := ledger.Entry{Owner: ledger.Owner{Realm: "realm", Principal: "ada"}, ID: ids.Next(time.Now()), Front: "rpc", Skill: skill}
	if url != "" {
		var err error
		if e.Notes, e.Receiver, err = b.Receiver(b.t.Context(), e.Owner, url, token); err != nil {
			b.t.Fatal(err)
		}
	}
	claimed := b.Put(e)
	b.Claimed(claimed)
	return claimed
}

// end ends a run.
func (b *bridge) end(e *ledger.Entry, state ledger.State, outcome string) {
	next := *e
	if next.State = state; outcome != "" {
		next.Outcome = []byte(outcome)
	}
	b.Put(next)
}

// The end of a run is sent once, signed with the caller's token and with each secret of the operator; not before the end, and not without a URL.
func TestSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, to := deliverytest.NewDatabase(), new(receiver)
		b := open(t, d, to, keyOf(1))
		for _, n := range []byte{3, 4} { // the operator replaces the one by the other
			key, err := callbacks.ParseSecret(secret(n))
			if err != nil {
				t.Fatal(err)
			}
			b.Secrets = append(b.Secrets, key)
		}
		e := b.begin("sum", hook, secret(1))
		b.end(b.begin("sum", "", ""), ledger.Completed, "1")
		if strings.Contains(string(e.Notes)+string(d.Row(e.Identity(), "callback").Target), secret(1)[6:]) {
			t.Error("the token is readable in the database")
		}
		next := *e
		next.State = ledger.Working
		e = b.Put(next)
		time.Sleep(time.Minute)
		if n := len(to.all()); n != 0 {
			t.Fatalf("%d requests before the end", n)
		}
		b.end(e, ledger.Completed, "3")
		time.Sleep(time.Hour)
		all := to.all()
		if len(all) != 1 || all[0].url != hook || all[0].body != "ada sum 3" || all[0].header.Get("Webhook-Id") != e.ID || d.Rows() != 0 {
			t.Fatalf("%+v", all)
		}
		for _, n := range []byte{1, 3, 4} {
			if err := verify(all[0], secret(n)); err != nil {
				t.Errorf("secret %d: %v", n, err)
			}
		}
		if verify(all[0], secret(2)) == nil {
			t.Error("a wrong secret verifies")
		}
		b.close()
	})
}

// What a call-back says of ends without an outcome, and when there is none.
func TestSenderEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, to := deliverytest.NewDatabase(), new(receiver)
		b := open(t, d, to, keyOf(1))
		end := func(skill string, state ledger.State, outcome string, want ...string) {
			t.Helper()
			before, reports := len(to.all()), len(b.reports)
			b.end(b.begin(skill, hook, secret(1)), state, outcome)
			synctest.Wait()
			var got []string
			for _, r := range to.all()[before:] {
				got = append(got, r.body)
			}
			for _, a := range b.reports[reports:] {
				if a.GivenUp {
					got = append(got, a.Problem)
				}
			}
			if strings.Join(got, "\n") != strings.Join(want, "\n") || d.Rows() != 0 {
				t.Errorf("%s, %d: %q, %d left", skill, state, got, d.Rows())
			}
		}
		end("sum", ledger.Unknown, "", "ada sum ")
		end("sum", ledger.Failed, "", "ada asks")
		end("sum", ledger.Completed, strings.Repeat("9", 300<<10), "ada asks")
		end("denied", ledger.Completed, "3", "the access rules deny the skill to its caller")
		b.outcome = run.ErrDamaged
		end("sum", ledger.Completed, "3", "ada asks")
		b.outcome = errors.New("the database is down")
		before := len(to.all())
		b.end(b.begin("later", hook, secret(1)), ledger.Completed, "3")
		time.Sleep(time.Minute)
		b.mu.Lock()
		b.outcome = nil
		b.mu.Unlock()
		time.Sleep(time.Minute)
		if all := to.all()[before:]; len(all) != 1 || all[0].body != "ada later 3" {
			t.Errorf("after the database was down: %+v", all)
		}
		b.close()
	})
}

// A call-back whose token can't be read any more is given up, and not sent without a signature.
func TestSenderOtherKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, to := deliverytest.NewDatabase(), new(receiver)
		first := open(t, d, to, keyOf(1))
		e := first.begin("sum", hook, secret(1))
		first.close()
		next := open(t, d, to, keyOf(7))
		next.end(e, ledger.Completed, "3")
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(to.all()) != 0 || len(next.reports) != 1 || !next.reports[0].GivenUp || next.reports[0].Outcome != "" || d.Rows() != 0 {
			t.Errorf("%d requests, %+v", len(to.all()), next.reports)
		}
		next.close()
	})
}

// A repeated call has to have the same call-back.
func TestSenderDiffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := deliverytest.NewDatabase()
		b := open(t, d, new(receiver), keyOf(1))
		with, without, token := b.begin("sum", hook, secret(1)), b.begin("sum", "", ""), secret(1)
		for n, c := range []struct {
			e                *ledger.Entry
			url, token, want string
		}{
			{with, hook, token, ""},
			{with, hook, secret(2), "another 'notify.token'"},
			{with, hook, "", "another 'notify.token'"},
			{with, hook + "?", token, "another 'notify.url'"},
			{with, "", "", "'notify'"},
			{without, "", "", ""},
			{without, hook, token, "no 'notify'"},
		} {
			if got := b.Differs(t.Context(), c.url, c.token)(c.e); got != c.want {
				t.Errorf("%d: %q, want %q", n, got, c.want)
			}
		}
		if got := (*callbacks.Sender)(nil).Differs(t.Context(), "", "")(without); got != "" {
			t.Error(got)
		}
		b.close()
		other := open(t, d, new(receiver), keyOf(7))
		if got := other.Differs(t.Context(), hook, secret(2))(with); got != "" {
			t.Errorf("a token that can't be read any more: %q", got)
		}
		other.close()
	})
}
