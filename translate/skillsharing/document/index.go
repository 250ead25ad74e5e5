package document

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema"
)

// ParseIndex validates and reads an index. Its error is a [*run.Failure] of the
// kind [run.InvalidDocument] with the violations. A single invalid entry, or an
// id that occurs twice, makes the index invalid (section 4.3.4). The protocol
// version of an index is not checked, only that of each descriptor.
func ParseIndex(doc []byte) (*Index, error) {
	index, found := Standard.readIndex(doc, false)
	if len(found) > 0 {
		return nil, Invalid(run.PhaseDiscovery, string(defSkillIndex)+" document", found.Tidy()...)
	}
	return index, nil
}

// ReadIndex is [ParseIndex] within the limits for those who use the skills: entries that are invalid are left out, and all entries with an id that
// occurs twice, since none of them says which skill is meant (section 4.3.4). If no entry can be used, or anything else is invalid, the index is.
func (l *Limits) ReadIndex(doc []byte) (*Index, error) {
	index, found := l.readIndex(doc, true)
	if len(found) > 0 && (index == nil || len(index.Skills) == 0) {
		return nil, Invalid(run.PhaseDiscovery, string(defSkillIndex)+" document", found.Tidy()...)
	}
	return index, nil
}

// readIndex reads an index, and returns what is wrong with it and with its entries. It returns no index if more is wrong than entries.
func (l *Limits) readIndex(doc []byte, unique bool) (*Index, jsonvalue.Violations) {
	doc = WithoutBOM(doc)
	value, flaw := jsonvalue.Read(doc, l.documentBounds())
	object, _ := value.(map[string]any)
	list, isList := object["skills"].([]any)
	if flaw = cmp.Or(flaw, jsonvalue.TooMany("/skills", list, MaxSkills)); flaw != nil {
		return nil, jsonvalue.Violations{*flaw}
	}
	if isList {
		rest := maps.Clone(object)
		rest["skills"] = []any{}
		value = rest
	}
	found := schema.ViolationsOf(schemas()[defSkillIndex].Validate(value), value, "")
	index := entries(list, doc, "/skills", unique)
	if len(found) > 0 {
		return nil, append(found, index.faults()...)
	}
	if err := json.Unmarshal(doc, &struct {
		Protocol *ProtocolVersion `json:"protocol"`
		Provider *Provider        `json:"provider"`
	}{&index.Protocol, &index.Provider}); err != nil {
		return nil, unreadable(err)
	}
	return index, index.faults()
}

// faults returns what is wrong with the entries that can't be used.
func (i *Index) faults() (found jsonvalue.Violations) {
	for _, left := range i.LeftOut {
		found = append(append(found, left.Fault), left.More...)
	}
	return found
}

// ParseRegistry reads the answer of a registry. Section 4.2 does not define its
// form: it may be an object with an array "skills", or the array itself. The
// entries are validated like those of an index, but an invalid entry, or one with
// the id of an earlier entry, is left out, since the entries come from many
// providers. If there is no array, or it has entries and none can be used, the
// error is like that of [ParseIndex]. The
// result has only the members Skills, LeftOut and LeftOutCount.
func (l *Limits) ParseRegistry(doc []byte) (*Index, error) {
	invalid := func(found ...run.Violation) (*Index, error) {
		return nil, Invalid(run.PhaseDiscovery, "registry document", found...)
	}
	doc = WithoutBOM(doc)
	value, flaw := jsonvalue.Read(doc, l.documentBounds())
	path := ""
	if object, ok := value.(map[string]any); ok {
		path, value = "/skills", object["skills"]
	}
	list, isList := value.([]any)
	if flaw = cmp.Or(flaw, jsonvalue.TooMany(path, list, MaxSkills)); flaw != nil {
		return invalid(*flaw)
	}
	if !isList {
		var found jsonvalue.Violations
		found.Add(path, "must be an array of index entries", "array", value)
		return invalid(found...)
	}
	index := entries(list, doc, path, false)
	if found := index.faults(); len(index.Skills) == 0 && found != nil {
		return invalid(found.Tidy()...)
	}
	return index, nil
}

// entries reads the entries of an index, or of a registry's answer, in a valid text.
func entries(list []any, doc []byte, path string, unique bool) *Index {
	texts := jsontext.Value(bytes.TrimSpace(doc))
	if texts.Kind() == '{' {
		texts = jsonrpc.ValueOf(texts, "skills")
	}
	items := slices.Collect(jsonrpc.Items(texts))
	return Entries(list, path, "id", unique, func(i int) (entry IndexEntry, flaws []run.Violation) {
		found := schema.ViolationsOf(schemas()[defSkillIndexEntry].Validate(list[i]), list[i], "")
		entryRules(&found, list[i], "")
		if len(found) == 0 {
			if err := json.Unmarshal(items[i], &entry); err != nil {
				found = unreadable(err)
			}
		}
		return entry, found.Tidy()
	})
}

// maxLeftOut limits Index.LeftOut.
const maxLeftOut = 100

// Entries returns an index with the entries of a list at a path that can be used: read returns one of them, or what is wrong with it. Of several with one
// id, which is the value of a member, the index has the first one, or none, if ids are unique.
func Entries(list []any, path, member string, unique bool, read func(i int) (IndexEntry, []run.Violation)) *Index {
	index := &Index{Skills: make([]IndexEntry, 0, len(list))}
	leaveOut := func(i int, flaws ...run.Violation) {
		if index.LeftOutCount++; len(index.LeftOut) == maxLeftOut {
			return
		}
		for j := range flaws {
			flaws[j].Path = path + "/" + strconv.Itoa(i) + flaws[j].Path
		}
		object, _ := list[i].(map[string]any)
		id, _ := object[member].(string)
		index.LeftOut = append(index.LeftOut, LeftOut{safetext.Clip(id, maxID), flaws[0], flaws[1:]})
	}
	repeats := func(i, other int) {
		leaveOut(i, run.Violation{Path: "/" + member, Message: fmt.Sprintf("must be unique, but %s/%d/%s is the same", path, other, member)})
	}
	first, repeated := make(map[string]int, len(list)), map[string]bool{}
	for i := range list {
		entry, flaws := read(i)
		if flaws != nil {
			leaveOut(i, flaws...)
			continue
		}
		earlier, taken := first[entry.ID]
		if !taken {
			first[entry.ID] = i
			index.Skills = append(index.Skills, entry)
			continue
		}
		repeats(i, earlier)
		if unique && !repeated[entry.ID] {
			repeated[entry.ID] = true
			repeats(earlier, i)
		}
	}
	index.Skills = slices.DeleteFunc(index.Skills, func(e IndexEntry) bool { return repeated[e.ID] })
	return index
}

// Why a skill is not listed because of its id alone.
const (
	SpacedID    = "its id begins or ends with a space, so that it could be mistaken for another"
	InvisibleID = "its id has invisible characters, or characters that change the direction of text"
)

// UnlistedID returns why no source lists a skill with an id; empty: its id is no reason.
func UnlistedID(id string) string {
	switch {
	case !safetext.Printable(id):
		return InvisibleID
	case strings.TrimSpace(id) != id:
		return SpacedID
	}
	return ""
}
