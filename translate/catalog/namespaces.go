package catalog

import (
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/near"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// namespaces finds the source of a name. It depends on the configuration only, not on what sources publish.
type namespaces struct {
	sources    map[string]*Section // providers and registries by their namespaces
	longest    int                 // length of the longest namespace
	lookAlikes near.LookAlikes
	operators  map[string]operatorName
	toolRules  toolRules
}

// operatorName is what a name in the configuration stands for: an alias of a listed skill, or, if
// id is empty, a directly configured skill.
type operatorName struct {
	section *Section
	id      string
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

// operatorOf returns what a name that the operator configured stands for, or the tool name of such a name.
func (n *namespaces) operatorOf(name string) (operatorName, bool) {
	if o, ok := n.operators[name]; ok {
		return o, true
	}
	given, ok := n.toolRules.byTool[name]
	return n.operators[given], ok
}

// toolOwners returns the providers and registries that could have a skill with a tool name.
func (n *namespaces) toolOwners(name string) (owners []*Section) {
	if !IsToolName(name) {
		return nil
	}
	for _, sections := range n.toolRules.prefixes(name) {
		owners = append(owners, sections...)
	}
	return owners
}

// Owner returns the source that a name belongs to for a principal, by the configuration alone. It returns nil if
// there are several sources, the name has no namespace, and no source or several could have it as a
// tool name, or if the access rules do not let the principal know of the source.
func (c *Catalog) Owner(name, principal string) *Section {
	role := c.policy.Role(principal)
	if o, ok := c.operatorOf(name); ok && o.permits(role) {
		return o.section
	}
	if s := c.sourceOf(name); s != nil && s.Knows(role) {
		return s
	}
	return nil
}

// sourceOf is [Catalog.Owner] for names that the operator did not configure, whatever the access rules say.
func (n *namespaces) sourceOf(name string) *Section {
	if s := n.namespaceOf(name); s != nil {
		return s
	}
	if s := n.onlySource(); s != nil {
		return s
	}
	if owners := n.toolOwners(name); len(owners) == 1 {
		return owners[0]
	}
	return nil
}

// MayMean reports whether a name can mean a skill, as far as the configuration says.
func (n *namespaces) MayMean(name string) bool {
	_, configured := n.operatorOf(name)
	return configured || n.sourceOf(name) != nil || len(n.toolOwners(name)) > 0
}

// nameEntries gives each entry a unique name that begins with the source's namespace and
// resolves to the source. It is the first of these that does so:
//
//   - the plain name, if no other entry has it (see nameOf);
//   - the namespace, a dot and the exact id;
//   - the namespace, a slash and the exact id. It can't begin with the longer namespace of
//     another source, since namespaces have no slash.
//
// If the exact name of one entry is the plain name of another, the other gets its exact name,
// too. An entry without such a name gets none.
func (n *namespaces) nameEntries(t *nameTable) {
	var exact []*Listed
	sharing := map[string]int{}
	for _, e := range t.entries {
		e.Name = t.section.nameOf(e.ID)
		sharing[e.Name]++
	}
	for _, e := range t.entries {
		if sharing[e.Name] > 1 || !n.resolvesTo(t.section, e.Name) {
			exact = append(exact, e)
		} else {
			t.byName[e.Name] = e
		}
	}
	for i := 0; i < len(exact); i++ { // exact grows
		e := exact[i]
		e.Name = t.section.Namespace + "." + e.ID
		if !n.resolvesTo(t.section, e.Name) {
			e.Name = t.section.Namespace + "/" + e.ID
		}
		if !n.resolvesTo(t.section, e.Name) {
			e.Name = ""
			continue
		}
		if other := t.byName[e.Name]; other != nil { // it the plain name of another entry
			exact = append(exact, other)
		}
		t.byName[e.Name] = e
	}
}

// resolvesTo reports whether Owner would return the source for a name that the operator did not configure.
func (n *namespaces) resolvesTo(s *Section, name string) bool {
	_, taken := n.operators[name]
	return !taken && n.namespaceOf(name) == s
}

// Reasons not to list a skill, besides those of the document package.
const (
	claims   = "its id claims the namespace of another source"
	imitates = "its id begins with what looks like the namespace of another source"
)

// unusable returns why the skill with an id is not listed, and the source whose namespace the id
// begins with or imitates. An empty reason means that the skill is listed.
func (n *namespaces) unusable(s *Section, id string) (why string, owner *Section) {
	if why = document.UnlistedID(id); why != "" {
		return why, nil
	}
	if owner = n.namespaceOf(dot(id)); owner != nil && owner != s {
		return claims, owner
	}
	if other := n.lookAlikes.Imitated(s.Namespace, id); other != "" {
		return imitates, n.sources[other]
	}
	return "", nil
}
