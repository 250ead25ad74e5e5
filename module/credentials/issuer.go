package credentials

import (
	"context"
	"fmt"
	"net/url"
	"time"

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
}

// metadata returns the metadata of the issuer, as it was read in the last day; without an issuer, it is empty.
func (o *OAuth2User) metadata(ctx context.Context, issuer string, a *credential.Authentication) (*metadata, error) {
	if issuer == "" {
		return new(metadata), nil
	}
	isOf := func(m *metadata, age time.Duration) bool { return age < metadataFresh && m.Issuer == issuer }
	found, _, err := o.issuer.Get(ctx, metadataFresh, isOf, func(ctx context.Context) (found *metadata, err error) {
		u, err := url.Parse(issuer)
		if err != nil {
			return nil, err
		}
		for _, address := range tokens.MetadataURLs(u) {
			found = new(metadata)
			if err = tokens.ReadDocument(ctx, a.Transport, address, found); err == nil && found.Issuer != issuer {
				err = fmt.Errorf("%s is the metadata of another issuer", address)
			}
			if err == nil {
				break
			}
		}
		if r, wrong := tokens.ParseURL(found.Revocation); wrong != nil || r.Scheme != "https" && u.Scheme != "http" {
			found.Revocation = ""
		}
		return found, err
	})
	if err == nil && found.Issuer == issuer {
		return found, nil
	}
	e := tokens.Failed(run.Unreachable, run.Bridge, "The metadata of the authorization server can't be read.")
	e.Cause, e.Reach, e.Retry = err, &run.Reach{URL: tokens.RedactURL(issuer), Reason: "metadata"}, run.RetryIn(2*time.Second, 3)
	e.Reach.ForOperator = fmt.Sprintf("The metadata of the authorization server can't be read: %v.", err)
	return nil, e
}
