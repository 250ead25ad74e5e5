package credentials

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials/tokens"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
)

// metadataFresh is how long the metadata of an issuer is not read again.
const metadataFresh = 24 * time.Hour

// metadata is what an authorization server says about itself (RFC 8414, section 2).
type metadata struct {
	Issuer     string `json:"issuer"`
	Revocation string `json:"revocation_endpoint"`
	Names      bool   `json:"authorization_response_iss_parameter_supported"`

	read time.Time
}

// issuer has the metadata of an authorization server, as it was read last.
type issuer struct {
	mu    sync.Mutex
	known *metadata
}

// metadata returns the metadata of an issuer, as it was read in the last day; without an issuer, it is empty.
func (i *issuer) metadata(ctx context.Context, name string, a *credential.Authentication) (*metadata, error) {
	if name == "" {
		return new(metadata), nil
	}
	i.mu.Lock()
	known := i.known
	i.mu.Unlock()
	if known != nil && known.Issuer == name && time.Since(known.read) < metadataFresh {
		return known, nil
	}
	u, err := url.Parse(name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, caddy.ReplacerCtxKey, caddy.NewReplacer()), tokens.FetchTimeout)
	defer cancel()
	for _, address := range tokens.MetadataURLs(u) {
		var found *metadata
		if found, err = readMetadata(ctx, a, address, name); err == nil {
			i.mu.Lock()
			i.known = found
			i.mu.Unlock()
			return found, nil
		}
	}
	e := tokens.Failed(run.Unreachable, run.Bridge, "The metadata of the authorization server can't be read.")
	e.Cause, e.Reach, e.Retry = err, &run.Reach{URL: tokens.RedactURL(name), Reason: "metadata"}, run.RetryIn(2*time.Second, 3)
	return nil, e
}

func readMetadata(ctx context.Context, a *credential.Authentication, address, issuer string) (*metadata, error) {
	found := &metadata{read: time.Now()}
	err := tokens.ReadDocument(ctx, a.Transport, address, found)
	switch {
	case err != nil:
		return nil, err
	case found.Issuer != issuer:
		return nil, fmt.Errorf("%s is the metadata of another issuer", address)
	}
	if u, err := tokens.ParseURL(found.Revocation); err != nil || u.Scheme != "https" && !strings.HasPrefix(issuer, "http:") {
		found.Revocation = ""
	}
	return found, nil
}
