package discovery

import (
	"context"
	"net/http"
	"net/url"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Read reads a document as [Client.Index] and [Client.Skill] do, by the same rules
// and within the same limits, but neither judges what it says nor keeps it: that
// is for those who want to see what is wrong with it.
func (c *Reader) Read(ctx context.Context, u *url.URL) (*cache.Response, *run.Failure) {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	r, err := c.fetch(ctx, run.PhaseDescriptor, u, exchange.SharedHeader)
	if err == nil && r.StatusCode != http.StatusOK {
		err = &cache.StatusError{StatusCode: r.StatusCode, Header: r.Header, Body: r.Body}
	}
	if err == nil && c.RepeatsSecret(r.Body) {
		err = secretError(run.PhaseDescriptor)
	}
	if err != nil {
		return nil, c.documentFailure(ctx, run.PhaseDescriptor, u, err)
	}
	for _, values := range r.Header { // which are shown if they are not as they should be
		for i := range values {
			values[i] = c.ScrubText(values[i])
		}
	}
	return r, nil
}

// CheckIndexType judges the media type that an index is served with (section
// 4.3.1). It returns nil if that will do.
func CheckIndexType(h http.Header) *run.Failure { return checkMediaType(run.PhaseDiscovery, h) }

// CheckDescriptorType is CheckIndexType for a descriptor.
func CheckDescriptorType(h http.Header) *run.Failure { return checkMediaType(run.PhaseDescriptor, h) }
