package discovery

import (
	"hash/maphash"
	"math"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
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

	mu      sync.Mutex
	tallies map[place]*tally
	failed  map[uint64]failedURL // by the hashes of URLs
}

// place is where requests may fail: a publisher at a host, or the whole host.
type place struct {
	host      credential.Authority
	publisher uint64 // hash; 0: the whole host
	again     bool   // for URLs that had failed before
}

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
	maxTallies    = 1 << 12
	maxFailedURLs = 1 << 14
	maxPause      = 5 * time.Minute
)

func newMisses(perMinute, untried int) *misses {
	return &misses{perMinute: perMinute, untried: untried, tallies: map[place]*tally{}, failed: map[uint64]failedURL{}}
}

// request is a request to a host other than the source's own.
type request struct {
	all, own *tally // of the host, and of the publisher there
	url      uint64
	again    bool // the URL had failed before
}

// most returns how many requests of one publisher may fail at once.
func (m *misses) most(again bool) float64 {
	if again {
		return float64(m.perMinute)
	}
	return float64(m.untried)
}

// decayTime returns the time in which a count falls to 1/e. It is chosen so that a count equal to
// most falls by perMinute in a minute.
func (m *misses) decayTime(again bool) time.Duration {
	return time.Duration(m.most(again) / float64(m.perMinute) * float64(time.Minute))
}

// begin counts a request that is about to be sent. If the pause is not 0, the request is not counted,
// and must not be sent before the pause has passed. kept says that the cache has a document from this
// URL.
func (m *misses) begin(host credential.Authority, publisher, url string, kept bool) (r request, pause time.Duration) {
	if m.perMinute <= 0 {
		return r, 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	r.url = hash(host.String() + " " + url)
	if d, failed := m.failed[r.url]; failed && now.Before(d.until.Add(maxPause)) {
		if now.Before(d.until) {
			return r, d.until.Sub(now)
		}
		r.again, kept = true, false
	}
	pause = time.Minute / time.Duration(m.perMinute) // in which about one failure is forgotten
	if r.all = m.tally(place{host, 0, r.again}, now); r.all == nil {
		return r, pause
	}
	r.all.underWay++ // at once, so that the other tally does not take its place
	if r.own = m.tally(place{host, hash(publisher), r.again}, now); r.own == nil || !kept && m.full(&r, now) {
		r.all.underWay--
		return r, pause
	}
	r.own.underWay++
	return r, 0
}

// full reports whether the publisher's count plus the count of all publishers is twice most. The publisher's own failures are in both
// counts, so a publisher without others has the limit most.
func (m *misses) full(r *request, now time.Time) bool {
	decayTime := m.decayTime(r.again)
	return r.all.decay(now, decayTime)+r.own.decay(now, decayTime)+float64(r.all.underWay+r.own.underWay) > 2*m.most(r.again)
}

// outcome is how a request has ended.
type outcome int

const (
	outcomeSuccess outcome = iota
	outcomeFailure
	outcomeNone   // the bridge cancelled the request, which says nothing about the URL
	outcomeUnsent // it was not sent
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
		for _, t := range []*tally{r.all, r.own} {
			t.underWay--
			if how == outcomeFailure || how == outcomeNone {
				t.decay(now, m.decayTime(r.again))
				t.count++
			}
		}
		switch {
		case how == outcomeSuccess:
			delete(m.failed, r.url)
		case how == outcomeFailure && i >= redirects:
			m.mark(r.url, now)
		}
	}
}

// mark stores that a URL has failed. The caller holds m.mu.
func (m *misses) mark(url uint64, now time.Time) {
	d := m.failed[url]
	if now.After(d.until.Add(maxPause)) {
		d.times = 0
	}
	d.times++
	d.until = now
	if d.times > 1 {
		d.until = now.Add(min(time.Second<<min(d.times-2, 20), maxPause))
	}
	share.MakeRoom(m.failed, maxFailedURLs)
	m.failed[url] = d
}

// tally returns the tally of a place. If there are too many places, it forgets the one with the fewest failures, of those without a request
// in progress. So a document that names many hosts neither blocks requests to other hosts, nor makes the bridge forget the hosts with the
// most failures. It returns nil if all places have requests in progress. The caller holds m.mu.
func (m *misses) tally(of place, now time.Time) *tally {
	if known := m.tallies[of]; known != nil {
		return known
	}
	if len(m.tallies) >= maxTallies {
		var least place
		fewest := math.Inf(1)
		for at, t := range m.tallies {
			if t.underWay > 0 {
				continue
			}
			if n := t.decay(now, m.decayTime(at.again)); n < fewest {
				if least, fewest = at, n; n == 0 {
					break
				}
			}
		}
		if math.IsInf(fewest, 1) {
			return nil
		}
		delete(m.tallies, least)
	}
	made := new(tally)
	m.tallies[of] = made
	return made
}

var seed = maphash.MakeSeed()

func hash(text string) uint64 { return maphash.String(seed, text) }

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
