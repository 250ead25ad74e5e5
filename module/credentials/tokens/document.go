package tokens

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// maxDocumentSize bounds the metadata of an authorization server, and its keys, in bytes.
const maxDocumentSize = 512 << 10

// MetadataURLs returns where the metadata of an issuer may be: by OpenID Connect Discovery 1.0, section 4, else by RFC 8414, section 3.
func MetadataURLs(issuer *url.URL) [2]string {
	origin, path := issuer.Scheme+"://"+issuer.Host, strings.TrimSuffix(issuer.EscapedPath(), "/")
	return [2]string{origin + path + "/.well-known/openid-configuration", origin + "/.well-known/oauth-authorization-server" + path}
}

// ReadDocument reads a JSON document of an authorization server. It follows no redirect.
func ReadDocument(ctx context.Context, transport http.RoundTripper, address string, to any) error {
	ctx = context.WithValue(ctx, caddy.ReplacerCtxKey, caddy.NewReplacer()) // Caddy's HTTP transport needs one
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	response, err := transport.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("%s: %s", address, exchange.ExactReason(err))
	}
	defer response.Body.Close()
	defer context.AfterFunc(ctx, func() { _ = response.Body.Close() })() // so that a blocked Read returns
	text, err := io.ReadAll(io.LimitReader(response.Body, maxDocumentSize+1))
	switch {
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%s answers with HTTP status %d", address, response.StatusCode)
	case err != nil:
		return fmt.Errorf("%s: %s", address, exchange.ExactReason(err))
	case len(text) > maxDocumentSize:
		return fmt.Errorf("%s is larger than 512 KiB", address)
	case json.Unmarshal(text, to) != nil:
		return fmt.Errorf("%s is not the JSON that it has to be", address)
	}
	return nil
}
