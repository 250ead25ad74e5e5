package credentials

import (
	"context"
	"crypto/rand"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials/tokens"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
)

const (
	// maxListed is how many grants are listed.
	maxListed = 100_000
	// sourcesKept is for how long it counts which sources an instance has. It says so when its configuration has started, and each day.
	sourcesKept = 25 * time.Hour
	// leaveTimeout bounds how long an instance that stops says that it has no sources any more.
	leaveTimeout = 2 * time.Second
	// grantSourceKind is the kind of the things that say which sources instances have.
	grantSourceKind = "grant_sources"
)

// process tells apart the processes that use a database.
var process = rand.Text()

// Accounts are the grants of a bridge at all sources, also those that it no longer has.
type Accounts struct {
	// Connection is that of the bridge, without a namespace.
	Connection
	// Sources are those whose credentials are an [OAuth2User].
	Sources []catalog.Source
	// Transport is for the tokens of sources that the bridge no longer has.
	Transport http.RoundTripper

	said atomic.Pointer[store.Thing] // which sources it has; nil: it has not said it
}

// at returns the credentials and the transport of a source; nil credentials: the bridge no longer has it.
func (a *Accounts) at(namespace string) (*OAuth2User, http.RoundTripper) {
	for i := range a.Sources {
		if a.Sources[i].Namespace == namespace {
			return a.Sources[i].Credentials.(*OAuth2User), a.Sources[i].Transport
		}
	}
	return nil, a.Transport
}

// Grant is what a user has consented to. It has no tokens.
type Grant struct {
	Owner     string    `json:"principal"`          // empty: it can't be decrypted
	Namespace string    `json:"namespace"`          // of the source; empty: it can't be decrypted, and is of no source of the bridge
	Scopes    []string  `json:"scopes"`             // that were asked for, or that the server has named
	Consented time.Time `json:"consented,omitzero"` // when the user has
	Renewable bool      `json:"renewable"`          // there is a refresh token
	Ends      time.Time `json:"ends,omitzero"`      // if it is not renewable; zero: it is not known
	Used      time.Time `json:"used"`               // the last use, to a day
	// Unreadable says that it can't be decrypted, since it was stored with another seal_key. Its user has to connect again.
	Unreadable bool `json:"unreadable,omitzero"`
}

func (g *held) grant() *Grant {
	grant := &Grant{
		Owner: g.row.Owner, Namespace: g.row.Namespace, Scopes: g.row.Scopes, Consented: g.row.Consented, Renewable: g.row.Refresh != "",
		Used: g.thing.Expires.Add(-unusedKept - revocable), Unreadable: g.unreadable,
	}
	if !grant.Renewable {
		grant.Ends = g.row.Expires
	}
	return grant
}

// places returns the namespaces of the sources by the end of the names of their grants.
func (a *Accounts) places() map[string]string {
	places := make(map[string]string, len(a.Sources))
	for i := range a.Sources {
		places[a.sourcePart(a.Sources[i].Namespace)] = a.Sources[i].Namespace
	}
	return places
}

// placeOf returns the end of the name of a grant, which its source decides.
func placeOf(name string) string { return name[max(0, len(name)-namePart):] }

// each returns the grants of the bridge, or of one owner of it, also those that can't be decrypted.
func (a *Accounts) each(ctx context.Context, owner string) iter.Seq2[*held, error] {
	return func(yield func(*held, error) bool) {
		names, err := a.Things.Names(ctx, grantKind, a.nameOf(owner, ""), maxListed)
		if err != nil {
			yield(nil, err)
			return
		}
		places := a.places()
		for _, name := range slices.Sorted(maps.Keys(names)) {
			g, err := a.open(ctx, name)
			switch {
			case err != nil:
			case g.thing.Version == 0:
				continue // it was deleted meanwhile
			case g.row == nil:
				g.row, g.unreadable = &grantRow{Owner: owner, Namespace: places[placeOf(name)]}, true
			}
			if !yield(g, err) || err != nil {
				return
			}
		}
	}
}

// List returns the grants of the bridge, or of one owner, at most as many.
func (a *Accounts) List(ctx context.Context, owner string, most int) (grants []*Grant, err error) {
	for g, err := range a.each(ctx, owner) {
		if err != nil {
			return grants, err
		}
		if grants = append(grants, g.grant()); len(grants) >= most {
			break
		}
	}
	return grants, nil
}

// Count returns how many grants there are at each of the sources. It decrypts none of them.
func (a *Accounts) Count(ctx context.Context) (map[string]int, error) {
	if len(a.Sources) == 0 {
		return nil, nil
	}
	places, counts := a.places(), map[string]int{}
	for _, namespace := range places {
		counts[namespace] = 0
	}
	names, err := a.Things.Names(ctx, grantKind, a.nameOf("", ""), maxListed)
	for name := range names {
		if namespace, ok := places[placeOf(name)]; ok {
			counts[namespace]++
		}
	}
	return counts, err
}

// Revoke revokes and deletes the grants of an owner, and returns them. Those that can't be decrypted are only deleted.
func (a *Accounts) Revoke(ctx context.Context, owner string) (ended []*Grant, err error) {
	for g, err := range a.each(ctx, owner) {
		if err == nil {
			o, transport := a.at(g.row.Namespace)
			err = a.disconnect(ctx, transport, g.thing.Name, o, "disconnected")
		}
		if err != nil {
			return ended, err
		}
		ended = append(ended, g.grant())
	}
	return ended, nil
}

// Sweep ends the grants that were not used for 90 days, and those of sources and clients that no instance of the bridge has. It is called when a configuration
// has started, and each day after that.
func (a *Accounts) Sweep(ctx context.Context) error {
	if len(a.Sources) == 0 {
		if names, err := a.Things.Names(ctx, grantKind, a.nameOf("", ""), 1); err != nil || len(names) == 0 {
			return err
		}
	}
	configured, err := a.say(ctx)
	if err != nil {
		return err
	}
	unrevoked := 0
	for g, err := range a.each(ctx, "") {
		if err != nil {
			return err
		}
		reason := "removed"
		switch client := func(tokenURL string) string { return clientOf(g.row.Namespace, g.row.ClientID, tokenURL) }; {
		case g.unreadable && configured[placeOf(g.thing.Name)]:
			continue // its key may come back
		case g.unreadable:
			unrevoked++
		case !configured[client(g.row.TokenURL)] && !configured[client("")]:
		case time.Until(g.thing.Expires) < revocable:
			reason = "unused"
		case g.row.ended(time.Now()):
			reason = "expired"
		default:
			continue
		}
		o, transport := a.at(g.row.Namespace)
		if err := a.disconnect(ctx, transport, g.thing.Name, o, reason); err != nil {
			return err
		}
	}
	if unrevoked > 0 {
		a.Logger.Warn("accounts of users at sources that are no longer configured were deleted; without the seal_key with which they were stored, their tokens could not be revoked",
			zap.Int("accounts", unrevoked))
	}
	return nil
}

// clientOf returns what tells apart the clients of sources. Without a URL of the token endpoint, it is that of descriptors.
func clientOf(namespace, id, tokenURL string) string { return tokens.Digest(namespace, id, tokenURL) }

// say says, in the database, which sources this process has, in the place of its earlier configuration, and returns the sources and clients of all
// instances: those with an older configuration do not end the grants of sources that newer ones have.
func (a *Accounts) say(ctx context.Context) (configured map[string]bool, err error) {
	bridge := a.nameOf("", "")
	own := slices.Collect(maps.Keys(a.places()))
	for i := range a.Sources {
		c := a.Sources[i].Credentials.(*OAuth2User).client.get()
		own = append(own, clientOf(a.Sources[i].Namespace, c.ID, c.TokenURL))
	}
	var thing *store.Thing
	for ok := false; !ok; { // the earlier configuration may leave at the same time
		if thing, err = a.Things.Get(ctx, grantSourceKind, bridge+process); err != nil {
			return nil, err
		}
		thing.Value = []byte(strings.Join(own, " "))
		if ok, err = a.Things.Put(ctx, thing, sourcesKept); err != nil {
			return nil, err
		}
	}
	a.said.Store(thing)
	names, err := a.Things.Names(ctx, grantSourceKind, bridge, maxListed)
	configured = make(map[string]bool)
	for name := range names {
		thing, err := a.Things.Get(ctx, grantSourceKind, name)
		if err != nil {
			return nil, err
		}
		for text := range strings.FieldsSeq(string(thing.Value)) {
			configured[text] = true
		}
	}
	return configured, err
}

// Leave says that this process no longer has the sources, unless a later configuration of it has said which ones it has.
func (a *Accounts) Leave() {
	if thing := a.said.Load(); thing != nil {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
		defer cancel()
		_, _ = a.Things.Put(ctx, thing, time.Millisecond) // otherwise it ends by itself
	}
}
