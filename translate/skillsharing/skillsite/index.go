package skillsite

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"unicode/utf8"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// IndexPath is where a site serves its index.
const IndexPath = "/.well-known/agent-skills/index.json"

// schemaURI identifies the version of the format that this package reads.
const schemaURI = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"

// Bounds of the format.
const (
	maxName        = 64
	maxDescription = 1024 // characters
	maxURL         = 8 << 10
)

// Bounds of an index.
const (
	maxDepth  = 100
	maxValues = 200_000
)

// ReadIndex reads an index that was served at a URL. Entries that can't be used, because they are invalid, of a type that is not known, or have
// the name of an earlier entry, are left out. The error is a [*run.Failure].
func ReadIndex(text []byte, served *url.URL) (*document.Index, error) {
	list, version, flaw := parse(text)
	if flaw = cmp.Or(version, flaw); flaw != nil {
		return nil, document.Invalid(run.PhaseDiscovery, "index of Agent Skills", *flaw)
	}
	return indexOf(list, served), nil
}

// parse returns the entries of an index, what is wrong with the version of the format that it follows, and why it has no entries.
func parse(text []byte) (list []any, version, flaw *run.Violation) {
	value, flaw := jsonvalue.Read(document.WithoutBOM(text), jsonvalue.Bounds{Depth: maxDepth, Values: maxValues})
	if flaw != nil {
		return nil, nil, flaw
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, nil, &run.Violation{Message: "must be an object", Expected: jsonvalue.Quoted("object"), Actual: jsonvalue.Shown(value)}
	}
	list, ok = object["skills"].([]any)
	if flaw = jsonvalue.TooMany("/skills", list, document.MaxSkills); !ok {
		flaw = &run.Violation{Path: "/skills", Message: "must be an array", Expected: jsonvalue.Quoted("array"), Actual: jsonvalue.Shown(object["skills"])}
	}
	return list, checkSchema(object["$schema"]), flaw
}

// indexOf returns an index with the entries of a list.
func indexOf(list []any, served *url.URL) *document.Index {
	index := document.Entries(list, "/skills", "name", false, func(i int) (document.IndexEntry, []run.Violation) { return readEntry(list[i], served) })
	index.Protocol, index.Provider = document.ProtocolVersion{Version: document.ConsumerVersion}, providerAt(served)
	return index
}

// checkSchema checks which version of the format an index follows.
func checkSchema(value any) *run.Violation {
	expected := jsonvalue.Quoted(schemaURI)
	switch uri, isText := value.(string); {
	case isText && uri == schemaURI:
		return nil
	case value == nil:
		return &run.Violation{Path: "/$schema", Message: "is missing: an index without it has version 0.1.0 of Agent Skills Discovery, which has no digests, so that its files can't be checked", Expected: expected}
	}
	return &run.Violation{Path: "/$schema", Message: "must be that of Agent Skills Discovery 0.2.0", Expected: expected, Actual: jsonvalue.Shown(value)}
}

// readEntry reads an entry of an index. If it can't be used, the violations say why; of a type that is not known, only this is said.
func readEntry(item any, served *url.URL) (document.IndexEntry, []run.Violation) {
	members, ok := item.(map[string]any)
	if !ok {
		return document.IndexEntry{}, []run.Violation{{Message: "must be an object"}}
	}
	var flaws []run.Violation
	var texts [len(entryMembers)]string
	for i, name := range entryMembers {
		text, ok := members[name].(string)
		switch {
		case ok && text != "":
			texts[i] = text
			continue
		case members[name] == nil:
			flaws = append(flaws, run.Violation{Path: "/" + name, Message: "is required", Expected: jsonvalue.Quoted("required"), Actual: jsonvalue.Quoted("missing")})
		default:
			flaws = append(flaws, run.Violation{Path: "/" + name, Message: "must be a text that is not empty", Expected: jsonvalue.Quoted("string"), Actual: jsonvalue.Shown(members[name])})
		}
	}
	name, kind, description, target, digest := texts[0], texts[1], texts[2], texts[3], texts[4]
	artifact := Artifact{Type: kind, Digest: digest}
	if kind != "" && kind != TypeFile && kind != TypeArchive {
		return document.IndexEntry{}, []run.Violation{fault("/type", unknownType, kind)}
	}
	if name != "" && !isName(name) {
		flaws = append(flaws, fault("/name", nameRule, name))
	}
	if utf8.RuneCountInString(description) > maxDescription {
		flaws = append(flaws, fault("/description", fmt.Sprintf("must have at most %d characters", maxDescription), description))
	}
	if digest != "" && !artifact.valid() {
		flaws = append(flaws, fault("/digest", "must be sha256: and 64 lower case hexadecimal digits", digest))
	}
	if len(target) > maxURL {
		flaws = append(flaws, fault("/url", fmt.Sprintf("must have at most %d bytes", maxURL), target))
		target = ""
	}
	u, err := served.Parse(target)
	if err == nil {
		u, err = document.ParseEndpointURL(u.String())
	}
	if err != nil && target != "" {
		flaws = append(flaws, fault("/url", "must be an http(s) URL, or relative to that of the index", target))
	}
	if flaws != nil {
		return document.IndexEntry{}, flaws
	}
	return document.IndexEntry{
		ID: name, Name: name, CapabilityType: document.Knowledge, Description: description,
		DescriptorURL: u.String() + artifact.fragment(), Access: document.Public, Version: artifact.version(),
	}, nil
}

// The rules for names and types.
const (
	nameRule    = "must have 1 to 64 of a-z, 0-9 and single hyphens between them"
	unknownType = "is not known: the bridge reads " + TypeFile + " and " + TypeArchive
)

// entryMembers are the members that each entry has.
var entryMembers = [...]string{"name", "type", "description", "url", "digest"}

func fault(path, message, actual string) run.Violation {
	return run.Violation{Path: path, Message: message, Actual: jsonvalue.Shown(actual)}
}

var nameForm = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// isName reports whether a text is the name of a skill.
func isName(text string) bool { return len(text) <= maxName && nameForm.MatchString(text) }

// providerAt returns the provider of what is served at a URL.
func providerAt(u *url.URL) document.Provider {
	return document.Provider{Name: u.Host, URL: u.Scheme + "://" + u.Host}
}
