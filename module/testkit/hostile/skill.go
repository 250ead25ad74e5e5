package hostile

import (
	"cmp"
	"net/url"
	"strings"
)

// Object is a JSON object.
type Object = map[string]any

// A Skill is a published skill. Only the ID is required. An empty URL stands for the provider's; any
// text is allowed.
type Skill struct {
	ID            string
	Version       string // default: 1.0.0
	Access        string // default: public
	Auth          Object // default: none; see [APIKey] and [OAuth2]
	DescriptorURL string
	Endpoint      string
	StatusURL     string
	ResultURL     string
	Unlisted      bool // not in the index, for a skill that is configured by its URL

	Edit      func(descriptor Object) // changes the descriptor that is sent
	EditEntry func(entry Object)      // changes the index entry that is sent
}

// APIKey returns the auth of a skill that needs an API key in a header.
func APIKey(header string) Object { return Object{"type": "api_key", "header": header} }

// OAuth2 returns the auth of a skill that needs OAuth 2.0.
func OAuth2(tokenURL string) Object {
	return Object{"type": "oauth2", "oauth2": Object{
		"authorization_url": "https://login.example.com/authorize", "token_url": tokenURL,
		"scopes": Object{"skills:run": "Run skills."},
	}}
}

// summary returns the common members of an index entry and a descriptor.
func (s *Skill) summary() Object {
	return Object{
		"id": s.ID, "name": s.ID, "description": "Does something.", "version": cmp.Or(s.Version, "1.0.0"),
		"capability_type": "api", "access": cmp.Or(s.Access, "public"),
	}
}

// at returns the path of a part of a skill.
func at(part Part, id string) string { return "/" + string(part) + "/" + url.PathEscape(id) }

func (s *Skill) entry(base string) Object {
	e := s.summary()
	e["descriptor_url"] = cmp.Or(s.DescriptorURL, base+at(Descriptor, s.ID))
	if s.EditEntry != nil {
		s.EditEntry(e)
	}
	return e
}

func (s *Skill) descriptor(base string) Object {
	d := s.summary()
	d["protocol"] = Object{"version": "1.0.0"}
	d["provider"] = Object{"name": "Test"}
	d["endpoint"] = Object{
		"url": cmp.Or(s.Endpoint, base+at(Invoke, s.ID)), "method": "POST",
		"status_url": cmp.Or(s.StatusURL, base+at(Status, s.ID)+"/{execution_id}"),
		"result_url": cmp.Or(s.ResultURL, base+at(Result, s.ID)+"/{execution_id}"),
	}
	d["inputs"] = []Object{{"name": "call", "type": "string", "description": "Which call this is.", "required": false}}
	d["output"] = Object{"content_type": "application/json"}
	d["auth"] = s.Auth
	if s.Auth == nil {
		d["auth"] = Object{"type": "none"}
	}
	if s.Edit != nil {
		s.Edit(d)
	}
	return d
}

// parsePath returns the part, the skill and the execution id of a path.
func parsePath(escapedPath string) (part Part, id, execution string) {
	if escapedPath == indexPath {
		return Index, "", ""
	}
	first, rest, _ := strings.Cut(strings.TrimPrefix(escapedPath, "/"), "/")
	rawID, rawExecution, _ := strings.Cut(rest, "/")
	switch part = Part(first); part {
	case Token, Registry:
		return part, "", ""
	case Descriptor, Invoke, Status, Result:
		return part, unescape(rawID), unescape(rawExecution)
	default:
		return "", "", ""
	}
}

func unescape(segment string) string {
	if plain, err := url.PathUnescape(segment); err == nil {
		return plain
	}
	return segment
}
