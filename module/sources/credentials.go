package sources

import (
	"bytes"
	"encoding/json" // for Caddy's raw modules
	"errors"
	"fmt"
	"io"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
)

// loadDiscoveryCredentials loads credentials for requests for documents. They have to work without
// a descriptor.
func loadDiscoveryCredentials(ctx caddy.Context, owner any, field string, raw json.RawMessage) (credential.Credentials, error) {
	credentials, err := loadCredentials(ctx, owner, field, raw)
	if err == nil && credentials != nil && !credentials.Supports(nil) {
		return nil, errors.New("credentials of this kind need a skill's descriptor, so they can't be used for reading one: use them in credentials, and another kind here")
	}
	return credentials, err
}

// loadCredentials loads the guest module in a field of a struct, or returns nil
// if there is none.
func loadCredentials(ctx caddy.Context, owner any, field string, raw json.RawMessage) (credential.Credentials, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	module, err := ctx.LoadModule(owner, field)
	if err != nil {
		return nil, err
	}
	credentials, ok := module.(credential.Credentials)
	if !ok {
		return nil, fmt.Errorf("module %T does not provide credentials", module)
	}
	return credentials, nil
}

// resolvedTexts returns the tokens of a guest module's configuration as texts, with the placeholders
// of strings replaced, so that the texts differ after a secret was changed in its file.
func resolvedTexts(raw json.RawMessage) ([]string, error) {
	var texts []string
	replacer := caddy.NewReplacer()
	decoder := jsontext.NewDecoder(bytes.NewReader(raw))
	for {
		token, err := decoder.ReadToken()
		if errors.Is(err, io.EOF) {
			return texts, nil
		}
		if err != nil {
			return nil, err
		}
		text := token.String()
		if token.Kind() == '"' {
			text = replacer.ReplaceAll(text, "")
		}
		texts = append(texts, text)
	}
}

// checkSecrets checks credentials. Restricted means that the configuration says who may use them,
// in the handler or in the provider, skill or registry that has them.
func checkSecrets(credentials json.RawMessage, restricted bool) error {
	switch {
	case len(credentials) == 0:
		return nil
	case !jsontext.Value(credentials).IsValid():
		return errors.New("credentials are not valid JSON, or have a duplicate member")
	case !restricted:
		return errors.New("credentials need require_principal, here or for the whole bridge " +
			"(only authenticated callers may use them), or allow_anonymous for the whole bridge (everyone who can reach it may use them)")
	}
	return nil
}

// isPersonal reports whether each principal has credentials of its own, which anonymous callers can't have.
func isPersonal(credentials json.RawMessage) bool {
	var config struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(credentials, &config) == nil && config.Type == "oauth2_user"
}

// checkTokenURL refuses discovery credentials of kind oauth2 without a token_url. The module itself
// reports whether it supports discovery, but only after it was loaded, when the line of the
// Caddyfile is no longer known.
func checkTokenURL(credentials json.RawMessage) error {
	var config struct {
		Type     string `json:"type"`
		TokenURL string `json:"token_url"`
	}
	if json.Unmarshal(credentials, &config) == nil && config.Type == "oauth2" && config.TokenURL == "" {
		return errors.New("discovery_credentials oauth2 needs token_url: " +
			"the index and descriptors are read before a descriptor can name a token endpoint")
	}
	return nil
}
