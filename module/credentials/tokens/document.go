package tokens

import (
	"context"
	"errors"
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

// Metadata is what an authorization server says about itself (RFC 8414, section 2).
type Metadata struct {
	Issuer     string `json:"issuer"`
	Keys       string `json:"jwks_uri"`            // empty also if it is less safe than the address of the issuer
	Revocation string `json:"revocation_endpoint"` // likewise
	Names      bool   `json:"authorization_response_iss_parameter_supported"`
}

// ReadMetadata reads the metadata of an issuer: by OpenID Connect Discovery 1.0, section 4, else by RFC 8414, section 3.
func ReadMetadata(ctx context.Context, transport http.RoundTripper, issuer string) (*Metadata, error) {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil, err
	}
	origin, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	var faults []string
	for _, address := range []string{origin + path + "/.well-known/openid-configuration", origin + "/.well-known/oauth-authorization-server" + path} {
		m := new(Metadata)
		switch err := ReadDocument(ctx, transport, address, m); {
		case err != nil:
			faults = append(faults, err.Error())
		case m.Issuer != issuer:
			faults = append(faults, fmt.Sprintf("%s is the metadata of the issuer %.200q, not of %q", address, m.Issuer, issuer))
		default:
			for _, named := range []*string{&m.Keys, &m.Revocation} {
				if to, err := ParseURL(*named); err != nil || to.Scheme != "https" && u.Scheme != "http" {
					*named = ""
				}
			}
			return m, nil
		}
	}
	return nil, errors.New(strings.Join(faults, "; "))
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
