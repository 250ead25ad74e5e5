package skillsharing

import (
	"fmt"
	"hash/maphash"
	"net/url"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
)

// misses count the requests for documents that brought none, at hosts that are not the
// source's own: documents choose these hosts, and could have any third party asked
// without end. A request that is under way counts until it has landed well.
//
// What has failed counts apart from what has not, so that one publisher's dead URLs
// don't take another's documents on the same host away: a URL that fails again and again
// is left alone for longer and longer, and at a host, the source has no more than
// perMinute requests at once, and as many a minute, for URLs that have failed lately.
// Other URLs have a bound of their own: a document can name any number of them, so that
// at most untried may fail at once, and perMinute a minute. A URL whose document is kept
// is always asked, until it fails.
type misses struct {
	perMinute int // 0: there is no bound
	untried   int // of URLs that have not failed, at once; more than what is read at a time

	mu    sync.Mutex
	seed  maphash.Seed
	hosts map[authority]*missed
	urls  int // known to have failed, at all hosts
}

// missed is what is known of a host.
type missed struct {
	tallies [2]tally // of URLs that have not failed, and of those that have
	urls    map[uint64]dead
	until   time.Time // the last of its URLs is left alone so long
}

// tally is how many requests have failed, less those that time has made up for, and how
// many are under way.
type tally struct {
	count    float64
	since    time.Time
	underWay int
}

// dead is a URL that has failed, so many times in a row.
type dead struct {
	times int
	until time.Time // it is left alone
}

const (
	maxMissedHosts = 1024    // kept in mind
	maxDead        = 1 << 14 // URLs, at all hosts, and one at each
	maxDeadPause   = 5 * time.Minute
)

// untriedReads is how many requests for URLs that have not failed may fail at once: more
// than reads with all their redirects, which count while they are under way.
func (l *Limits) untriedReads() int { return (maxRedirects + 1) * max(l.FailedReads, l.Reads) }

// request is one to a host that is not the source's own.
type request struct {
	host   authority
	url    uint64
	failed int // 1: the URL had failed before
}

// begin counts a request that is about to be made; or says for how long it may not be.
// Kept: there is a document from this URL.
func (m *misses) begin(host authority, url string, kept bool) (r request, pause time.Duration) {
	if m.perMinute <= 0 {
		return request{host: host}, 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.host(host)
	if known == nil {
		return r, time.Minute
	}
	now := time.Now()
	r = request{host: host, url: m.hash(url)}
	if d, ok := known.urls[r.url]; ok {
		switch {
		case now.Before(d.until):
			return r, d.until.Sub(now)
		case now.Before(d.until.Add(maxDeadPause)):
			r.failed, kept = 1, false
		default:
			m.forget(known, r.url)
		}
	}
	t, most := &known.tallies[r.failed], m.untried
	if r.failed == 1 {
		most = m.perMinute
	}
	if over := t.settle(now, m.perMinute) + float64(t.underWay+1-most); over > 0 && !kept {
		m.drop(host, known)
		return r, max(time.Second/10, time.Duration(over/float64(m.perMinute)*float64(time.Minute)))
	}
	t.underWay++
	return r, 0
}

// landing is what became of a request.
type landing int

const (
	landedWell landing = iota
	landedBadly
	landedNowhere // it was ended here: that says nothing about the URL
)

// end says what became of requests.
func (m *misses) end(requests []request, how landing) {
	if m.perMinute <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range requests {
		known := m.hosts[r.host]
		known.tallies[r.failed].underWay--
		switch how {
		case landedWell:
			m.forget(known, r.url)
		case landedBadly:
			m.mark(known, r)
		case landedNowhere:
			known.tallies[r.failed].settle(time.Now(), m.perMinute)
			known.tallies[r.failed].count++
		}
		m.drop(r.host, known)
	}
}

// withdraw takes back a request that was not made.
func (m *misses) withdraw(r request) {
	if m.perMinute <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.hosts[r.host]
	known.tallies[r.failed].underWay--
	m.drop(r.host, known)
}

// mark counts a request that has failed. With m.mu held.
func (m *misses) mark(known *missed, r request) {
	now := time.Now()
	t := &known.tallies[r.failed]
	t.settle(now, m.perMinute)
	t.count++
	d, again := known.urls[r.url]
	if !again {
		if m.urls >= maxDead {
			for other := range known.urls { // any: it has failed less often than it will
				m.forget(known, other)
				break
			}
		}
		if known.urls == nil {
			known.urls = make(map[uint64]dead)
		}
		m.urls++
	}
	d.times++
	d.until = now
	if d.times > 1 {
		d.until = now.Add(min(time.Second<<min(d.times-2, 20), maxDeadPause))
	}
	known.urls[r.url] = d
	if d.until.After(known.until) {
		known.until = d.until
	}
}

// forget drops a URL that has failed. With m.mu held.
func (m *misses) forget(known *missed, url uint64) {
	if _, ok := known.urls[url]; ok {
		delete(known.urls, url)
		m.urls--
	}
}

// host returns what is known of a host, or nil if there is no room for it. With m.mu held.
func (m *misses) host(host authority) *missed {
	if known := m.hosts[host]; known != nil {
		return known
	}
	if len(m.hosts) >= maxMissedHosts {
		now := time.Now()
		for other, known := range m.hosts {
			if known.settled(now, m.perMinute) && !now.Before(known.until) {
				m.urls -= len(known.urls)
				delete(m.hosts, other)
			}
		}
		if len(m.hosts) >= maxMissedHosts {
			return nil
		}
	}
	if m.hosts == nil {
		m.hosts = make(map[authority]*missed)
	}
	known := &missed{}
	m.hosts[host] = known
	return known
}

// drop forgets a host where nothing has failed. With m.mu held.
func (m *misses) drop(host authority, known *missed) {
	if len(known.urls) == 0 && known.settled(time.Now(), m.perMinute) {
		delete(m.hosts, host)
	}
}

func (m *misses) hash(url string) uint64 {
	if m.seed == (maphash.Seed{}) {
		m.seed = maphash.MakeSeed()
	}
	return maphash.String(m.seed, url)
}

func (k *missed) settled(now time.Time, perMinute int) bool {
	for i := range k.tallies {
		if t := &k.tallies[i]; t.underWay > 0 || t.settle(now, perMinute) > 0 {
			return false
		}
	}
	return true
}

// settle makes up for what has failed, as time passes.
func (t *tally) settle(now time.Time, perMinute int) float64 {
	t.count = max(0, t.count-now.Sub(t.since).Minutes()*float64(perMinute))
	t.since = now
	return t.count
}

// reading is one way to a document.
type reading struct {
	large bool // it has a place among the large ones

	id       string    // of the skill that is wanted; empty: any
	kept     bool      // there was its document from its URL
	requests []request // to hosts that are not the source's own

	mu       sync.Mutex // for what reads may be left behind
	returned bool       // it has got an answer, which may be a document
	other    bool       // the document is another skill's: as good as none
	landed   bool
}

// again begins to ask; also once more, if the first answer is of no use.
// Known is the document that is kept, or nil.
func (r *reading) again(known *cache.Document) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.other = known != nil && r.isOther(known.Value)
	r.kept, r.returned = known != nil && !r.other, false
}

func (r *reading) isOther(value any) bool {
	s, ok := value.(*Skill)
	return ok && r.id != "" && s.ID != r.id
}

// fetched says how asking has ended.
func (r *reading) fetched(m *misses, how landing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if how == landedWell && !r.landed {
		r.returned = true
		return
	}
	m.end(r.requests, max(how, landedBadly)) // also of an answer that came too late
	r.requests = nil
}

// parsed says what the answer is, if it is one that was not known.
func (r *reading) parsed(m *misses, value any, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		m.end(r.requests, landedBadly)
		r.requests = nil
		return
	}
	r.other = r.isOther(value)
}

// land says that no more comes of it.
func (r *reading) land(m *misses) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.landed = true
	if r.returned {
		how := landedWell
		if r.other {
			how = landedBadly
		}
		m.end(r.requests, how)
		r.requests = nil
	}
}

// away returns the host of a URL if it is not one that the operator has named.
func (c *Client) away(u *url.URL) (host authority, away bool) {
	if c.Audience.Includes(u) || sameAuthority(u, c.Origin) {
		return authority{}, false
	}
	host, err := authorityOf(u)
	return host, err == nil
}

// admitAway says whether a URL may be asked for a document, and counts it. The first of
// a reading is where its document was found before, if there is one. What is known of a
// URL is known for one skill: an entry that lists another's URL as its own proves nothing
// about that one.
func (c *Client) admitAway(way *reading, u *url.URL, first bool, phase Phase) *Error {
	host, away := c.away(u)
	if !away {
		return nil
	}
	r, pause := c.constant().misses.begin(host, u.String()+"#"+way.id, first && way.kept)
	if pause == 0 {
		way.requests = append(way.requests, r)
		return nil
	}
	return &Error{
		Code: RateLimited, Phase: phase, Source: SourceBridge, Executed: ExecutedNo, URL: bareURL(u),
		Message: fmt.Sprintf("Too many requests for the provider's %s, or for others at the same host, which is not the provider's own, have brought no document (limits failed_reads: %d a minute); try again later.",
			answerName(phase), c.Limits.FailedReads),
		Details: fmt.Appendf(nil, `{"limit":"failed_reads","max":%d}`, c.Limits.FailedReads),
		Retry:   SuggestRetry(pause.Truncate(time.Millisecond)+time.Millisecond, retryAttempts),
	}
}

// withdraw takes the last request back: it was not made.
func (c *Client) withdraw(way *reading, u *url.URL) {
	if _, away := c.away(u); !away {
		return
	}
	last := len(way.requests) - 1
	c.constant().misses.withdraw(way.requests[last])
	way.requests = way.requests[:last]
}
