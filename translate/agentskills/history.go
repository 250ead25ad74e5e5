package agentskills

import (
	"slices"
	"time"
)

// version is a content that a skill has, or had, for installers that have read the index. It depends on what sources have changed, and on nothing that
// requests say, such as their Host.
type version struct {
	*content

	until time.Time // when a list had it the last time
}

// maxPast bounds the past contents of a skill.
const maxPast = 32

// remember notes that a list has a content, or had it until now. The last version of a skill is its newest content. The caller holds s.mu.
func (s *Site) remember(c *content, newest bool) {
	versions := s.contents[c.name]
	at := slices.IndexFunc(versions, func(v version) bool { return v.content == c })
	switch {
	case at < 0 && newest:
		if len(versions) > 0 {
			versions[len(versions)-1].until = time.Now()
		}
		versions = append(versions[max(0, len(versions)-maxPast):], version{c, time.Now()})
	case at < 0:
		versions = slices.Insert(versions, 0, version{c, time.Now()})
	default:
		versions[at].until = time.Now()
	}
	s.contents[c.name] = versions
}

// forget removes the versions that no list had for keep. If the past ones among the rest have more than maxKept bytes, the sources with more than
// their share lose their oldest, so that one that changes its skills all the time leaves the others theirs. The caller holds s.mu.
func (s *Site) forget() {
	var past []version
	sizes, all := map[string]int{}, 0 // by source
	for name, versions := range s.contents {
		newest := versions[len(versions)-1].content
		versions = slices.DeleteFunc(versions, func(v version) bool {
			return time.Since(v.until) > keep && (v.content != newest || !s.listed(newest))
		})
		if s.contents[name] = versions; len(versions) == 0 {
			delete(s.contents, name)
		}
		for _, v := range versions {
			if v.content != newest {
				past = append(past, v)
				sizes[v.source] += v.size()
				all += v.size()
			}
		}
	}
	if all <= maxKept {
		return
	}
	share := maxKept / len(sizes)
	slices.SortFunc(past, func(a, b version) int { return a.until.Compare(b.until) })
	for _, v := range past {
		if sizes[v.source] > share {
			sizes[v.source] -= v.size()
			s.contents[v.name] = slices.DeleteFunc(s.contents[v.name], func(other version) bool { return other.content == v.content })
		}
	}
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

// earlier returns the content of a version that a skill had, which is the one that the caller may see now; nil: there is none.
func (s *Site) earlier(now *content, url, digest string) *content {
	s.mu.Lock()
	versions := slices.Clone(s.contents[now.name])
	s.mu.Unlock()
	for _, v := range slices.Backward(versions) {
		if v.file == now.file && hasVersion(v.digestAt(url), digest) {
			return v.content
		}
	}
	return nil
}
