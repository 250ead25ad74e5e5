package bridge

import (
	"bytes"
	"encoding/json" // for Caddy's raw modules
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
)

// credentialsNamespace is the namespace of credentials modules.
const credentialsNamespace = "http.skill_bridge.credentials" //nolint:gosec // a name, not a credential

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

// partition returns the cache partition of a source that reads documents with these credentials over
// this transport. Different sources have different partitions, so that failures and validation
// results of one do not affect the other. The same source has the same partition after a reload
// and in several sites. The trusted hosts are part of the key, because they decide which requests
// carry discovery credentials.
func partition(s *catalog.Source, credentials, transport json.RawMessage) (string, error) {
	d := lifetime.NewDigest(strconv.Itoa(int(s.Kind)), s.Namespace, s.URL.String(), string(transport))
	if len(credentials) == 0 && !s.Certificate {
		return d.String(), nil
	}
	d.Add(strconv.Itoa(len(s.Trust)))
	d.Add(slices.Sorted(slices.Values(s.Trust))...)
	texts, err := resolvedTexts(credentials)
	if err != nil {
		return "", err
	}
	d.Add(texts...)
	return d.String(), nil
}
