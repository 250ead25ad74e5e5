package credentials

import (
	"context"
	"fmt"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials/tokens"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
)

// metadataFresh is how long the metadata of an issuer is not read again.
const metadataFresh = 24 * time.Hour

// metadata returns the metadata of the issuer, as it was read in the last day; without an issuer, it is empty.
func (o *OAuth2User) metadata(ctx context.Context, issuer string, a *credential.Authentication) (*tokens.Metadata, error) {
	if issuer == "" {
		return new(tokens.Metadata), nil
	}
	isOf := func(m *tokens.Metadata, age time.Duration) bool { return age < metadataFresh && m.Issuer == issuer }
	found, _, err := o.issuer.Get(ctx, metadataFresh, isOf, func(ctx context.Context) (*tokens.Metadata, error) {
		return tokens.ReadMetadata(ctx, a.Transport, issuer)
	})
	if err == nil && found.Issuer == issuer {
		return found, nil
	}
	e := run.NotExecuted(run.Unreachable, run.PhaseAuth, "The metadata of the authorization server can't be read.")
	e.Cause, e.Reach, e.Retry = err, &run.Reach{URL: tokens.RedactURL(issuer), Reason: "metadata"}, run.RetryIn(2*time.Second, 3)
	e.Reach.ForOperator = fmt.Sprintf("The metadata of the authorization server can't be read: %v.", err)
	return nil, e
}
