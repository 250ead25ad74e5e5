package deliverytest_test

import (
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/deliverytest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

func TestMemory(t *testing.T) {
	deliverytest.Test(t, func(*testing.T) (delivery.Store, deliverytest.Put) {
		d := deliverytest.NewDatabase()
		return d.Instance(), func(_ *testing.T, e *ledger.Entry) { d.Store(e) }
	})
}
