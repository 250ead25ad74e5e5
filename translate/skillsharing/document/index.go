package document

import (
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema"
)

// ParseIndex validates and reads an index. Its error is a [*run.Failure] of the
// kind [run.InvalidDocument] with the violations. A single invalid entry, or an
// id that occurs twice, makes the index invalid (section 4.3.4). The protocol
// version of an index is not checked, only that of each descriptor.
func ParseIndex(doc []byte) (*Index, error) { return Standard.ParseIndex(doc) }

// ParseIndex is the function [ParseIndex] with the limits l.
func (l *Limits) ParseIndex(doc []byte) (*Index, error) {
	doc = WithoutBOM(doc)
	if found := l.validate(defSkillIndex, doc); found != nil {
		return nil, invalidDocument(run.PhaseDiscovery, string(defSkillIndex), found)
	}
	index := new(Index)
	if err := read(doc, index); err != nil {
		return nil, unreadable(run.PhaseDiscovery, string(defSkillIndex), err)
	}
	return index, nil
}

// ParseRegistry reads the answer of a registry. Section 4.2 does not define its
// form: it may be an object with an array "skills", or the array itself. The
// entries are validated like those of an index, but an invalid entry, or one with
// the id of an earlier entry, is left out, since the entries come from many
// providers. If there is no array, the error is like that of [ParseIndex]. The
// result has only the members Skills, LeftOut and LeftOutCount.
func (l *Limits) ParseRegistry(doc []byte) (*Index, error) {
	const what = "registry"
	doc = WithoutBOM(doc)
	bounds := l.documentBounds(defSkillIndex)
	if jsontext.Value(doc).Kind() == '[' {
		bounds.List.Path = ""
	}
	value, flaw := jsonvalue.Read(doc, bounds)
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
	var texts []jsontext.Value
	var err error
	if path == "" {
		err = read(doc, &texts)
	} else {
		var answer struct {
			Skills []jsontext.Value `json:"skills"`
		}
		err = read(doc, &answer)
		texts = answer.Skills
	}
	if err != nil {
		return nil, unreadable(run.PhaseDiscovery, what, err)
	}
	return l.registryEntries(list, texts, path), nil
}

// maxLeftOut limits Index.LeftOut.
const maxLeftOut = 100

// registryEntries reads the valid entries of a registry's answer.
func (l *Limits) registryEntries(list []any, texts []jsontext.Value, path string) *Index {
	index := &Index{Skills: make([]IndexEntry, 0, len(list))}
	first := make(map[string]int, len(list))
	for i, item := range list {
		at := path + "/" + strconv.Itoa(i)
		fault := l.entryFault(item, at)
		var entry IndexEntry
		if fault == nil {
			if err := json.Unmarshal(texts[i], &entry); err != nil {
				fault = &run.Violation{Path: at, Message: safetext.Clip("can't be read: "+err.Error(), jsonvalue.MaxMessage)}
			}
		}
		if earlier, taken := first[entry.ID]; fault == nil && taken {
			fault = &run.Violation{Path: at + "/id", Message: fmt.Sprintf("must be unique, but %s/%d/id is the same", path, earlier)}
		}
		if fault == nil {
			first[entry.ID] = i
			index.Skills = append(index.Skills, entry)
			continue
		}
		if index.LeftOutCount++; len(index.LeftOut) < maxLeftOut {
			object, _ := item.(map[string]any)
			id, _ := object["id"].(string)
			index.LeftOut = append(index.LeftOut, LeftOut{safetext.Clip(id, maxID), *fault})
		}
	}
	return index
}

// entryFault returns why an index entry can't be used; nil: it can.
func (l *Limits) entryFault(entry any, path string) *run.Violation {
	found := schema.ViolationsOf(schemas()[defSkillIndexEntry].Validate(entry), entry, path)
	entryRules(&found, entry, path)
	if list := found.Tidy(); list != nil {
		return &list[0]
	}
	return nil
}
