package discovery

import (
	"hash/maphash"
	"math"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// misses limits the failed requests for documents at hosts other than the source's own.
// Documents choose these hosts, and without a limit they could make the bridge send any number
// of requests to a third party. A request in progress counts as failed until it succeeds.
//
// There are two limits for each host and publisher, with separate counts:
//   - for URLs that have failed recently: perMinute requests at once, and perMinute a minute. The
//     pause before the next request for such a URL doubles with each failure;
//   - for other URLs, of which a document can name any number: untried failures at once, and
//     perMinute a minute. A URL whose document is in the cache is exempt until it fails.
//
// All publishers of a host together have twice these limits, and each publisher may use at most half of
// what the others leave. So the failures of one publisher do not prevent requests for another
// publisher's documents on the same host.
type misses struct {
	perMinute int // 0: there is no limit
	untried   int // failures at once of URLs that had not failed before; more than Limits.Reads

	mu         sync.Mutex
	seed       maphash.Seed
	hosts      map[credential.Authority]*hostMisses
	urls       int // failed URLs of all hosts
	publishers int // with counts, of all hosts
}

// hostMisses are the counts of one host.
type hostMisses struct {
	tallies
	publishers map[uint64]*tallies
	urls       map[uint64]failedURL
}

// tallies are the counts for URLs that had not failed before (0), and for URLs that had (1).
type tallies [2]tally

// tally counts failed requests, and requests in progress. The count of failures decays exponentially.
type tally struct {
	count    float64
	since    time.Time // when count was computed
	underWay int
}

// failedURL is a URL that has failed.
type failedURL struct {
	times int       // in a row
	until time.Time // until then it is not requested
}

const (
	maxHosts      = 1024    // with counts
	maxFailedURLs = 1 << 14 // of all hosts, but each host may have one; also the limit of publishers
	maxPause      = 5 * time.Minute
)

// untriedReads returns how many requests for URLs that have not failed may fail at once. Since requests
// in progress count as failed, all concurrent reads and their redirects must be possible.
func untriedReads(l *document.Limits) int { return (maxRedirects + 1) * max(l.FailedReads, l.Reads) }

// request is a request to a host other than the source's own.
type request struct {
	host           credential.Authority
	publisher, url uint64
	failed         int // 1: the URL had failed before
}

// most returns how many requests of one publisher may fail at once. The argument failed is an index of
// tallies, here and below.
func (m *misses) most(failed int) float64 {
	if failed == 1 {
		return float64(m.perMinute)
	}
	return float64(m.untried)
}

// decayTime returns the time in which a count falls to 1/e. It is chosen so that a count equal to
// most falls by perMinute in a minute.
func (m *misses) decayTime(failed int) time.Duration {
	return time.Duration(m.most(failed) / float64(m.perMinute) * float64(time.Minute))
}

// begin counts a request that is about to be sent. If the pause is not 0, the request is not counted,
// and must not be sent before the pause has passed. kept says that the cache has a document from this
// URL.
func (m *misses) begin(host credential.Authority, publisher, url string, kept bool) (r request, pause time.Duration) {
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
	r = request{host: host, publisher: m.hash(publisher), url: m.hash(url)}
	if d, ok := known.urls[r.url]; ok {
		switch {
		case now.Before(d.until):
			return r, d.until.Sub(now)
		case now.Before(d.until.Add(maxPause)):
			r.failed, kept = 1, false
		default:
			m.forget(known, r.url)
		}
	}
	own := m.publisher(known, &r)
	if pause := m.pause(&known.tallies, own, r.failed, now); pause > 0 && !kept {
		m.drop(r, known)
		return r, pause
	}
	known.tallies[r.failed].underWay++
	own[r.failed].underWay++
	return r, 0
}

// pause returns how long to wait before the next request for a publisher: until the publisher's count
// plus the count of all publishers is less than twice most. The publisher's own failures are in both
// counts, so a publisher without others has the limit most.
func (m *misses) pause(all, own *tallies, failed int, now time.Time) time.Duration {
	decayTime := m.decayTime(failed)
	counts := all[failed].decay(now, decayTime) + own[failed].decay(now, decayTime)
	room := 2*m.most(failed) - 1 - float64(all[failed].underWay+own[failed].underWay)
	switch {
	case counts <= room:
		return 0
	case room <= 0:
		return time.Second
	}
	return max(time.Second/10, time.Duration(float64(decayTime)*math.Log(counts/room))+time.Millisecond)
}

// outcome is how a request has ended.
type outcome int

const (
	outcomeSuccess outcome = iota
	outcomeFailure
	outcomeNone // the bridge cancelled the request, which says nothing about the URL
)

// end counts the outcome of requests. The first of them, redirects in number, were answered with
// redirects. Their URLs do not count as failed if the target of the redirect fails.
func (m *misses) end(requests []request, redirects int, how outcome) {
	if m.perMinute <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for i, r := range requests {
		known := m.hosts[r.host]
		for _, t := range []*tallies{&known.tallies, known.publishers[r.publisher]} {
			t[r.failed].underWay--
			if how != outcomeSuccess {
				t[r.failed].decay(now, m.decayTime(r.failed))
				t[r.failed].count++
			}
		}
		switch {
		case how == outcomeSuccess:
			m.forget(known, r.url)
		case how == outcomeFailure && i >= redirects:
			m.mark(known, r.url, now)
		}
		m.drop(r, known)
	}
}

// withdraw removes a request that was not sent from the counts.
func (m *misses) withdraw(r request) {
	if m.perMinute <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.hosts[r.host]
	known.tallies[r.failed].underWay--
	known.publishers[r.publisher][r.failed].underWay--
	m.drop(r, known)
}

// mark stores that a URL has failed. The caller holds m.mu.
func (m *misses) mark(known *hostMisses, url uint64, now time.Time) {
	d, again := known.urls[url]
	if !again {
		if m.urls >= maxFailedURLs {
			for other := range known.urls { // an arbitrary one of the same host
				m.forget(known, other)
				break
			}
		}
		if known.urls == nil {
			known.urls = make(map[uint64]failedURL)
		}
		m.urls++
	}
	d.times++
	d.until = now
	if d.times > 1 {
		d.until = now.Add(min(time.Second<<min(d.times-2, 20), maxPause))
	}
	known.urls[url] = d
}

// forget removes a URL from the failed ones. The caller holds m.mu.
func (m *misses) forget(known *hostMisses, url uint64) {
	if _, ok := known.urls[url]; ok {
		delete(known.urls, url)
		m.urls--
	}
}

// host returns the counts of a host, or nil if there are too many hosts. The caller holds m.mu.
func (m *misses) host(host credential.Authority) *hostMisses {
	if known := m.hosts[host]; known != nil {
		return known
	}
	if len(m.hosts) >= maxHosts && !m.makeRoom() {
		return nil
	}
	if m.hosts == nil {
		m.hosts = make(map[credential.Authority]*hostMisses)
	}
	known := &hostMisses{publishers: make(map[uint64]*tallies)}
	m.hosts[host] = known
	return known
}

// makeRoom removes, of the hosts without a request in progress, the one with the fewest failures. So a
// document that names many hosts neither blocks requests to other hosts, nor makes the bridge forget the
// hosts with the most failures. It returns false if all hosts have requests in progress. The caller holds
// m.mu.
func (m *misses) makeRoom() bool {
	var least credential.Authority
	fewest, now := math.Inf(1), time.Now()
	for host, known := range m.hosts {
		if known.tallies[0].underWay+known.tallies[1].underWay > 0 {
			continue
		}
		if n := known.tallies[0].decay(now, m.decayTime(0)) + known.tallies[1].decay(now, m.decayTime(1)); n < fewest {
			if least, fewest = host, n; n == 0 {
				break
			}
		}
	}
	if math.IsInf(fewest, 1) {
		return false
	}
	m.remove(least, m.hosts[least])
	return true
}

func (m *misses) remove(host credential.Authority, known *hostMisses) {
	m.urls -= len(known.urls)
	m.publishers -= len(known.publishers)
	delete(m.hosts, host)
}

// publisher returns the counts of the publisher of a request. If there are too many
// publishers, all further ones of a host share one tally. The caller holds m.mu.
func (m *misses) publisher(known *hostMisses, r *request) *tallies {
	if own := known.publishers[r.publisher]; own != nil {
		return own
	}
	now := time.Now()
	for other, own := range known.publishers {
		if m.isForgotten(own, now) {
			delete(known.publishers, other)
			m.publishers--
		}
	}
	if m.publishers >= maxFailedURLs {
		r.publisher = 0
		if own := known.publishers[0]; own != nil {
			return own
		}
	}
	own := new(tallies)
	known.publishers[r.publisher] = own
	m.publishers++
	return own
}

// drop removes the counts of a request's publisher and host if they are 0. The caller holds m.mu.
func (m *misses) drop(r request, known *hostMisses) {
	now := time.Now()
	if m.isForgotten(known.publishers[r.publisher], now) {
		delete(known.publishers, r.publisher)
		m.publishers--
	}
	if len(known.urls) == 0 && m.isForgotten(&known.tallies, now) {
		m.remove(r.host, known)
	}
}

func (m *misses) hash(text string) uint64 {
	if m.seed == (maphash.Seed{}) {
		m.seed = maphash.MakeSeed()
	}
	return maphash.String(m.seed, text)
}

// isForgotten reports whether all counts are 0.
func (m *misses) isForgotten(t *tallies, now time.Time) bool {
	for i := range t {
		if t[i].underWay > 0 || t[i].decay(now, m.decayTime(i)) > 0 {
			return false
		}
	}
	return true
}

// decay lowers the count for the time since it was computed, and returns it. All counts fall at
// the same relative rate, so the count of a host stays the sum of the counts of its publishers.
func (t *tally) decay(now time.Time, decayTime time.Duration) float64 {
	t.count *= math.Exp(-float64(now.Sub(t.since)) / float64(decayTime))
	t.since = now
	if t.count < 0.5 {
		t.count = 0
	}
	return t.count
}
