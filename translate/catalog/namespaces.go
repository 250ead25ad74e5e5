package catalog

import (
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// namespaces say which source decides a name. They depend on the configuration alone, and on nothing that a source publishes.
type namespaces struct {
	sources    map[string]*Section // providers and registries by their namespaces
	longest    int                 // length of the longest namespace
	lookAlikes lookAlikes
	operators  map[string]operatorName
}

func (n *namespaces) add(s *Section) {
	n.sources[s.Namespace] = s
	n.longest = max(n.longest, len(s.Namespace))
	n.lookAlikes.add(s)
}

// operatorName is a name that the operator gave: of a skill of an index, or, where
// id is empty, of a directly configured skill.
type operatorName struct {
	section *Section
	id      string
	listed  *Listed // of a directly configured skill
}

// namespaceOf returns the source with the longest namespace that name starts with.
func (n *namespaces) namespaceOf(name string) *Section {
	for i := min(len(name)-1, n.longest); i > 0; i-- {
		if name[i] == '.' || name[i] == '/' {
			if s := n.sources[name[:i]]; s != nil {
				return s
			}
		}
	}
	return nil
}

func (n *namespaces) onlySource() *Section {
	if len(n.sources) != 1 {
		return nil
	}
	for _, s := range n.sources {
		return s
	}
	return nil
}

// Owner returns the one source that decides a name, nil if that takes reading all.
func (n *namespaces) Owner(name string) *Section {
	if o, ok := n.operators[name]; ok {
		return o.section
	}
	if s := n.namespaceOf(name); s != nil {
		return s
	}
	return n.onlySource()
}

// nameEntries gives each entry a name that no other has, begins with the source's
// namespace, and is resolved to the source. That is, where it can be:
//
//   - the plain name: the id with / read as ., within the namespace, if no other id has it;
//   - else the namespace, a dot and the exact id, of which there can't be two;
//   - and where that is the operator's name of another skill, or begins with the longer
//     namespace of another source, the namespace, a slash and the exact id: namespaces have
//     no slash, so that none is longer.
//
// Plain names give way to exact ones.
func (n *namespaces) nameEntries(t *nameTable) {
	var exact []*entry
	sharing := map[string]int{}
	for _, e := range t.entries {
		e.name = t.section.nameOf(e.ID)
		sharing[e.name]++
	}
	for _, e := range t.entries {
		if sharing[e.name] > 1 || !n.leadsTo(t.section, e.name) {
			exact = append(exact, e)
		} else {
			t.byName[e.name] = e
		}
	}
	for i := 0; i < len(exact); i++ { // which grows
		e := exact[i]
		e.name = t.section.Namespace + "." + e.ID
		if !n.leadsTo(t.section, e.name) {
			e.name = t.section.Namespace + "/" + e.ID
		}
		if !n.leadsTo(t.section, e.name) {
			e.name = ""
			continue
		}
		if other := t.byName[e.name]; other != nil { // whose plain name it is
			exact = append(exact, other)
		}
		t.byName[e.name] = e
	}
}

// leadsTo reports whether a name, as long as no other source has it, is resolved to the source.
func (n *namespaces) leadsTo(s *Section, name string) bool {
	_, taken := n.operators[name]
	return !taken && n.namespaceOf(name) == s
}

// Why an id can't be used.
const (
	spaced    = "its id begins or ends with a space, so that it could be mistaken for another"
	invisible = "its id has invisible characters, or characters that change the direction of text"
	claims    = "its id claims the namespace of another source"
	imitates  = "its id begins with what looks like the namespace of another source"
)

// unusable says why the skill of an id is not listed, and with whose namespace it is
// concerned; nothing: it is.
func (n *namespaces) unusable(s *Section, id string) (why string, owner *Section) {
	switch {
	case !safetext.Printable(id):
		return invisible, nil
	case strings.TrimSpace(id) != id:
		return spaced, nil
	}
	if owner = n.namespaceOf(dot(id)); owner != nil && owner != s {
		return claims, owner
	}
	if owner = n.lookAlikes.imitated(s, id); owner != nil {
		return imitates, owner
	}
	return "", nil
}
