package discovery

import (
	neturl "net/url"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
)

// Misses counts what fails at hosts that are not the source's own.
type Misses struct{ *misses }

// NewMisses returns misses of which so many a minute are accepted, and so many at once of
// URLs that have not failed.
func NewMisses(perMinute, untried int) *Misses {
	return &Misses{newMisses(perMinute, untried)}
}

// Begin counts a request, unless the pause is not 0. End must be called with the outcome of the request.
func (m *Misses) Begin(host, publisher, url string, kept bool) (end func(well bool), pause time.Duration) {
	at, err := credential.AuthorityOf(&neturl.URL{Scheme: "https", Host: host})
	if err != nil {
		panic(err)
	}
	r, pause := m.misses.begin(at, publisher, url, kept)
	return func(well bool) {
		how := outcomeFailure
		if well {
			how = outcomeSuccess
		}
		m.misses.end([]request{r}, 0, how)
	}, pause
}

// Tallies is how many are kept in mind.
func (m *Misses) Tallies() int { return len(m.tallies) }

// URLs is how many that have failed are kept in mind.
func (m *Misses) URLs() int { return len(m.failed) }
