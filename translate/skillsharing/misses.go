package skillsharing

import (
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
)

// misses count the requests for documents that brought none, at hosts that are not the
// source's own: documents choose these hosts, and could have any third party asked
// without end. At a host where too many fail, the source has nothing read for a while.
type misses struct {
	perMinute int // 0: there is no bound

	mu    sync.Mutex
	hosts map[authority]*missed
	last  *cache.Document // counted last, for several calls may get it
}

// missed is how many requests have failed, less those that time has made up for.
type missed struct {
	count float64
	since time.Time
}

// maxMissedHosts bounds how many hosts are kept in mind.
const maxMissedHosts = 1024

// pause is for how long nothing may be asked of a host; 0: it may be asked.
func (m *misses) pause(host authority) time.Duration {
	if m.perMinute <= 0 {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.hosts[host]
	if known == nil {
		if len(m.hosts) >= maxMissedHosts && !m.makeRoom() {
			return time.Minute
		}
		return 0
	}
	over := m.settle(known) - float64(m.perMinute)
	if over < 0 {
		return 0
	}
	return time.Duration((over + 1) / float64(m.perMinute) * float64(time.Minute))
}

// add counts requests that have failed.
func (m *misses) add(hosts []authority) {
	if m.perMinute <= 0 || len(hosts) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, host := range hosts {
		known := m.hosts[host]
		if known == nil {
			if m.hosts == nil {
				m.hosts = make(map[authority]*missed)
			}
			known = &missed{since: time.Now()}
			m.hosts[host] = known
		}
		m.settle(known)
		known.count++
	}
}

// settle makes up for what has failed, as time passes. With m.mu held.
func (m *misses) settle(known *missed) float64 {
	now := time.Now()
	known.count = max(0, known.count-now.Sub(known.since).Minutes()*float64(m.perMinute))
	known.since = now
	return known.count
}

// makeRoom forgets hosts where nothing has failed for a while. With m.mu held.
func (m *misses) makeRoom() bool {
	for host, known := range m.hosts {
		if m.settle(known) == 0 {
			delete(m.hosts, host)
		}
	}
	return len(m.hosts) < maxMissedHosts
}

// reading is one way to a document.
type reading struct {
	large bool        // it has a place among the large ones
	away  []authority // hosts that were asked, but for the source's own
}

// away returns the host of a URL if it is not one that the operator has named.
func (c *Client) away(u *url.URL) (host authority, away bool) {
	if c.Audience.Includes(u) || sameAuthority(u, c.Origin) {
		return authority{}, false
	}
	host, err := authorityOf(u)
	return host, err == nil
}

// admitAway says whether a host may be asked for a document.
func (c *Client) admitAway(u *url.URL, phase Phase) *Error {
	host, away := c.away(u)
	if !away {
		return nil
	}
	pause := c.constant().misses.pause(host)
	if pause == 0 {
		return nil
	}
	return &Error{
		Code: RateLimited, Phase: phase, Source: SourceBridge, Executed: ExecutedNo, URL: bareURL(u),
		Message: fmt.Sprintf("Too many requests to the host of the provider's %s, which is not the provider's own, have brought no document (limits failed_reads: %d a minute); try again later.",
			answerName(phase), c.Limits.FailedReads),
		Details: fmt.Appendf(nil, `{"limit":"failed_reads","max":%d}`, c.Limits.FailedReads),
		Retry:   SuggestRetry(pause.Truncate(time.Millisecond)+time.Millisecond, retryAttempts),
	}
}

// noteOther counts a descriptor that is another skill's as one that was not there.
func (c *Client) noteOther(u *url.URL, doc *cache.Document) {
	if doc.State == cache.Hit || doc.State == cache.Stale {
		return
	}
	m := &c.constant().misses
	m.mu.Lock()
	counted := m.last == doc
	m.last = doc
	m.mu.Unlock()
	if host, away := c.away(u); away && !counted {
		m.add([]authority{host})
	}
}
