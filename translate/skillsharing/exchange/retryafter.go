package exchange

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// SuggestedDelay returns the retry delay that the provider or the bridge suggests; 0:
// neither does.
func SuggestedDelay(f *run.Failure) time.Duration {
	retry := f.ProviderSaid().Retry
	if retry == nil && f.Retry != nil {
		return f.Retry.After
	}
	ms, _ := strconv.ParseFloat(string(jsonrpc.ValueOf(retry, "suggested_delay_ms")), 64) // 0: it is no number; infinite: it is too large
	return min(document.Milliseconds(ms), maxRetryAfter)
}

// maxRetryAfter bounds the delay that a provider can ask for.
const maxRetryAfter = 24 * time.Hour

// RetryAfter returns the delay in the Retry-After field (RFC 9110, section
// 10.2.3), which is a number of seconds or a date. It returns 0 if there is no
// field, or if it is invalid. A date is compared with that of the answer, since the
// clock of the bridge may be another.
func RetryAfter(h http.Header) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, _ := strconv.ParseUint(value, 10, 32) // out of range: the largest uint32
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(0, Until(h, date)), maxRetryAfter)
}

// Until returns the time from an answer until a date in its header, by the clock of the answer's Date if it has one.
func Until(h http.Header, date time.Time) time.Duration {
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return date.Sub(now)
}
