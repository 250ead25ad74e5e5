package credentials

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// authDetails are the details of AUTH_REQUIRED (Skill Sharing Protocol, section
// 8.3), with a reason that programs can tell apart.
type authDetails struct {
	RequiredAuthType skillsharing.AuthType `json:"required_auth_type"`
	// RequiredBy is "bridge" where its own rules stand in the way, else "provider".
	RequiredBy skillsharing.Source `json:"required_by"`
	Header     string              `json:"header,omitzero"`
	TokenURL   string              `json:"token_url,omitzero"`
	Reason     string              `json:"reason"`
}

func (d authDetails) json() jsontext.Value { return marshal(d) }

// unreachableDetails are the details of ENDPOINT_UNREACHABLE.
type unreachableDetails struct {
	URL    string `json:"url"`
	Reason string `json:"reason"`
}

func (d unreachableDetails) json() jsontext.Value { return marshal(d) }

// marshal encodes details. They consist of text alone, and text of documents
// that is not UTF-8 is mended, so that nothing is left to fail.
func marshal(v any) jsontext.Value {
	b, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil
	}
	return b
}
