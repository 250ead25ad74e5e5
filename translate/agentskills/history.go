package agentskills

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// history are contents that lists had, for installers that have read the index. It depends on what sources have changed, and on nothing that requests
// say, such as their Host.
type history struct {
	past map[string][]past // by the names of the skills, oldest first
	size int               // in bytes
}

// past is a content that a list had.
type past struct {
	*content

	until time.Time
}

// maxPast bounds the past contents of a skill.
const maxPast = 32

// replaced notes the contents of the list of a view that another view does not have in its place. The newest content of a skill is known
// without it. The caller holds s.mu.
func (s *Site) replaced(old, now *list) {
	if old == now {
		return
	}
	for _, c := range old.contents {
		if newest := s.contents[c.name]; now.contentOf(c.file) != c && (newest == nil || newest.content != c) {
			s.history.add(c)
		}
	}
	s.history.forget()
}

// listed reports whether a view has a content. The caller holds s.mu.
func (s *Site) listed(c *content) bool {
	for _, v := range s.views {
		if v.contentOf(c.file) == c {
			return true
		}
	}
	return false
}

// add adds a content that is no longer the newest one of its skill.
func (h *history) add(c *content) {
	list := slices.DeleteFunc(h.past[c.name], func(p past) bool { return h.drops(p, p.content == c) })
	for len(list) >= maxPast {
		h.drops(list[0], true)
		list = slices.Delete(list, 0, 1)
	}
	h.past[c.name] = append(list, past{c, time.Now()})
	h.size += c.size()
}

// drops subtracts the size of a content that is dropped.
func (h *history) drops(p past, dropped bool) bool {
	if dropped {
		h.size -= p.content.size()
	}
	return dropped
}

// forget removes what is older than keep. If the rest has more than maxKept bytes, the source with the most loses its oldest contents, so that one that
// changes its skills all the time leaves the others theirs.
func (h *history) forget() {
	sizes := map[string]int{} // by source
	for name, list := range h.past {
		list = slices.DeleteFunc(list, func(p past) bool { return h.drops(p, time.Since(p.until) > keep) })
		if len(list) == 0 {
			delete(h.past, name)
			continue
		}
		h.past[name] = list
		for _, p := range list {
			sizes[p.source] += p.content.size()
		}
	}
	for h.size > maxKept {
		most := slices.MaxFunc(slices.Sorted(maps.Keys(sizes)), func(a, b string) int { return cmp.Compare(sizes[a], sizes[b]) })
		h.forgetOf(most, sizes[most]/2)
		sizes[most] /= 2
	}
}

// forgetOf removes the oldest contents of a source until it has at most so many bytes.
func (h *history) forgetOf(source string, most int) {
	var all []past
	size := 0
	for _, list := range h.past {
		for _, p := range list {
			if p.source == source {
				all = append(all, p)
				size += p.content.size()
			}
		}
	}
	slices.SortFunc(all, func(a, b past) int { return a.until.Compare(b.until) })
	for _, p := range all {
		if size <= most {
			return
		}
		size -= p.content.size()
		h.past[p.name] = slices.DeleteFunc(h.past[p.name], func(other past) bool { return h.drops(other, other.content == p.content) })
	}
}

// earlier returns the content of a version that a skill had, which is the one that the caller may see now; nil: there is none.
func (s *Site) earlier(now *content, url, version string) *content {
	s.mu.Lock()
	var had []*content
	if seen := s.contents[now.name]; seen != nil {
		had = append(had, seen.content)
	}
	for _, p := range slices.Backward(s.history.past[now.name]) {
		had = append(had, p.content)
	}
	s.mu.Unlock()
	for _, c := range had {
		if c.file == now.file && hasVersion(c.digestAt(url), version) {
			return c
		}
	}
	return nil
}
