package document

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"

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
	doc = WithoutBOM(doc)
	if found := Standard.validate(defSkillIndex, doc); found != nil {
		return nil, invalidDocument(run.PhaseDiscovery, string(defSkillIndex), found)
	}
	return decodeIndex(doc)
}

func decodeIndex(doc []byte) (*Index, error) {
	index := new(Index)
	if err := read(doc, index); err != nil {
		return nil, unreadable(run.PhaseDiscovery, string(defSkillIndex), err)
	}
	return index, nil
}

// ReadIndex is [ParseIndex] within the limits for those who use the skills: entries that are invalid are left out, and all entries with an id that
// occurs twice, since none of them says which skill is meant (section 4.3.4). If no entry can be used, or anything else is invalid, the index is.
func (l *Limits) ReadIndex(doc []byte) (*Index, error) {
	doc = WithoutBOM(doc)
	value, found := l.valueOf(defSkillIndex, doc)
	all := found.Tidy()
	if all == nil {
		return decodeIndex(doc)
	}
	object, _ := value.(map[string]any)
	list, isList := object["skills"].([]any)
	rest := maps.Clone(object)
	if isList {
		rest["skills"] = []any{}
	}
	if !isList || schemas()[defSkillIndex].Validate(rest) != nil {
		return nil, invalidDocument(run.PhaseDiscovery, string(defSkillIndex), all)
	}
	var texts struct {
		Protocol ProtocolVersion  `json:"protocol"`
		Provider Provider         `json:"provider"`
		Skills   []jsontext.Value `json:"skills"`
		Unknown  jsontext.Value   `json:",embed"`
	}
	if err := read(doc, &texts); err != nil {
		return nil, unreadable(run.PhaseDiscovery, string(defSkillIndex), err)
	}
	index := entries(list, texts.Skills, "/skills", true)
	if len(index.Skills) == 0 {
		return nil, invalidDocument(run.PhaseDiscovery, string(defSkillIndex), all)
	}
	index.Protocol, index.Provider, index.Unknown = texts.Protocol, texts.Provider, texts.Unknown
	return index, nil
}

// ParseRegistry reads the answer of a registry. Section 4.2 does not define its
// form: it may be an object with an array "skills", or the array itself. The
// entries are validated like those of an index, but an invalid entry, or one with
// the id of an earlier entry, is left out, since the entries come from many
// providers. If there is no array, or it has entries and none can be used, the
// error is like that of [ParseIndex]. The
// result has only the members Skills, LeftOut and LeftOutCount.
func (l *Limits) ParseRegistry(doc []byte) (*Index, error) {
	const what = "registry"
	doc = WithoutBOM(doc)
	value, flaw := jsonvalue.Read(doc, l.documentBounds())
	if flaw != nil {
		return nil, invalidDocument(run.PhaseDiscovery, what, []run.Violation{*flaw})
	}
	path := ""
	list, isList := value.([]any)
	if object, ok := value.(map[string]any); ok {
		path = "/skills"
		list, isList = object["skills"].([]any)
		value = object["skills"]
	}
	if !isList {
		var found jsonvalue.Violations
		found.Add(path, "must be an array of index entries", "array", value)
		return nil, invalidDocument(run.PhaseDiscovery, what, found)
	}
	if flaw := jsonvalue.TooMany(path, list, MaxSkills); flaw != nil {
		return nil, invalidDocument(run.PhaseDiscovery, what, []run.Violation{*flaw})
	}
	texts := jsontext.Value(bytes.TrimSpace(doc))
	for name, value := range jsonrpc.Members(texts) { // of an object
		if string(jsonrpc.Unquote(name)) == "skills" {
			texts = value
		}
	}
	index := entries(list, slices.Collect(jsonrpc.Items(texts)), path, false)
	if len(index.Skills) == 0 && index.LeftOutCount > 0 {
		found := make([]run.Violation, len(index.LeftOut))
		for i, left := range index.LeftOut {
			found[i] = left.Fault
		}
		return nil, invalidDocument(run.PhaseDiscovery, what, found)
	}
	return index, nil
}

// entries reads the entries of an index, or of a registry's answer.
func entries(list []any, texts []jsontext.Value, path string, unique bool) *Index {
	return Entries(list, path, "id", unique, func(i int) (entry IndexEntry, flaws []run.Violation) {
		found := schema.ViolationsOf(schemas()[defSkillIndexEntry].Validate(list[i]), list[i], "")
		entryRules(&found, list[i], "")
		if flaws = found.Tidy(); flaws == nil {
			if err := json.Unmarshal(texts[i], &entry); err != nil {
				flaws = []run.Violation{{Message: safetext.Clip("can't be read: "+err.Error(), jsonvalue.MaxMessage)}}
			}
		}
		return entry, flaws
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
