package sources

import (
	"maps"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/near"
)

// Names are the names that a configuration gives to sources and skills.
type Names struct {
	namespaces map[string]bool
	operators  map[string]string // names of the operator, by which the namespaces of their providers; empty: a single skill
}

// Names returns the names in the configuration.
func (from *Sources) Names() Names {
	n := Names{namespaces: map[string]bool{}, operators: map[string]string{}}
	for _, s := range from.sources() {
		if s.Kind == catalog.SkillSource {
			n.operators[s.Namespace] = ""
			continue
		}
		n.namespaces[s.Namespace] = true
		for _, a := range s.Aliases {
			n.operators[a.Name] = s.Namespace
		}
	}
	return n
}

// Shown returns the namespaces of the first sources, for an operator; empty: there are none.
func (from *Sources) Shown() string {
	all := from.sources()
	shown := make([]string, min(len(all), maxNamed))
	for i := range shown {
		shown[i] = all[i].Namespace
	}
	return strings.Join(shown, ", ")
}

// HasNamespace reports whether a provider, a registry or a site has a namespace.
func (n *Names) HasNamespace(namespace string) bool { return n.namespaces[namespace] }

// Similar returns the end of an error about a namespace that no source has: the similar one, or all if there are few, or nothing.
func (n *Names) Similar(namespace string) string {
	all := slices.Sorted(maps.Keys(n.namespaces))
	if similar := near.Find(namespace, near.NewIndex(all)); len(similar) > 0 {
		return "; did you mean " + similar[0] + "?"
	}
	if len(all) == 0 || len(all) > maxNamed {
		return ""
	}
	return "; the namespaces are " + strings.Join(all, ", ")
}

// maxNamed bounds the namespaces that an error lists.
const maxNamed = 10

// Owner returns the namespace of the provider, registry or site that a skill's name belongs to, and whether the name can mean a skill. A single
// skill has no namespace.
func (n *Names) Owner(name string) (namespace string, ok bool) {
	if namespace, ok = n.operators[name]; ok {
		return namespace, true
	}
	for i := len(name) - 2; i > 0; i-- {
		if (name[i] == '.' || name[i] == '/') && n.namespaces[name[:i]] {
			return name[:i], true
		}
	}
	return "", false
}
