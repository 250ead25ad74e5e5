package skillbridge

import (
	"bytes"
	"encoding/json" // for Caddy's raw modules
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// credentialsNamespace is where modules that authenticate requests register.
const credentialsNamespace = "http.skill_bridge.credentials" //nolint:gosec // a name, not a credential

// loadCredentials loads the guest module in a field of a struct, or returns nil
// if there is none.
func loadCredentials(ctx caddy.Context, owner any, field string, raw json.RawMessage) (skillsharing.Credentials, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	module, err := ctx.LoadModule(owner, field)
	if err != nil {
		return nil, err
	}
	credentials, ok := module.(skillsharing.Credentials)
	if !ok {
		return nil, fmt.Errorf("module %T is no credentials", module)
	}
	return credentials, nil
}

// resolvedTexts returns the tokens of a guest module's configuration as texts,
// with the placeholders of strings replaced, so that a secret that has changed
// in its file makes a difference.
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

// addPort adds the port that is written in a URL, if there is one.
func addPort(ports map[uint16]bool, u *url.URL) {
	if port, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		ports[uint16(port)] = true
	}
}

// partition names the part of the cache for the documents of one kind of source
// that were read with the given credentials over the source's own transport.
func partition(kind translate.SourceKind, credentials, transport json.RawMessage) (string, error) {
	texts, err := resolvedTexts(credentials)
	if err != nil {
		return "", err
	}
	d := newDigest()
	d.add(strconv.Itoa(int(kind)))
	d.add(string(transport))
	for _, text := range texts {
		d.add(text)
	}
	return d.text(), nil
}
