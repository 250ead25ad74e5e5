package credentials

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials/tokens"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
)

// flowLife is how long a user may take to consent.
const flowLife = 10 * time.Minute

// Errors of flows that can't be finished.
var (
	ErrFlow     = errors.New("the flow is not of this user and source, is too old, or the configuration has changed since")
	ErrFinished = errors.New("the flow was finished before")
	ErrIssuer   = errors.New("the answer is not of the authorization server that was asked (option issuer)")
)

// Flow is what the browser of a user keeps, encrypted, until the user has consented or not.
type Flow struct {
	Principal     string    `json:"principal"` // a digest of it
	Namespace     string    `json:"namespace"`
	Verifier      string    `json:"verifier"`
	State         string    `json:"state"`
	Redirect      string    `json:"redirect"`
	TokenEndpoint string    `json:"token_endpoint"`
	ClientID      string    `json:"client_id"`
	Scopes        []string  `json:"scopes,omitzero"`
	Expires       time.Time `json:"expires"`
}

// Of reports whether the flow is one of a principal at a source, and young.
func (f *Flow) Of(principal, namespace string) bool {
	return f.Principal == tokens.Digest(principal) && f.Namespace == namespace && time.Now().Before(f.Expires)
}

// AuthorizationEndpoint returns the authorization endpoint: the configured one, or the one of the descriptor in a.Auth, if that may be used.
func (o *OAuth2User) AuthorizationEndpoint(a *credential.Authentication) (*url.URL, error) {
	named := ""
	if a.Auth != nil && a.Auth.OAuth2 != nil {
		named = a.Auth.OAuth2.AuthorizationURL
	}
	c := o.client.get()
	for _, further := range [][2]string{{"issuer", c.issuer}, {"revocation_url", c.revocationURL}} { // without TLS, another could say where tokens are sent, or read them
		if _, err := tokens.Address(a, further[0], further[1], ""); further[1] != "" && err != nil {
			return nil, err
		}
	}
	text, err := tokens.Address(a, "authorization_url", c.authorizationURL, named)
	if err != nil {
		return nil, err
	}
	return url.Parse(text)
}

// Begin begins a flow, in which a user is asked for scopes (see [OAuth2User.Asks]). It returns the URL to which the browser goes.
func (o *OAuth2User) Begin(ctx context.Context, a *credential.Authentication, redirect string, scopes []string) (string, *Flow, error) {
	c := o.client.get()
	authorization, err := o.AuthorizationEndpoint(a)
	if err != nil {
		return "", nil, err
	}
	endpoint, err := c.Endpoint(a)
	if err != nil {
		return "", nil, err
	}
	if _, err := o.metadata(ctx, c.issuer, a); err != nil {
		return "", nil, err
	}
	f := &Flow{
		Principal: tokens.Digest(a.Owner), Namespace: o.grants.Namespace, Verifier: rand.Text() + rand.Text(), State: rand.Text(), Redirect: redirect,
		TokenEndpoint: endpoint, ClientID: c.ID, Scopes: union(scopes), Expires: time.Now().Add(flowLife),
	}
	challenge := sha256.Sum256([]byte(f.Verifier))
	query := authorization.Query()
	maps.DeleteFunc(query, func(name string, _ []string) bool { return slices.Contains(reservedAuthorizationParams, name) })
	maps.Copy(query, c.authorization)
	maps.Copy(query, url.Values{
		"response_type": {"code"}, "client_id": {c.ID}, "redirect_uri": {redirect}, "state": {f.State},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	})
	if len(f.Scopes) > 0 {
		query.Set("scope", strings.Join(f.Scopes, " "))
	}
	authorization.RawQuery = query.Encode()
	return authorization.String(), f, nil
}

// Finish ends a flow: it exchanges the code for tokens and stores them. The tokens that they replace are revoked if that can't end the new ones, and new ones that can't be stored if that can't
// end the earlier ones. Its errors are [ErrFlow], [ErrFinished], or a
// *run.Failure.
func (o *OAuth2User) Finish(ctx context.Context, a *credential.Authentication, f *Flow, code string) error {
	c := o.client.get()
	endpoint, err := c.Endpoint(a)
	switch {
	case err != nil:
		return err
	case !f.Of(a.Owner, o.grants.Namespace), f.ClientID != c.ID, f.TokenEndpoint != endpoint:
		return ErrFlow
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tokens.FetchTimeout) // the code can be used once
	defer cancel()
	meta, err := o.metadata(ctx, c.issuer, a)
	if err != nil {
		return err
	}
	name := o.grants.nameOf(a.Owner, f.Namespace)
	r := o.grants.rotation(endpoint, name)
	unlock, failure := r.Lock(ctx)
	if failure != nil {
		return failure
	}
	defer unlock()
	before, err := o.grants.open(ctx, name)
	var finished *store.Thing
	if err == nil {
		finished, err = o.grants.Things.Get(ctx, grantFlowKind, tokens.Digest(f.Verifier, f.State))
	}
	switch {
	case err != nil:
		return r.Unavailable(err)
	case finished.Version != 0:
		return ErrFinished
	}
	o.sent.AddTokens(f.Verifier) // not the code: a user can send as many and as large ones as they like, and each is of no use any more
	granted, failure := o.request(c, endpoint, a).Do(ctx, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {f.Redirect}, "code_verifier": {f.Verifier},
	})
	if failure != nil {
		return failure
	}
	o.sent.AddTokens(granted.Access.Value, granted.Refresh.Value)
	row := &grantRow{
		Owner: a.Owner, Namespace: f.Namespace, TokenURL: endpoint, ClientID: c.ID, Revoke: meta.Revocation, Scopes: union(f.Scopes, valid(granted.Scopes)),
		Flow: finished.Name, Consented: time.Now().Round(0), Account: granted.Account,
	}
	if before.row != nil {
		row.Obtained = before.row.Obtained
	}
	row.take(granted, c)
	saving, done := context.WithTimeout(context.WithoutCancel(ctx), tokens.SaveTimeout)
	defer done()
	_, err = o.grants.Things.Put(saving, finished, flowLife) // first: the code was used, also if the grant can't be stored
	for ok := false; err == nil && !ok; {
		if ok, err = o.grants.write(ctx, *before.thing, row); err == nil && !ok { // the earlier grant was ended meanwhile, which needs no lock
			before, err = o.grants.open(saving, name)
		}
	}
	if err != nil {
		if before == nil || before.row == nil || !row.mayShare(before.row) { // else it may end the grant that stays
			o.grants.revoke(ctx, a.Transport, row)
		}
		return r.Unavailable(err)
	}
	if old := before.row; old != nil && !row.mayShare(old) {
		c.update(old)
		o.grants.revoke(ctx, a.Transport, old)
	}
	return nil
}

// Disconnect revokes and deletes the grant of an owner, if there is one.
func (o *OAuth2User) Disconnect(ctx context.Context, a *credential.Authentication, owner string) error {
	return o.grants.disconnect(ctx, a.Transport, o.grants.nameOf(owner, o.grants.Namespace), o, "disconnected")
}

// CheckIssuer checks the issuer of an answer of the authorization server (RFC 9207); sent is false if the answer names none. Its error is [ErrIssuer], unless the
// metadata of the issuer can't be read.
func (o *OAuth2User) CheckIssuer(ctx context.Context, a *credential.Authentication, issuer string, sent bool) error {
	c := o.client.get()
	if c.issuer != "" {
		meta, err := o.metadata(ctx, c.issuer, a)
		if err == nil && (sent && issuer != c.issuer || !sent && meta.Names) {
			err = ErrIssuer
		}
		return err
	}
	if !sent {
		return nil
	}
	authorization, err := o.AuthorizationEndpoint(a)
	if err != nil {
		return err
	}
	endpoint, err := c.Endpoint(a)
	if err != nil {
		return err
	}
	own, err := url.Parse(issuer)
	if tokenURL, _ := url.Parse(endpoint); err != nil || own.Host == "" || !discovery.SameOrigin(own, authorization) && !discovery.SameOrigin(own, tokenURL) {
		return ErrIssuer
	}
	return nil
}
