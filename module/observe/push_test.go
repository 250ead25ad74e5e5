package observe

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

func TestPushed(t *testing.T) {
	core, lines := observer.New(zapcore.DebugLevel)
	o := NewObserver(zap.New(core), false, nil)
	registry := prometheus.NewRegistry()
	registry.MustRegister(o.metrics.pushes, o.metrics.pushLosses)
	count := func() map[string]float64 {
		counts := map[string]float64{}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				counts[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
		return counts
	}
	before := count()
	for try := range 6 {
		o.Pushed(&delivery.Attempt{
			Answer:   webhook.Answer{Host: "a.example\x1b[2J", Outcome: webhook.Refused, Status: 503, Problem: "Service Unavailable"},
			Delivery: new(delivery.Delivery), Try: try + 1, Lost: try == 5, GivenUp: try == 5,
		})
	}
	o.Pushed(&delivery.Attempt{Answer: webhook.Answer{Host: "a.example", Outcome: webhook.Delivered, Status: 200}, Delivery: new(delivery.Delivery)})
	after := count()
	for name, want := range map[string]float64{"refused": 6, "delivered": 1, "event": 1, "webhook": 1} {
		if n := after[name] - before[name]; n != want {
			t.Errorf("%s: counted %v, want %v", name, n, want)
		}
	}
	var warnings []string
	for _, line := range lines.All() {
		if line.Level == zapcore.WarnLevel {
			warnings = append(warnings, line.Message)
		}
		if host, _ := line.ContextMap()["host"].(string); strings.Contains(host, "\x1b") {
			t.Errorf("the log has %q", host)
		}
	}
	if len(warnings) != 2 || lines.Len() != 7 {
		t.Errorf("%d lines, warnings: %q", lines.Len(), warnings)
	}
	// Clients choose the hosts.
	for i := range 1000 {
		o.Pushed(&delivery.Attempt{Answer: webhook.Answer{Host: strings.Repeat("h", i), Outcome: webhook.Failed, Problem: "no answer"}, Delivery: new(delivery.Delivery)})
	}
	if n := lines.FilterLevelExact(zapcore.WarnLevel).Len(); n > maxPushHosts {
		t.Errorf("%d warnings", n)
	}
}
