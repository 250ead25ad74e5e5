package browse

import (
	"net/url"
	"slices"
	"strconv"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Filter selects the skills of a list. Empty fields select all.
type Filter struct {
	// Words are those of a search, whose results are in the order of their ranks.
	Words string
	// Namespace is that of the source.
	Namespace string
	// State, Type and Tag are those of the skill.
	State, Type, Tag string
	// From is how many skills of the namespace come before those that are shown.
	From int
	// Read says that descriptors that State and Tag need are read, if they are not known.
	Read bool
}

// The parameters of the query of a page.
const (
	queryWords     = "q"
	queryNamespace = "namespace"
	queryState     = "state"
	queryType      = "type"
	queryTag       = "tag"
	queryFrom      = "from"
	queryRead      = "read"
	querySkill     = "skill"
	queryPart      = "part" // without the style and the script, for the page's own script
)

// maxWords bounds the words of a search, in characters.
const maxWords = 500

// filterOf reads a filter.
func filterOf(query url.Values) Filter {
	from, _ := strconv.Atoi(query.Get(queryFrom)) // 0 if it is no number
	return Filter{
		Words: plain(query.Get(queryWords), maxWords), Namespace: plain(query.Get(queryNamespace), maxShownName), State: plain(query.Get(queryState), maxShownName),
		Type: plain(query.Get(queryType), maxShownName), Tag: plain(query.Get(queryTag), maxShownName), From: max(from, 0), Read: query.Get(queryRead) != "",
	}
}

// Selects reports whether the filter selects skills within their source.
func (f *Filter) Selects() bool { return f.Words != "" || f.State != "" || f.Type != "" || f.Tag != "" }

// Link returns the relative URL of the page with the skills that the filter selects.
func (f Filter) Link() string {
	query := url.Values{}
	for name, value := range map[string]string{
		queryWords: f.Words, queryNamespace: f.Namespace, queryState: f.State, queryType: f.Type, queryTag: f.Tag,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if f.From > 0 {
		query.Set(queryFrom, strconv.Itoa(f.From))
	}
	if f.Read {
		query.Set(queryRead, "1")
	}
	return "?" + query.Encode()
}

// of returns the filter for another source, or other skills of the source.
func (f Filter) of(namespace string, from int) Filter {
	f.Namespace, f.From, f.Read = namespace, from, false
	return f
}

// selects reports whether a filter selects a skill, and whether that is because its descriptor was not read that it does not.
func (f *Filter) selects(e *catalog.Entry, status func() catalog.SkillStatus) (selected, unread bool) {
	if f.Type != "" && string(e.CapabilityType) != f.Type {
		return false, false
	}
	if f.State == "" && f.Tag == "" {
		return true, false
	}
	s := status()
	state, _ := s.State()
	if f.State != "" && string(state) != f.State {
		return false, state == catalog.Unknown
	}
	if f.Tag == "" {
		return true, false
	}
	if s.Skill == nil {
		return false, state == catalog.Unknown
	}
	return slices.ContainsFunc(s.Skill.Tags, func(tag string) bool { return plain(tag, maxShownName) == f.Tag }), false
}

// states are the states in the order of a filter.
var states = []catalog.State{
	catalog.Available, catalog.Readable, catalog.NeedsConsent, catalog.NeedsCredentials, catalog.Unreachable, catalog.Invalid, catalog.Incompatible, catalog.Unsupported, catalog.Unknown,
}

// maxTags bounds the tags of a filter.
const maxTags = 50

// choices returns the values of a filter. counts says how many of the shown skills have a tag.
func (f *Filter) choices(counts map[string]int) Choices {
	var c Choices
	for _, s := range states {
		c.States = append(c.States, Choice{string(s), stateLabels[s], f.State == string(s)})
	}
	for _, t := range document.CapabilityTypes {
		c.Types = append(c.Types, Choice{string(t), string(t), f.Type == string(t)})
	}
	tags := make([]string, 0, len(counts))
	for tag := range counts {
		if tag != f.Tag && tag != "" {
			tags = append(tags, tag)
		}
	}
	slices.SortFunc(tags, func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return natural(a, b)
	})
	tags = tags[:min(len(tags), maxTags)]
	if f.Tag != "" {
		tags = append(tags, f.Tag)
	}
	slices.SortFunc(tags, natural)
	for _, tag := range tags {
		c.Tags = append(c.Tags, Choice{tag, tag, tag == f.Tag})
	}
	return c
}
