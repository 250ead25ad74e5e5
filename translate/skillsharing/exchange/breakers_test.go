package exchange

import (
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// TestBreakerFlood: documents choose hosts, and must not fill the memory.
func TestBreakerFlood(t *testing.T) {
	b := NewBreakers(BreakerConfig{Failures: 1, Cooldown: time.Hour, Patience: time.Second})
	for i := range 10_000 {
		p, _ := b.enter("test", "", &url.URL{Scheme: "https", Host: "host" + strconv.Itoa(i) + ".example"}, run.PhaseInvoke)
		p.fail("test", "")
	}
	if n := len(b.breakers); n != 4096 {
		t.Errorf("%d hosts are kept in mind", n)
	}
}
