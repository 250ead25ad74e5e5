package discovery

import (
	"net/url"
	"strings"
	"time"
)

// Lane is what the descriptors of a publisher at one host have in common: they are likely to be readable, or slow, together. The zero Lane is that
// of a source's indexes.
type Lane struct {
	Publisher string // in the ids of the skills of a registry
	Host      string // with the port, as it is written
}

// LaneOf returns the lane of a descriptor and the id in its index entry. Only registries list skills of several publishers.
func LaneOf(at Location, id string, inRegistry bool) Lane {
	_, rest, _ := strings.Cut(string(at), "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	if !inRegistry {
		return Lane{Host: rest}
	}
	return Lane{publisherOf(id), rest}
}

// Hostname returns the host without the port.
func (l Lane) Hostname() string { return (&url.URL{Host: l.Host}).Hostname() }

// IsFresh reports whether the cache has a fresh descriptor for a location, so that reading it does not wait for its host.
func IsFresh(r *Reader, at Location) bool {
	doc, _ := r.Cache.Peek(string(at), r.partition(descriptorDocument), r.constant().number)
	return doc != nil && time.Now().Before(doc.ExpiresAt)
}
