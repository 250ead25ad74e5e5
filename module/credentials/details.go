package credentials

import (
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// authDetails are the details of AUTH_REQUIRED (Skill Sharing Protocol, section
// 8.3), with a reason that programs can tell apart.
type authDetails struct {
	RequiredAuthType skillsharing.AuthType `json:"required_auth_type"`
	// RequiredBy is "bridge" where its own rules stand in the way, else "provider".
	RequiredBy       run.Party         `json:"required_by"`
	Header           string            `json:"header,omitzero"`
	TokenURL         string            `json:"token_url,omitzero"`
	AuthorizationURL string            `json:"authorization_url,omitzero"`
	Scopes           map[string]string `json:"scopes,omitzero"` // name to description
	Reason           string            `json:"reason"`
}

func (d authDetails) json() jsontext.Value { return marshal(d) }

// unreachableDetails are the details of ENDPOINT_UNREACHABLE.
type unreachableDetails struct {
	URL    string `json:"url"`
	Reason string `json:"reason"`
}

func (d unreachableDetails) json() jsontext.Value { return marshal(d) }

// describe adds to the details of a refused token request what the descriptor
// says about it: callers with different descriptors share the refusal.
func describe(err error, auth *skillsharing.Auth) error {
	e, ok := errors.AsType[*run.Failure](err)
	if !ok || e.Kind != run.AuthRequired || auth == nil || auth.OAuth2 == nil {
		return err
	}
	var d authDetails
	if json.Unmarshal(e.Details, &d) != nil || d.RequiredBy == "" {
		return err // details of something else
	}
	d.AuthorizationURL, d.Scopes = auth.OAuth2.AuthorizationURL, auth.OAuth2.Scopes
	e.Details, e.DetailsSource = d.json(), run.Provider
	return e
}

// marshal encodes details. They consist of text alone, and text of documents
// that is not UTF-8 is replaced, so that encoding can't fail.
func marshal(v any) jsontext.Value {
	b, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
	if err != nil {
		return nil
	}
	return b
}
