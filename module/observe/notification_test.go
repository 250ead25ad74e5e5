package observe

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// Requests with the ends of runs are counted. Callers choose the hosts, so the lines about them are bounded.
func TestNotification(t *testing.T) {
	core, lines := observer.New(zapcore.DebugLevel)
	o := NewObserver(zap.New(core), false, nil)
	registry := prometheus.NewRegistry()
	registry.MustRegister(o.metrics.notifications, o.metrics.notificationLosses)
	count := func() map[string]float64 {
		counts := map[string]float64{}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				name := "lost"
				if labels := m.GetLabel(); len(labels) > 0 {
					name = labels[0].GetValue()
				}
				counts[name] = m.GetCounter().GetValue()
			}
		}
		return counts
	}
	before := count()
	for try := range 8 {
		o.Notified(&delivery.Attempt{
			Answer:   webhook.Answer{Host: "a.example\x1b[2J", Outcome: webhook.Refused, Status: 503, Problem: "Service Unavailable"},
			Delivery: new(delivery.Delivery), Try: try + 1, GivenUp: try == 7,
		})
	}
	o.Notified(&delivery.Attempt{Answer: webhook.Answer{Host: "a.example", Outcome: webhook.Delivered, Status: 200}, Delivery: new(delivery.Delivery), Try: 1})
	o.Notified(&delivery.Attempt{
		Answer:   webhook.Answer{Host: "b.example", Problem: "the run has expired"},
		Delivery: &delivery.Delivery{Run: ledger.Identity{Owner: ledger.Owner{Principal: "ada"}}}, Entry: &ledger.Entry{Ref: run.Ref{ExecutionID: "exec-1\x1b"}}, GivenUp: true,
	})
	warned := lines.FilterLevelExact(zapcore.WarnLevel).All()
	if last := warned[len(warned)-1].ContextMap(); last["principal"] != "ada" || !strings.HasPrefix(fmt.Sprint(last["execution_id"]), "exec-1") || strings.Contains(fmt.Sprint(last), "\x1b") {
		t.Errorf("%v", last)
	}
	after := count()
	for name, want := range map[string]float64{"refused": 8, "delivered": 1, "lost": 2} {
		if n := after[name] - before[name]; n != want {
			t.Errorf("%s: counted %v, want %v", name, n, want)
		}
	}
	for _, line := range lines.All() {
		if host, _ := line.ContextMap()["host"].(string); strings.Contains(host, "\x1b") {
			t.Errorf("the log has %q", host)
		}
	}
	if n := lines.FilterLevelExact(zapcore.WarnLevel).Len(); n != 3 {
		t.Errorf("%d warnings", n)
	}
	for i := range 1000 {
		o.Notified(&delivery.Attempt{Answer: webhook.Answer{Host: strings.Repeat("h", i), Outcome: webhook.Failed, Problem: "no answer"}, Delivery: new(delivery.Delivery), Try: 1})
	}
	if n := lines.FilterLevelExact(zapcore.WarnLevel).Len(); n > 2*maxPushHosts {
		t.Errorf("%d warnings", n)
	}
}
