package skillsite

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// IsIndex reports whether a document is meant as an index of Agent Skills: it was read at the path of one, its $schema names the format,
// or an entry has a type or a digest, and no member of the Skill Sharing Protocol. from is the URL that it was read from; empty: it was a file.
func IsIndex(text []byte, from string) bool {
	if u, err := url.Parse(from); err == nil && strings.HasSuffix(u.Path, IndexPath) {
		return true
	}
	var head struct {
		Schema jsontext.Value   `json:"$schema"`
		Skills []jsontext.Value `json:"skills"`
	}
	// If a member has another type, those before it are read.
	_ = json.Unmarshal(document.WithoutBOM(text), &head, jsontext.AllowDuplicateNames(true))
	if uri, _ := document.Text(head.Schema); strings.Contains(uri, "agentskills.io") {
		return true
	}
	return slices.ContainsFunc(head.Skills, func(entry jsontext.Value) bool {
		var e struct {
			Type       jsontext.Value `json:"type"`
			Digest     jsontext.Value `json:"digest"`
			Descriptor jsontext.Value `json:"descriptor_url"`
			Capability jsontext.Value `json:"capability_type"`
		}
		err := json.Unmarshal(entry, &e, jsontext.AllowDuplicateNames(true))
		return err == nil && (e.Type != nil || e.Digest != nil) && e.Descriptor == nil && e.Capability == nil
	})
}

// Inspect returns an index for its author: nil if it has no entries that can be read, its faults, and its entries whose type is not known. from
// is the URL that the index was read from; empty: it was a file.
func Inspect(text []byte, from string) (index *document.Index, faults, unknown []run.Violation) {
	served, err := url.Parse(from)
	if err != nil || served.Host == "" {
		served = &url.URL{Scheme: "https", Host: "site.invalid", Path: IndexPath}
	}
	list, version, flaw := parse(text)
	for _, v := range []*run.Violation{version, flaw} {
		if v != nil {
			faults = append(faults, *v)
		}
	}
	if flaw != nil {
		return nil, faults, nil
	}
	index = indexOf(list, served)
	for _, left := range index.LeftOut {
		if left.Fault.Message == unknownType {
			left.Fault.Message += ", and ignores the entry"
			unknown = append(unknown, left.Fault)
			continue
		}
		faults = append(append(faults, left.Fault), left.More...)
	}
	return index, faults, unknown
}

// MeaningOf returns the meaning of the member of an index at a JSON Pointer.
func MeaningOf(pointer string) document.Meaning {
	if member, ok := strings.CutPrefix(pointer, "/skills/"); ok {
		_, name, _ := strings.Cut(member, "/")
		return meanings[name]
	}
	return meanings[strings.TrimPrefix(pointer, "/")]
}

// meanings are those of the members of an index and of its entries.
var meanings = map[string]document.Meaning{
	"$schema":     {About: "The version of the format.", Example: jsonvalue.Quoted(schemaURI)},
	"skills":      {About: "One entry for each skill.", Example: jsontext.Value("[]")},
	"name":        {About: "The name of the skill, the same as in its " + Main + ".", Example: jsontext.Value(`"translate-text"`)},
	"type":        {About: "The form of the file: " + TypeFile + " for a " + Main + ", " + TypeArchive + " for a .tar.gz or .zip with " + Main + " at its root.", Example: jsonvalue.Quoted(TypeFile)},
	"description": {About: "What the skill is for, in words by which an agent chooses it.", Example: jsontext.Value(`"Translates a text into another language."`)},
	"url":         {About: "Where the file is, absolute or relative to the index.", Example: jsontext.Value(`"translate-text/SKILL.md"`)},
	"digest":      {About: "The SHA-256 digest of the bytes of the file.", Example: jsonvalue.Quoted(digestOf("", nil))},
}

// InspectArtifact returns the faults of the file of an entry of an index.
func InspectArtifact(e *document.IndexEntry, text []byte) []run.Violation {
	a, _, _ := ArtifactOf(e.DescriptorURL)
	served, err := url.Parse(URLOf(e))
	if err != nil {
		return []run.Violation{{Path: "/url", Message: "is not a URL"}}
	}
	_, descriptor, err := a.Read(text, served)
	if f, ok := errors.AsType[*run.Failure](err); ok {
		return f.Violations
	}
	if d, err := document.ParseDescriptor(descriptor); err == nil && d.ID != e.ID {
		return []run.Violation{{Path: "/name", Message: "must be the name in the index", Expected: jsonvalue.Quoted(e.ID), Actual: jsonvalue.Quoted(d.ID)}}
	}
	return nil
}

// URLOf returns the URL of the file of an entry.
func URLOf(e *document.IndexEntry) string {
	_, fragment, _ := ArtifactOf(e.DescriptorURL)
	return strings.TrimSuffix(e.DescriptorURL, fragment)
}
