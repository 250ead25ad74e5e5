package catalog

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
)

// toolRules are the rules for tool names that depend on the configuration only. They make sure that
// what a source publishes changes no tool name of another source.
//
// All tool names of a source begin with its prefix: the namespace and a dot, as a plain name, but at
// most 57 characters. So only sources of which one's prefix begins with the other's can have the same
// tool names. If the prefixes are equal, all their skills have hashed names. Else the skills of the source
// with the shorter prefix whose names begin with the longer one have hashed names, and so do those
// of the other whose plain names look like hashed ones. What remains are hashed names that are equal,
// which takes a search for 24 bits. They mean no skill (see [Catalog.Resolve]).
type toolRules struct {
	sources   map[string][]*Section // by their prefixes
	outer     map[string]bool       // prefixes that others begin with
	inner     map[string]bool       // prefixes that begin with others
	operators map[string]string     // tool names of the names that the operator configured; empty: it has none
	byTool    map[string]string     // the names that the operator configured by their tool names
	reserved  map[string]bool       // tool names that skills may not have unless the operator named them
}

func toolPrefix(namespace string) string {
	prefix := plainTool(namespace + ".")
	return prefix[:min(len(prefix), toolStem)]
}

// newToolRules makes the rules for sources and for the names in the configuration.
func newToolRules(sources map[string]*Section, operators map[string]operatorName) toolRules {
	r := toolRules{
		sources: map[string][]*Section{}, outer: map[string]bool{}, inner: map[string]bool{},
		operators: map[string]string{}, byTool: map[string]string{}, reserved: map[string]bool{},
	}
	for namespace, s := range sources {
		prefix := toolPrefix(namespace)
		r.sources[prefix] = append(r.sources[prefix], s)
	}
	for prefix := range r.sources {
		for shorter := range r.prefixes(prefix) {
			if shorter != prefix {
				r.outer[shorter], r.inner[prefix] = true, true
			}
		}
	}
	names := slices.Sorted(maps.Keys(operators))
	tools := assignTools(names, func(_ int, plain string) bool { return builtInTools[plain] })
	for i, tool := range tools {
		name := names[i]
		r.reserved[plainTool(name)], r.reserved[tool] = true, true
		if _, taken := operators[tool]; taken && tool != name {
			continue // names come first
		}
		if other, taken := r.byTool[tool]; taken {
			r.operators[other] = ""
			continue
		}
		r.byTool[tool], r.operators[name] = name, tool
	}
	maps.DeleteFunc(r.byTool, func(_, name string) bool { return r.operators[name] == "" })
	return r
}

// prefixes yields the prefixes of sources that a tool name begins with, shortest first, and their sources.
func (r *toolRules) prefixes(tool string) func(yield func(string, []*Section) bool) {
	return func(yield func(string, []*Section) bool) {
		for i := 1; i <= min(len(tool), toolStem); i++ {
			if tool[i-1] != '_' && i != toolStem {
				continue
			}
			if s := r.sources[tool[:i]]; s != nil && !yield(tool[:i], s) {
				return
			}
		}
	}
}

// hashed reports whether a skill of the source with a prefix has a hashed name because of the configuration.
func (r *toolRules) hashed(prefix, plain string) bool {
	switch {
	case builtInTools[plain], r.reserved[plain], len(r.sources[prefix]) > 1, r.inner[prefix] && looksHashed(plain):
		return true
	case !r.outer[prefix]:
		return false
	}
	for longer := range r.prefixes(plain) {
		if len(longer) > len(prefix) {
			return true
		}
	}
	return false
}

// toolTable holds the tool names of the skills of a [nameTable]. It is made when it is first used.
type toolTable struct {
	once   sync.Once
	names  []string // by the indexes of the entries; empty: it has none
	sorted []int32  // indexes of the entries that have one, by tool name
}

// toolNames returns the tool names of the skills of a table.
func (t *nameTable) toolNames(ctx context.Context) *toolTable {
	t.tools.once.Do(func() { t.makeTools(ctx) })
	return &t.tools
}

// makeTools makes the tool names of a table. If a plain name is the id of another skill of the source, the hashed one
// is used, and if that is an id, too, none: with a single source, an id is a name.
func (t *nameTable) makeTools(ctx context.Context) {
	n := &t.section.catalog.namespaces
	prefix := toolPrefix(t.section.Namespace)
	names := make([]string, len(t.entries))
	for i, e := range t.entries {
		if !e.aliased {
			names[i] = e.Name
		}
	}
	isID := func(i int, tool string) bool { e := t.byID[tool]; return e != nil && e != t.entries[i] }
	tools := assignTools(names, func(i int, plain string) bool { return isID(i, plain) || n.toolRules.hashed(prefix, plain) })
	sorted := make([]int32, 0, len(tools))
	var without []string
	for i, e := range t.entries {
		switch {
		case e.aliased:
			tools[i] = n.toolRules.operators[e.Name]
		case n.toolRules.reserved[tools[i]] || isID(i, tools[i]) && n.onlySource() != nil:
			tools[i] = ""
		}
		if tools[i] == "" {
			without = append(without, e.Name)
			continue
		}
		sorted = append(sorted, int32(i))
	}
	slices.SortFunc(sorted, func(a, b int32) int { return cmp.Or(strings.Compare(tools[a], tools[b]), cmp.Compare(a, b)) })
	t.tools.names, t.tools.sorted = tools, sorted
	t.section.warnOfTools(ctx, without)
}

// warnOfTools logs skills that tool lists do not have because their tool names are not unique.
func (s *Section) warnOfTools(ctx context.Context, names []string) {
	if len(names) == 0 {
		return
	}
	s.warn(ctx, "skills are not listed as tools, since their tool names, with the hashes, are those of other skills; give them aliases",
		slog.Int("count", len(names)), slog.Any("first", names[:min(len(names), maxLogged)]))
}

// find returns the range of sorted whose skills have a tool name.
func (t *toolTable) find(tool string) (from, to int) {
	from, found := slices.BinarySearchFunc(t.sorted, tool, func(at int32, tool string) int { return strings.Compare(t.names[at], tool) })
	to = from
	for found && to < len(t.sorted) && t.names[t.sorted[to]] == tool {
		to++
	}
	return from, to
}

// withTool returns the entries of a table that have a tool name.
func (t *nameTable) withTool(ctx context.Context, tool string) []*Listed {
	tools := t.toolNames(ctx)
	from, to := tools.find(tool)
	found := make([]*Listed, 0, to-from)
	for _, at := range tools.sorted[from:to] {
		found = append(found, t.entries[at])
	}
	return found
}

// withHashedTool returns the entries that have a plain tool name in common, or whose longer plain tool names begin with it if it is as long as tool
// names can be, and that therefore have hashed ones, as far as lists for the caller have them; most is their largest number.
func (t *nameTable) withHashedTool(ctx context.Context, plain string, v viewer, most int) (found []*Listed) {
	if !IsToolName(plain) {
		return nil
	}
	tools := t.toolNames(ctx)
	stem := plain[:min(len(plain), toolStem)] + "_"
	from, _ := slices.BinarySearchFunc(tools.sorted, stem, func(at int32, tool string) int { return strings.Compare(tools.names[at], tool) })
	for _, at := range tools.sorted[from:] {
		tool, e := tools.names[at], t.entries[at]
		if !strings.HasPrefix(tool, stem) || len(found) == most {
			break
		}
		own := plainTool(e.Name)
		cut := len(plain) == maxToolName && strings.HasPrefix(own, plain)
		if len(tool) == len(stem)+toolDigits && (own == plain || cut) && hashedTool(e.Name, own) == tool && v.lists(t, e) {
			found = append(found, e)
		}
	}
	return found
}

// Tool returns the tool name of a skill for a principal; empty: it has none.
func (l *Listed) Tool(ctx context.Context, principal string) string {
	if l.Section.Kind == SkillSource {
		return l.Section.catalog.toolRules.operators[l.Name]
	}
	t := l.Section.table.Load()
	e := t.withID(l.ID)
	if e == nil || e.Name == "" {
		return ""
	}
	tools := t.toolNames(ctx)
	tool := tools.names[e.at]
	from, to := tools.find(tool)
	if to-from > 1 && len(t.visible(t.withTool(ctx, tool), l.Section.catalog.viewer(principal), 2)) != 1 || from == to {
		return ""
	}
	return tool
}

// ToolNames returns the tool names of all skills of the source that are known, private ones included: if it was not read, there are none.
// It reads nothing.
func (s *Section) ToolNames(ctx context.Context) []string {
	var tools []string
	if s.Kind == SkillSource {
		tools = []string{s.catalog.toolRules.operators[s.Namespace]}
	} else if t := s.table.Load(); t != nil {
		tools = slices.Clone(t.toolNames(ctx).names)
	}
	return slices.DeleteFunc(tools, func(tool string) bool { return tool == "" })
}
