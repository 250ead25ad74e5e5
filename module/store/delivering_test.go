package store

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// follower follows no run.
type follower struct{}

func (follower) Granted(context.Context, string) {}

func (follower) View(string) ledger.View { return nil }

func (follower) Realm() string { return "realm" }
func (follower) Poll(context.Context, *ledger.Entry, bool) run.Run {
	return run.Run{State: run.Working}
}
func (follower) Room(string) exchange.AnswerBudget { return nil }

// posts are the requests to receivers.
type posts struct {
	mu  sync.Mutex
	all []string
	new chan struct{}
}

func (p *posts) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, string(body))
	p.new <- struct{}{}
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, err
}

// TestDelivering tests that the versions of an entry of a ledger are delivered in their order, at whichever instance they are made, and nothing is left.
func TestDelivering(t *testing.T) {
	databases(t, func(t *testing.T, settings Settings) { //nolint:thelper // it is the test
		to := &posts{new: make(chan struct{}, 100)}
		var ledgers []*ledger.Ledger
		var deliverers []*delivery.Deliverer
		var db *DB
		for range 2 {
			db = open(t, settings)
			l := ledger.New(ledger.Config{Store: db.Runs(), Trouble: func(err error) { t.Error(err) }})
			d := delivery.New(db.Runs(), l.Subscribe, db.Deliveries())
			l.Begin(follower{})
			d.Begin(&delivery.Sender{
				Served: delivery.Served{Realm: "realm", Front: "a2a"},
				Client: &webhook.Client{Transport: to, Judge: func(context.Context, *url.URL) error { return nil }},
				Hears:  func(e *ledger.Entry) bool { return len(e.Notes) > 0 }, Attempted: func(*delivery.Attempt) {},
				Event: func(_ context.Context, d *delivery.Delivery, e *ledger.Entry, _ int) (*delivery.Event, error) {
					return &delivery.Event{Request: webhook.Request{URL: string(d.Target), Header: http.Header{}, Body: e.Notes}}, nil
				},
			})
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				d.Close(ctx)
				l.Close(ctx)
			})
			ledgers, deliverers = append(ledgers, l), append(deliverers, d)
		}
		e := &ledger.Entry{Owner: ledger.Owner{Realm: "realm", Principal: "ada"}, Front: "a2a", Notes: []byte("1")}
		if present, failure := ledgers[0].Add(t.Context(), e, 0); present != nil || failure != nil {
			t.Fatal(present, failure)
		}
		row := &delivery.Delivery{Run: e.Identity(), Receiver: "one", Front: "a2a", Host: "one.example", Target: []byte("https://one.example/")}
		if err := deliverers[0].Add(t.Context(), e, row, delivery.Bounds{OfRun: 8, OfOwner: 10_000}); err != nil {
			t.Fatal(err)
		}
		<-to.new
		for n := range 4 { // one instance after the other, when the receiver has got the last event
			if _, err := ledgers[n%2].Change(t.Context(), e.Identity(), func(next *ledger.Entry) error {
				next.Notes = []byte{byte('2' + n)}
				if n == 3 {
					next.State = ledger.Completed
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			<-to.new
		}
		for deadline := time.Now().Add(time.Minute); ; {
			left := -1
			if _, err := db.session(reading).row(t.Context(), []any{&left}, "SELECT count(*) FROM deliveries WHERE position < 9223372036854775807"); err != nil || time.Now().After(deadline) {
				t.Fatal(err, left)
			}
			if left == 0 {
				break
			}
		}
		to.mu.Lock()
		defer to.mu.Unlock()
		if got := strings.Join(to.all, " "); got != "1 2 3 4 5" {
			t.Error(got)
		}
	})
}
