package skillsharing

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// preference counts the answers of a provider that ignores Prefer: wait. This header asks the
// provider to delay its answer until the run has ended (RFC 7240, section 4.3).
type preference struct {
	ignored atomic.Int32 // answers in a row without Preference-Applied
}

const (
	// maxIgnored is the number of such answers after which Prefer is not sent any more.
	maxIgnored = 3
	// answerReserve is the part of a caller's time that is reserved for transferring the
	// answer.
	answerReserve = 500 * time.Millisecond
)

// preferredWait returns how long to ask a provider to delay its answer, in whole
// seconds; 0: not at all.
func (c *Client) preferredWait(ctx context.Context, until time.Time) time.Duration {
	if c.PreferWait <= 0 || c.preference.ignored.Load() >= maxIgnored {
		return 0
	}
	wait := c.PreferWait
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)-answerReserve)
	}
	if !until.IsZero() {
		wait = min(wait, time.Until(until)-answerReserve)
	}
	return max(wait, 0).Truncate(time.Second)
}

// prefer adds Prefer to a header, which requests must not share.
func prefer(header http.Header, wait time.Duration) {
	header["Prefer"] = []string{"wait=" + strconv.FormatInt(int64(wait/time.Second), 10)}
}

// notePreference counts an answer to a request with Prefer. It reports whether
// the provider has applied the preference.
func (c *Client) notePreference(ctx context.Context, a *exchange.Answer) bool {
	if a.Status >= http.StatusBadRequest {
		return false // an error says nothing about the preference
	}
	if applied(a.Header) {
		c.preference.ignored.Store(0)
		return true
	}
	if c.preference.ignored.Add(1) == maxIgnored {
		c.Observer.Notice(ctx, &exchange.Notice{
			Level: slog.LevelInfo, Source: c.Source,
			Message: "the provider does not support prefer_wait (no Preference-Applied in its answers), so the bridge no longer sends it",
		})
	}
	return false
}

// applied reports whether an answer says that the provider has applied Prefer: wait (RFC
// 7240, section 3).
func applied(header http.Header) bool {
	for _, line := range header["Preference-Applied"] {
		for preference := range strings.SplitSeq(line, ",") {
			name, _, _ := strings.Cut(preference, "=")
			if strings.EqualFold(strings.TrimSpace(name), "wait") {
				return true
			}
		}
	}
	return false
}
