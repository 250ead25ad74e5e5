package network

import (
	"hash/maphash"
	"net/url"
	"sync"
	"sync/atomic"
)

// maxHosts is how many hosts of one source get connections that are reused, and HTTP/2. Webhooks have no source, and count as one.
const maxHosts = 10_000

// hosts counts the hosts that each source has named. [net/http.Transport] keeps about 430 bytes for each host that it ever tried to reach
// unless a connection to it becomes idle, so that a source that names ever new hosts would fill the memory.
type hosts struct {
	seed   maphash.Seed
	recent [256]atomic.Uint64 // hosts that are known, for a look without the lock

	mu    sync.Mutex
	known map[string]map[uint64]struct{} // hashes of hosts, by source
}

func newHosts() *hosts {
	return &hosts{seed: maphash.MakeSeed(), known: make(map[string]map[uint64]struct{})}
}

// admit reports whether a host is one of the first maxHosts of a source.
func (h *hosts) admit(source string, u *url.URL) bool {
	key := maphash.Comparable(h.seed, [3]string{source, u.Scheme, u.Host})
	slot := &h.recent[key%uint64(len(h.recent))]
	if slot.Load() == key {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.known[source]
	if known == nil {
		known = make(map[uint64]struct{})
		h.known[source] = known
	}
	if _, ok := known[key]; !ok && len(known) >= maxHosts {
		return false
	}
	known[key] = struct{}{}
	slot.Store(key)
	return true
}
