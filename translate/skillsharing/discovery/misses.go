package discovery

import (
	"hash/maphash"
	"math"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// misses count the requests for documents that brought none, at hosts that are not the
// source's own: documents choose these hosts, and could have any third party asked
// without end. A request that is under way counts until it has landed well.
//
// What has failed counts apart from what has not: a URL that fails again and again is
// left alone for longer and longer, and at a host, a publisher has no more than perMinute
// requests at once, and as many a minute, for URLs that have failed lately. Other URLs
// have a bound of their own: a document can name any number of them, so that at most
// untried may fail at once, and perMinute a minute. A URL whose document is kept is
// always asked, until it fails.
//
// All publishers have twice as much together, and none more than it leaves to others: a
// publisher's dead URLs don't take another's documents on the same host away.
type misses struct {
	perMinute int // 0: there is no bound
	untried   int // of URLs that have not failed, at once; more than what is read at a time

	mu         sync.Mutex
	seed       maphash.Seed
	hosts      map[credential.Authority]*missed
	urls       int // known to have failed, at all hosts
	publishers int // of which anything is known, at all hosts
}

// missed is what is known of a host.
type missed struct {
	tallies
	publishers map[uint64]*tallies
	urls       map[uint64]dead
}

// tallies are those of URLs that have not failed, and of those that have.
type tallies [2]tally

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
	maxMissedHosts = 1024    // that are remembered
	maxDead        = 1 << 14 // URLs, at all hosts, and one at each; and as many publishers
	maxDeadPause   = 5 * time.Minute
)

// untriedReads is how many requests for URLs that have not failed may fail at once: more
// than reads with all their redirects, which count while they are under way.
func untriedReads(l *document.Limits) int { return (maxRedirects + 1) * max(l.FailedReads, l.Reads) }

// request is one to a host that is not the source's own.
type request struct {
	host           credential.Authority
	publisher, url uint64
	failed         int // 1: the URL had failed before
}

// most is how many requests of a publisher may fail at once.
func (m *misses) most(failed int) float64 {
	if failed == 1 {
		return float64(m.perMinute)
	}
	return float64(m.untried)
}

// lasting is how long it takes until e times fewer failures count: if as many do as may
// of a publisher, perMinute fewer in a minute.
func (m *misses) lasting(failed int) time.Duration {
	return time.Duration(m.most(failed) / float64(m.perMinute) * float64(time.Minute))
}

// begin counts a request that is about to be made; or says for how long it may not be.
// Kept: there is a document from this URL.
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
		case now.Before(d.until.Add(maxDeadPause)):
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

// pause is for how long a publisher has to leave a host alone: until what is known of it,
// and of all publishers, counts no more than twice as much as may fail at once. So a
// publisher by itself has half of that.
func (m *misses) pause(all, own *tallies, failed int, now time.Time) time.Duration {
	lasting := m.lasting(failed)
	counts := all[failed].settle(now, lasting) + own[failed].settle(now, lasting)
	room := 2*m.most(failed) - 1 - float64(all[failed].underWay+own[failed].underWay)
	switch {
	case counts <= room:
		return 0
	case room <= 0:
		return time.Second
	}
	return max(time.Second/10, time.Duration(float64(lasting)*math.Log(counts/room))+time.Millisecond)
}

// landing is how a request has ended.
type landing int

const (
	landedWell landing = iota
	landedBadly
	landedNowhere // the bridge ended it: that says nothing about the URL
)

// end says how requests have ended. The first of them, as many as passed says, have led
// on to others: if these landed badly, that is not their fault.
func (m *misses) end(requests []request, passed int, how landing) {
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
			if how != landedWell {
				t[r.failed].settle(now, m.lasting(r.failed))
				t[r.failed].count++
			}
		}
		switch {
		case how == landedWell:
			m.forget(known, r.url)
		case how == landedBadly && i >= passed:
			m.mark(known, r.url, now)
		}
		m.drop(r, known)
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
	known.publishers[r.publisher][r.failed].underWay--
	m.drop(r, known)
}

// mark remembers a URL that has failed. With m.mu held.
func (m *misses) mark(known *missed, url uint64, now time.Time) {
	d, again := known.urls[url]
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
	known.urls[url] = d
}

// forget drops a URL that has failed. With m.mu held.
func (m *misses) forget(known *missed, url uint64) {
	if _, ok := known.urls[url]; ok {
		delete(known.urls, url)
		m.urls--
	}
}

// host returns what is known of a host, or nil if there is no room for it. With m.mu held.
func (m *misses) host(host credential.Authority) *missed {
	if known := m.hosts[host]; known != nil {
		return known
	}
	if len(m.hosts) >= maxMissedHosts && !m.makeRoom() {
		return nil
	}
	if m.hosts == nil {
		m.hosts = make(map[credential.Authority]*missed)
	}
	known := &missed{publishers: make(map[uint64]*tallies)}
	m.hosts[host] = known
	return known
}

// makeRoom forgets the host where least has failed of those that are not being asked:
// documents that name hosts without number neither keep others from being asked, nor
// have one forgotten that was asked in vain more often. With m.mu held.
func (m *misses) makeRoom() bool {
	var least credential.Authority
	fewest, now := math.Inf(1), time.Now()
	for host, known := range m.hosts {
		if known.tallies[0].underWay+known.tallies[1].underWay > 0 {
			continue
		}
		if n := known.tallies[0].settle(now, m.lasting(0)) + known.tallies[1].settle(now, m.lasting(1)); n < fewest {
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

func (m *misses) remove(host credential.Authority, known *missed) {
	m.urls -= len(known.urls)
	m.publishers -= len(known.publishers)
	delete(m.hosts, host)
}

// publisher returns what is known of the one whose request that is. If there are too many
// publishers, further ones count as one. With m.mu held.
func (m *misses) publisher(known *missed, r *request) *tallies {
	if own := known.publishers[r.publisher]; own != nil {
		return own
	}
	now := time.Now()
	for other, own := range known.publishers {
		if m.settled(own, now) {
			delete(known.publishers, other)
			m.publishers--
		}
	}
	if m.publishers >= maxDead {
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

// drop forgets the publisher of a request, and its host, if nothing of it has failed. With
// m.mu held.
func (m *misses) drop(r request, known *missed) {
	now := time.Now()
	if m.settled(known.publishers[r.publisher], now) {
		delete(known.publishers, r.publisher)
		m.publishers--
	}
	if len(known.urls) == 0 && m.settled(&known.tallies, now) {
		m.remove(r.host, known)
	}
}

func (m *misses) hash(text string) uint64 {
	if m.seed == (maphash.Seed{}) {
		m.seed = maphash.MakeSeed()
	}
	return maphash.String(m.seed, text)
}

func (m *misses) settled(t *tallies, now time.Time) bool {
	for i := range t {
		if t[i].underWay > 0 || t[i].settle(now, m.lasting(i)) > 0 {
			return false
		}
	}
	return true
}

// settle makes up for what has failed, as time passes. All tallies lose the same share
// of theirs, so that those of the publishers stay what makes up that of the host.
func (t *tally) settle(now time.Time, lasting time.Duration) float64 {
	t.count *= math.Exp(-float64(now.Sub(t.since)) / float64(lasting))
	t.since = now
	if t.count < 0.5 {
		t.count = 0
	}
	return t.count
}
