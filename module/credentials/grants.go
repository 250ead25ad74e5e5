package credentials

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials/tokens"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
)

const (
	// unusedKept is how long a grant is kept after its last use, which is noted once a day; then it is revoked and deleted. A row that no instance revokes
	// is deleted by the database, revocable later.
	unusedKept = 90 * 24 * time.Hour
	revocable  = 7 * 24 * time.Hour
	// rowFresh is how long a grant is not read again, and missingFresh how long a list of skills does not look again for what is missing: it asks for each
	// skill, and the user may be consenting.
	rowFresh, missingFresh = time.Second, 100 * time.Millisecond
	// maxRows is how many grants are remembered for that time at least.
	maxRows = 1024
	// revocationTimeout bounds the request that revokes a token.
	revocationTimeout = 3 * time.Second
	// namePart is the length of a digest in the names of grants.
	namePart = 32
	// The kinds of things: grants, the scopes that providers have asked for, and the flows that were finished, which also end by themselves.
	grantKind, grantScopeKind, grantFlowKind = "grants", "grant_scopes", "grant_flows"
)

// endings are the error codes of answers to a refresh token after which only the user can help: the standard's, GitHub's for the same, and those with which
// some servers, such as Entra ID, ask for another login or consent.
var endings = []string{"invalid_grant", "bad_refresh_token", "interaction_required", "login_required", "consent_required"}

// errGrantEnded is the cause of the failure of a request for a token whose grant has ended.
var errGrantEnded = errors.New("the grant has ended")

// Connection is what the credentials of a source have of their bridge.
type Connection struct {
	// Namespace is that of the source.
	Namespace string
	// Realm is that of the bridge, so that bridges do not share grants.
	Realm string
	// URL is that of the pages on which users connect accounts, as browsers see it, without a slash at its end.
	URL string
	// Keeping keeps the grants. Without a sealer, there is no seal_key, and so no source with grants any more.
	tokens.Keeping
	// Ended reports that the grant of a principal at a source has ended.
	Ended func(owner, namespace, reason string)
	// Logger is that of the bridge.
	Logger *zap.Logger
	// Warn logs a warning about the grants of the source, equal ones at most once a minute.
	Warn func(message string, err error, about ...zap.Field)
	// Refreshed reports a request for new tokens of a grant, and its failure; nil: there is none.
	Refreshed func(*run.Failure)
}

// grantRow is a grant as it is stored, encrypted.
type grantRow struct {
	Owner     string `json:"owner"`
	Namespace string `json:"namespace"`
	TokenURL  string `json:"token_url"`
	ClientID  string `json:"client_id"`
	Secret    string `json:"client_secret,omitzero"`  // for revoking the token, also when the configuration no longer has the source
	InBody    bool   `json:"in_body,omitzero"`        // likewise
	Revoke    string `json:"revocation_url,omitzero"` // likewise
	// Scopes are those that count as granted: that were asked for, and those of the answer, since servers rename them.
	Scopes []string `json:"scopes,omitzero"`
	// Flow is a tokens.Digest of the flow in which the user has consented.
	Flow      string    `json:"flow"`
	Consented time.Time `json:"consented"`
	Account   string    `json:"account,omitzero"` // see [tokens.Granted]
	Access    string    `json:"access_token"`
	Refresh   string    `json:"refresh_token,omitzero"`
	// Obtained is when the access token was, later for each one that is stored, whatever the clocks of instances say.
	Obtained time.Time `json:"obtained"`
	Expires  time.Time `json:"expires,omitzero"` // of the access token; zero: not known
}

func (r *grantRow) text() string {
	text, _ := json.Marshal(r, jsontext.AllowInvalidUTF8(true)) // it can't fail
	return string(text)
}

// mayShare reports whether the server may have one grant for the tokens of two rows. Many servers end all tokens of a user and a client with one of them.
func (r *grantRow) mayShare(other *grantRow) bool {
	return r.ClientID == other.ClientID && r.TokenURL == other.TokenURL && (r.Account == other.Account || r.Account == "" || other.Account == "")
}

// held is a grant with the thing that has it.
type held struct {
	thing      *store.Thing
	row        *grantRow // nil: there is none, or it can't be decrypted
	unreadable bool      // of the row, only the owner and the namespace are known, if at all
	old        bool      // there is a newer key
	read       time.Time
	failure    *run.Failure // of reading it
}

// take replaces the tokens by those of an answer.
func (r *grantRow) take(granted tokens.Granted, c *userClient) {
	token := granted.Access
	if earliest := r.Obtained.Add(time.Millisecond); !r.Obtained.IsZero() && token.Obtained.Before(earliest) {
		token.Obtained = earliest
	}
	r.Access, r.Obtained, r.Expires = token.Value, token.Obtained, token.Expires
	if granted.Refresh.Value != "" {
		r.Refresh = granted.Refresh.Value
	}
	c.update(r)
}

func (r *grantRow) token() *tokens.Access {
	return &tokens.Access{Value: r.Access, Obtained: r.Obtained, Expires: r.Expires}
}

// ended reports whether the grant has ended with its access token.
func (r *grantRow) ended(now time.Time) bool { return r.Refresh == "" && !r.token().Valid(now) }

// nameOf returns the beginning of the names of the grants of a bridge; with an owner, of this one's; with a namespace, the name of one. It depends on no key, so
// that instances and operators with different ones, or none, have the same grants in view.
func (c *Connection) nameOf(owner, namespace string) string {
	name := tokens.Digest(c.Realm)[:16]
	if owner != "" {
		name += tokens.Digest(c.Realm, "owner", owner)[:namePart]
	}
	if namespace != "" {
		name += c.sourcePart(namespace)
	}
	return name
}

// sourcePart returns the end of the names of the grants of a source.
func (c *Connection) sourcePart(namespace string) string {
	return tokens.Digest(c.Realm, "source", namespace)[:namePart]
}

// open reads a grant by its name.
func (c *Connection) open(ctx context.Context, name string) (*held, error) {
	thing, text, old, err := c.Open(ctx, grantKind, name)
	if err != nil {
		return nil, err
	}
	return &held{thing: thing, row: parseRow(text), old: old}, nil
}

// parseRow returns the row of a decrypted text; nil: it is none.
func parseRow(text string) *grantRow {
	row := new(grantRow)
	if json.Unmarshal([]byte(text), row) != nil {
		return nil
	}
	return row
}

// refresher returns the function that gets a new access token of a grant: the one that another instance has stored, or one for the refresh token. The new row
// is stored before the token is used.
func (o *OAuth2User) refresher(c *userClient, key tokens.Key, a *credential.Authentication) tokens.Fetch {
	request := o.request(c, key.TokenURL, a)
	return func(ctx context.Context, newest tokens.Refresh) (tokens.Granted, *run.Failure) {
		r, row := o.grants.rotation(key.TokenURL, key.Owner), (*grantRow)(nil)
		granted, failure := r.Do(ctx, newest, func(ctx context.Context, text string) (tokens.Granted, *run.Failure) {
			if row = parseRow(text); row == nil || row.Refresh == "" {
				return tokens.Granted{}, grantEnded()
			}
			if token := row.token(); token.Obtained.After(newest.Obtained) && token.Valid(time.Now()) {
				return tokens.Granted{Access: *token}, nil
			}
			o.sent.AddTokens(row.Refresh)
			granted, failure := request.Do(ctx, tokens.Refreshing(row.Refresh))
			o.grants.Refreshed(failure)
			granted.After = 0 // a server that is overloaded for one user is asked again for the next
			if failure != nil {
				if failure.Demand != nil && slices.Contains(endings, failure.Demand.Reason) {
					if g, err := o.grants.open(ctx, key.Owner); err == nil && g.row != nil {
						if g.row.Flow != row.Flow || g.row.Refresh != row.Refresh && g.row.Obtained.After(row.Obtained) {
							return granted, r.InUse(nil) // a newer one was stored meanwhile: this process was paused, or the user has consented anew
						}
						o.grants.end(ctx, g, "refused")
					}
					failure = grantEnded()
				}
				return granted, failure
			}
			row.take(granted, c)
			o.sent.AddTokens(row.Access, row.Refresh)
			granted.Access, granted.Refresh.Value = *row.token(), row.text()
			return granted, nil
		})
		o.grants.changed(key.Owner, nil)
		switch {
		case failure != nil:
		case granted.Refresh.Value == "": // the grant was replaced meanwhile, or has ended, and then the new tokens are lost
			if g, err := o.grants.open(ctx, key.Owner); err == nil && g.thing.Version == 0 {
				o.grants.revoke(ctx, a.Transport, row)
			}
			failure = r.InUse(errGrantEnded)
		case granted.Refresh.Unsaved:
			failure = r.Unavailable(errors.New("the new refresh token could not be stored"))
		}
		return granted, failure
	}
}

// grantEnded returns the failure of a grant that has ended, which the caller replaces.
func grantEnded() *run.Failure { return &run.Failure{Kind: run.AuthRequired, Cause: errGrantEnded} }

// request returns the token requests of a client.
func (o *OAuth2User) request(c *userClient, endpoint string, a *credential.Authentication) tokens.Request {
	return tokens.Request{Client: &c.Client, Endpoint: endpoint, Transport: a.Transport, Limit: a.MaxResponseSize, Credentials: o}
}

// revoke revokes the refresh token of a grant, or else the access token (RFC 7009). The grant has ended whatever the server answers.
func (c *Connection) revoke(ctx context.Context, transport http.RoundTripper, row *grantRow) {
	if row.Revoke == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revocationTimeout)
	defer cancel()
	token := url.Values{"token": {row.Refresh}, "token_type_hint": {"refresh_token"}}
	if row.Refresh == "" {
		token = url.Values{"token": {row.Access}, "token_type_hint": {"access_token"}}
	}
	request := tokens.Request{Client: &tokens.Client{ID: row.ClientID, Secret: row.Secret, InBody: row.InBody || row.Secret == "", Params: url.Values{}}, Transport: transport}
	status := 0 // it could not be reached; the error may quote the answer
	if resp, err := request.Post(ctx, row.Revoke, token); err == nil {
		_ = resp.Body.Close()
		status = resp.StatusCode
	}
	if status < 200 || status >= 300 {
		c.Logger.Warn("a token of a user could not be revoked; the bridge has deleted it", zap.String("url", tokens.RedactURL(row.Revoke)), zap.Int("status", status))
	}
}

// disconnect deletes a grant, if there is one, and revokes its token: as the client is configured now, else as it was. Without the credentials of its source, it
// is of none.
func (c *Connection) disconnect(ctx context.Context, transport http.RoundTripper, name string, o *OAuth2User, reason string) error {
	if o != nil {
		defer o.grants.changed(name, nil)
	}
	r := c.rotation("", name)
	locking, cancel := context.WithTimeout(ctx, revocationTimeout)
	defer cancel()
	if unlock, failure := r.Lock(locking); failure == nil { // so that no new token is got meanwhile
		defer unlock()
	}
	g, err := c.open(ctx, name)
	if err == nil {
		err = c.Things.Delete(ctx, grantKind, name)
	}
	if g != nil && g.row != nil {
		if o != nil {
			o.client.get().update(g.row)
		}
		c.revoke(ctx, transport, g.row)
		if err == nil {
			c.Ended(g.row.Owner, g.row.Namespace, reason)
		}
	}
	if err != nil {
		return r.Unavailable(err)
	}
	return nil
}

// rotation returns what replaces the tokens of a grant.
func (c *Connection) rotation(endpoint, name string) tokens.Rotation {
	return tokens.Rotation{Keeping: c.Keeping, Logger: c.Logger, Endpoint: endpoint, Kind: grantKind, Name: name, Keep: unusedKept + revocable}
}
