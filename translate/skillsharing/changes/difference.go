package changes

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// Difference is a value that a provider has changed. Its texts are safe to show. Characters that a person can't see are escaped, as in JSON. What two
// long values have in common at their beginnings and ends is replaced by an ellipsis, with which no JSON begins or ends.
type Difference struct {
	Path string `json:"path"`          // JSON Pointer into the descriptor, with inputs by their names; empty: all values of a part
	Was  string `json:"was,omitempty"` // JSON; empty: there was none
	Now  string `json:"now,omitempty"` // JSON; empty: there is none
}

const (
	longValue   = 400 // bytes of a value that is shown whole
	shownAround = 60  // bytes at most of what two long values have in common, before and after what differs
	leastRoom   = 64 << 10
)

// Compare returns what two descriptors ask for differently, all of it, in the order of the parts and paths.
func Compare(was, now *document.Descriptor) (list []Difference) {
	before, after := asks(was), asks(now)
	for i := range before {
		if reflect.DeepEqual(before[i], after[i]) {
			continue
		}
		was, now := compact(before[i]), compact(after[i])
		c := comparison{room: leastRoom + len(was) + len(now)}
		c.compare(before[i], after[i])
		if c.room < 0 {
			c = comparison{room: 1}
			c.add(was, now)
		}
		list = append(list, c.list...)
	}
	return list
}

// comparison compares the values of a part and collects their differences.
type comparison struct {
	list []Difference
	path []string
	room int // bytes of paths; < 0: the names around many values are so long that all of them are shown once, as one difference
}

func (c *comparison) compare(was, now any) {
	if c.room < 0 || reflect.DeepEqual(was, now) {
		return
	}
	before, wasObject := was.(object)
	after, isObject := now.(object)
	if !wasObject || !isObject {
		c.add(compact(was), compact(now))
		return
	}
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		was, had := before[name]
		now, has := after[name]
		c.path = append(c.path, name)
		switch {
		case had && has:
			c.compare(was, now)
		case had:
			c.add(compact(was), "")
		default:
			c.add("", compact(now))
		}
		c.path = c.path[:len(c.path)-1]
	}
}

func (c *comparison) add(was, now string) {
	for _, name := range c.path {
		c.room -= 1 + len(name)
	}
	if c.room < 0 {
		return
	}
	was, now = apart(was, now)
	c.list = append(c.list, Difference{safetext.Escape(jsonvalue.Pointer(c.path), ""), safetext.Escape(was, ""), safetext.Escape(now, "")})
}

// apart leaves out the words at the beginnings and ends of two long texts as far as they are equal.
func apart(was, now string) (string, string) {
	if max(len(was), len(now)) <= longValue {
		return was, now
	}
	least, begin, end := min(len(was), len(now)), 0, 0
	for begin < least && was[begin] == now[begin] {
		begin++
	}
	for end < least-begin && was[len(was)-1-end] == now[len(now)-1-end] {
		end++
	}
	if begin = strings.LastIndexByte(was[:max(begin-shownAround, 0)], ' '); begin > 0 {
		was, now = "…"+was[begin:], "…"+now[begin:]
	}
	rest := was[len(was)-max(end-shownAround, 0):]
	if end = len(rest) - strings.IndexByte(rest+" ", ' '); end > 0 {
		was, now = was[:len(was)-end]+"…", now[:len(now)-end]+"…"
	}
	return was, now
}
