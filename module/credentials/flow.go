package credentials

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
)

const (
	// flowLife is how long a user may take to consent.
	flowLife = 10 * time.Minute
	// metadataFresh is how long the metadata of an issuer is not read again, and maxMetadata its size in bytes.
	metadataFresh = 24 * time.Hour
	maxMetadata   = 512 << 10
)

// Errors of flows that can't be finished.
var (
	ErrFlow     = errors.New("the flow is not of this user and source, is too old, or the configuration has changed since")
	ErrFinished = errors.New("the flow was finished before")
	ErrIssuer   = errors.New("the answer is not of the authorization server that was asked")
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
	return f.Principal == digest(principal) && f.Namespace == namespace && time.Now().Before(f.Expires)
}

// AuthorizationEndpoint returns the authorization endpoint: the configured one, or the one of the descriptor in a.Auth, if that may be used.
func (o *OAuth2User) AuthorizationEndpoint(a *credential.Authentication) (*url.URL, error) {
	named := ""
	if a.Auth != nil && a.Auth.OAuth2 != nil {
		named = a.Auth.OAuth2.AuthorizationURL
	}
	text, err := address(a, "authorization_url", o.client.get().authorizationURL, named)
	if err != nil {
		return nil, err
	}
	return url.Parse(text)
}

// OperatorScopes returns the scopes that the operator has written, and whether they are added to those of descriptors.
func (o *OAuth2User) OperatorScopes() (scopes []string, added bool) {
	c := o.client.get()
	return c.scopes, c.added
}

// Begin begins a flow, in which a user is asked for scopes, and for all that the user has granted before. It returns the URL to which the browser goes.
func (o *OAuth2User) Begin(ctx context.Context, a *credential.Authentication, redirect string, scopes []string) (string, *Flow, error) {
	c := o.client.get()
	authorization, err := o.AuthorizationEndpoint(a)
	if err != nil {
		return "", nil, err
	}
	endpoint, err := c.endpoint(a)
	if err != nil {
		return "", nil, err
	}
	if _, err := o.metadata(ctx, c, a); err != nil {
		return "", nil, err
	}
	g, failure := o.held(ctx, a.Owner, true)
	if failure != nil {
		return "", nil, failure
	}
	if g.row != nil && g.row.ClientID == c.id && g.row.TokenURL == endpoint {
		scopes = append(slices.Clone(scopes), g.row.granted()...)
	}
	f := &Flow{
		Principal: digest(a.Owner), Namespace: o.connection.Namespace, Verifier: rand.Text() + rand.Text(), State: rand.Text(), Redirect: redirect,
		TokenEndpoint: endpoint, ClientID: c.id, Scopes: union(scopes), Expires: time.Now().Add(flowLife),
	}
	challenge := sha256.Sum256([]byte(f.Verifier))
	query := url.Values{
		"response_type": {"code"}, "client_id": {c.id}, "redirect_uri": {redirect}, "state": {f.State},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}
	maps.Copy(query, c.authorization)
	if len(f.Scopes) > 0 {
		query.Set("scope", strings.Join(f.Scopes, " "))
	}
	if resource := c.params.Get("resource"); resource != "" {
		query.Set("resource", resource)
	}
	kept := slices.DeleteFunc(strings.Split(authorization.RawQuery, "&"), func(parameter string) bool {
		name, _, _ := strings.Cut(parameter, "=")
		name, err := url.QueryUnescape(name)
		_, own := query[name]
		return err != nil || name == "" || own || slices.Contains(reservedAuthorizationParams, name)
	})
	authorization.RawQuery = strings.Join(append(kept, query.Encode()), "&")
	return authorization.String(), f, nil
}

// Finish ends a flow: it exchanges the code for tokens and stores them. The tokens that they replace are revoked. Its errors are [ErrFlow], [ErrFinished], or a
// *run.Failure.
func (o *OAuth2User) Finish(ctx context.Context, a *credential.Authentication, f *Flow, code string) error {
	c := o.client.get()
	endpoint, err := c.endpoint(a)
	switch {
	case err != nil:
		return err
	case !f.Of(a.Owner, o.connection.Namespace), f.ClientID != c.id, f.TokenEndpoint != endpoint:
		return ErrFlow
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout) // the code can be used once
	defer cancel()
	ctx = context.WithValue(ctx, caddy.ReplacerCtxKey, caddy.NewReplacer())
	meta, err := o.metadata(ctx, c, a)
	if err != nil {
		return err
	}
	name, err := o.name(ctx, a.Owner)
	if err != nil {
		return o.rotation("", "").unavailable(err)
	}
	r, locked := o.rotation(endpoint, name), time.Now()
	unlock, failure := r.lock(ctx)
	if failure != nil {
		return failure
	}
	defer func() { unlock(time.Since(locked)) }()
	before, err := o.connection.load(ctx, name)
	flow := digest(f.Verifier, f.State)
	switch {
	case err != nil:
		return r.unavailable(err)
	case before.row != nil && before.row.Flow == flow:
		return ErrFinished
	}
	o.noteSent(code, f.Verifier)
	granted, failure := o.request(c, endpoint, a).do(ctx, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {f.Redirect}, "code_verifier": {f.Verifier},
	})
	if failure != nil {
		return failure
	}
	o.noteSent(granted.access.value, granted.refresh.value)
	row := &grantRow{
		Owner: a.Owner, Namespace: f.Namespace, TokenURL: endpoint, ClientID: c.id, Revoke: cmp.Or(c.revocationURL, meta.Revocation), Asked: f.Scopes,
		Flow: flow, Consented: time.Now().Round(0),
	}
	if before.row != nil {
		row.Obtained = before.row.Obtained
	}
	row.take(granted, c)
	ok, err := o.write(ctx, *before.thing, row)
	if err == nil && !ok {
		err = errors.New("another instance has stored a grant meanwhile")
	}
	if err != nil {
		o.logRevocation(o.connection.revoke(ctx, a.Transport, row.Revoke, row))
		return r.unavailable(err)
	}
	if old := before.row; old != nil && cmp.Or(old.Refresh, old.Access) != cmp.Or(row.Refresh, row.Access) {
		o.logRevocation(o.connection.revoke(ctx, a.Transport, cmp.Or(old.Revoke, row.Revoke), old))
	}
	return nil
}

// Disconnect revokes and deletes the grant of an owner, if there is one.
func (o *OAuth2User) Disconnect(ctx context.Context, a *credential.Authentication, owner string) error {
	name, err := o.name(ctx, owner)
	if err != nil {
		return o.rotation("", "").unavailable(err)
	}
	locking, cancel := context.WithTimeout(ctx, revocationTimeout)
	defer cancel()
	locked := time.Now()
	if unlock, failure := o.rotation("", name).lock(locking); failure == nil { // so that no new token is got meanwhile
		defer func() { unlock(time.Since(locked)) }()
	}
	g, err := o.connection.load(ctx, name)
	if err == nil {
		err = o.connection.Things.Delete(ctx, grantKind, name)
	}
	o.read.mu.Lock()
	o.read.rows.delete(name)
	o.read.mu.Unlock()
	if g != nil && g.row != nil {
		o.noteSent(g.row.Access, g.row.Refresh)
		o.logRevocation(o.connection.revoke(ctx, a.Transport, cmp.Or(o.client.get().revocationURL, g.row.Revoke), g.row))
		if err == nil {
			o.connection.Ended(owner, "disconnected")
		}
	}
	if err != nil {
		return o.rotation("", name).unavailable(err)
	}
	return nil
}

func (o *OAuth2User) logRevocation(err error) {
	if err != nil {
		o.logger.Warn("a token of a user could not be revoked; the bridge has deleted it", zap.Error(err))
	}
}

// CheckIssuer checks the issuer of an answer of the authorization server (RFC 9207); sent is false if the answer names none. Its error is [ErrIssuer], unless the
// metadata of the issuer can't be read.
func (o *OAuth2User) CheckIssuer(ctx context.Context, a *credential.Authentication, issuer string, sent bool) error {
	c := o.client.get()
	if c.issuer != "" {
		meta, err := o.metadata(ctx, c, a)
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
	endpoint, err := c.endpoint(a)
	if err != nil {
		return err
	}
	origin := func(u *url.URL, err error) string {
		if err != nil || u.Host == "" {
			return ""
		}
		return strings.ToLower(u.Scheme + "://" + u.Host)
	}
	if own := origin(url.Parse(issuer)); own == "" || own != origin(authorization, nil) && own != origin(url.Parse(endpoint)) {
		return ErrIssuer
	}
	return nil
}

// metadata is what an authorization server says about itself (RFC 8414, section 2).
type metadata struct {
	Issuer     string `json:"issuer"`
	Revocation string `json:"revocation_endpoint"`
	Names      bool   `json:"authorization_response_iss_parameter_supported"`

	read time.Time
}

// metadata returns the metadata of the issuer, as it was read in the last day; without an issuer, it is empty.
func (o *OAuth2User) metadata(ctx context.Context, c *userClient, a *credential.Authentication) (*metadata, error) {
	if c.issuer == "" {
		return new(metadata), nil
	}
	o.read.mu.Lock()
	known := o.read.meta
	o.read.mu.Unlock()
	if known != nil && known.Issuer == c.issuer && time.Since(known.read) < metadataFresh {
		return known, nil
	}
	u, err := url.Parse(c.issuer)
	if err != nil {
		return nil, err
	}
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	for _, at := range []string{path + "/.well-known/openid-configuration", "/.well-known/oauth-authorization-server" + path} {
		var found *metadata
		if found, err = readMetadata(ctx, a, u.Scheme+"://"+u.Host+at, c.issuer); err == nil {
			o.read.mu.Lock()
			o.read.meta = found
			o.read.mu.Unlock()
			return found, nil
		}
	}
	e := failed(run.Unreachable, run.Bridge, "The metadata of the authorization server can't be read.")
	e.Cause, e.Reach, e.Retry = err, &run.Reach{URL: redactURL(c.issuer), Reason: "metadata"}, run.RetryIn(2*time.Second, 3)
	return nil, e
}

func readMetadata(ctx context.Context, a *credential.Authentication, address, issuer string) (*metadata, error) {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, caddy.ReplacerCtxKey, caddy.NewReplacer()), fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := a.Transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers with HTTP status %d", address, resp.StatusCode)
	}
	defer context.AfterFunc(ctx, func() { _ = resp.Body.Close() })() // so that a blocked Read returns
	found := &metadata{read: time.Now()}
	text, err := io.ReadAll(http.MaxBytesReader(nil, resp.Body, maxMetadata))
	if err == nil {
		err = json.Unmarshal(text, found, lenient)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s is no metadata of an authorization server", address)
	case found.Issuer != issuer:
		return nil, fmt.Errorf("%s is the metadata of another issuer", address)
	}
	if u, err := parseTokenURL(found.Revocation); err != nil || u.Scheme != "https" && !strings.HasPrefix(issuer, "http:") {
		found.Revocation = ""
	}
	return found, nil
}

// Known returns the scopes that answers PERMISSION_DENIED of the provider have named.
func (o *OAuth2User) Known(ctx context.Context) []string {
	scopes, _, err := o.known(ctx)
	if err != nil {
		o.logger.Warn("the scopes that a provider asks for can't be read from the database", zap.Error(err))
	}
	return scopes
}

func (o *OAuth2User) known(ctx context.Context) ([]string, *store.Thing, error) {
	name := digest(o.connection.Realm, o.connection.Namespace)
	thing, err := o.connection.Things.Get(ctx, grantScopeKind, name)
	if errors.Is(err, store.ErrNoThing) {
		return nil, &store.Thing{Kind: grantScopeKind, Name: name}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	text, _, err := o.connection.Sealer.OpenText(ctx, string(thing.Value), grantScopeKind, name)
	if errors.Is(err, runtoken.ErrInvalid) { // a stranger has written it, or the seal_key was replaced
		text, err = "", nil
	}
	return strings.Fields(text), thing, err
}

// remember keeps scopes that a provider asks for, with the source.
func (o *OAuth2User) remember(ctx context.Context, scopes []string) error {
	for {
		known, thing, err := o.known(ctx)
		if err != nil {
			return err
		}
		all := union(known, scopes)
		if len(all) == len(known) || len(all) > maxScopes {
			return nil
		}
		sealed, err := o.connection.Sealer.SealText(ctx, strings.Join(all, " "), grantScopeKind, thing.Name)
		if err != nil {
			return err
		}
		thing.Value = []byte(sealed)
		if ok, err := o.connection.Things.Put(ctx, thing, 0); ok || err != nil {
			return err
		}
	}
}
