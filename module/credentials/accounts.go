package credentials

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials/tokens"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
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
	Owner     string    `json:"principal"`
	Namespace string    `json:"namespace"`     // of the source
	Scopes    []string  `json:"scopes"`        // that were asked for, or that the server has named
	Consented time.Time `json:"consented"`     // when the user has
	Renewable bool      `json:"renewable"`     // there is a refresh token
	Ends      time.Time `json:"ends,omitzero"` // if it is not renewable; zero: it is not known
	Used      time.Time `json:"used"`          // the last use, to a day
}

func (g *held) grant() *Grant {
	grant := &Grant{
		Owner: g.row.Owner, Namespace: g.row.Namespace, Scopes: g.row.granted(), Consented: g.row.Consented, Renewable: g.row.Refresh != "",
		Used: g.thing.Expires.Add(-unusedKept - revocable),
	}
	if !grant.Renewable {
		grant.Ends = g.row.Expires
	}
	return grant
}

// each calls a function with each grant of the bridge, or of one owner of it, until that returns false.
func (a *Accounts) each(ctx context.Context, owner string, f func(g *held) bool) error {
	var key []byte
	if owner != "" {
		var err error
		if key, err = a.nameKey(ctx); err != nil {
			return err
		}
	}
	names, err := a.Things.Names(ctx, grantKind, a.nameOf(key, owner, ""), maxListed)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		g, err := a.open(ctx, name)
		if err != nil {
			return err
		}
		if g.row != nil && !f(g) {
			break
		}
	}
	return err
}

// List returns the grants of the bridge, or of one owner, at most as many.
func (a *Accounts) List(ctx context.Context, owner string, most int) (grants []*Grant, err error) {
	err = a.each(ctx, owner, func(g *held) bool {
		grants = append(grants, g.grant())
		return len(grants) < most
	})
	return grants, err
}

// Bridge returns what tells apart the grants of bridges.
func (a *Accounts) Bridge() string { return a.Realm }

// Count returns how many grants there are at each of the sources. It decrypts none of them.
func (a *Accounts) Count(ctx context.Context) (map[string]int, error) {
	if len(a.Sources) == 0 {
		return nil, nil
	}
	key, err := a.nameKey(ctx)
	if err != nil {
		return nil, err
	}
	bridge := a.nameOf(key, "", "")
	sources, counts := map[string]string{}, map[string]int{}
	for i := range a.Sources {
		namespace := a.Sources[i].Namespace
		sources[strings.TrimPrefix(a.nameOf(key, "", namespace), bridge)], counts[namespace] = namespace, 0
	}
	names, err := a.Things.Names(ctx, grantKind, bridge, maxListed)
	for name := range names {
		if namespace, ok := sources[name[max(0, len(name)-namePart):]]; ok {
			counts[namespace]++
		}
	}
	return counts, err
}

// Revoke revokes and deletes the grants of an owner, and returns them.
func (a *Accounts) Revoke(ctx context.Context, owner string) (ended []*Grant, err error) {
	failed := a.each(ctx, owner, func(g *held) bool {
		if o, transport := a.at(g.row.Namespace); o != nil {
			err = o.Disconnect(ctx, &credential.Authentication{Transport: transport, Owner: owner}, owner)
		} else {
			err = a.disconnect(ctx, transport, g.thing.Name, "")
		}
		if err == nil {
			ended = append(ended, g.grant())
		}
		return err == nil
	})
	return ended, cmp.Or(err, failed)
}

// Sweep ends the grants that were not used for 90 days, and those of sources and clients that no instance of the bridge has. It is called when a configuration
// has started, and each day after that.
func (a *Accounts) Sweep(ctx context.Context) error {
	clients, err := a.say(ctx)
	if err != nil {
		return err
	}
	return a.each(ctx, "", func(g *held) bool {
		o, transport := a.at(g.row.Namespace)
		client := func(tokenURL string) bool { return clients[clientOf(g.row.Namespace, g.row.ClientID, tokenURL)] }
		known := client(g.row.TokenURL) || client("")
		var reason string
		switch {
		case !known && o == nil:
			reason = "removed"
		case !known:
			reason = "changed"
		case time.Until(g.thing.Expires) < revocable:
			reason = "unused"
		case g.row.ended(time.Now()):
			reason = "expired"
		default:
			return true
		}
		if a.end(ctx, g, reason) {
			a.revoke(ctx, transport, g.row.Revoke, g.row)
		}
		return ctx.Err() == nil
	})
}

// clientOf returns what tells apart the clients of sources. Without a URL of the token endpoint, it is that of descriptors.
func clientOf(namespace, id, tokenURL string) string { return tokens.Digest(namespace, id, tokenURL) }

// say says, in the database, which sources this process has, in the place of its earlier configuration, and returns the clients of the sources of all
// instances: those with an older configuration do not end the grants of sources that newer ones have.
func (a *Accounts) say(ctx context.Context) (clients map[string]bool, err error) {
	bridge := a.nameOf(nil, "", "")
	own := make([]string, len(a.Sources))
	for i := range a.Sources {
		c := a.Sources[i].Credentials.(*OAuth2User).client.get()
		own[i] = clientOf(a.Sources[i].Namespace, c.ID, c.TokenURL)
	}
	var thing *store.Thing
	for ok := false; !ok; { // the earlier configuration may leave at the same time
		thing, err = a.Things.Get(ctx, grantSourceKind, bridge+process)
		if errors.Is(err, store.ErrNoThing) {
			thing, err = &store.Thing{Kind: grantSourceKind, Name: bridge + process}, nil
		}
		if err == nil {
			thing.Value = []byte(strings.Join(own, " "))
			ok, err = a.Things.Put(ctx, thing, sourcesKept)
		}
		if err != nil {
			return nil, err
		}
	}
	a.said.Store(thing)
	names, err := a.Things.Names(ctx, grantSourceKind, bridge, maxListed)
	clients = make(map[string]bool)
	for name := range names {
		thing, err := a.Things.Get(ctx, grantSourceKind, name)
		if err != nil && !errors.Is(err, store.ErrNoThing) {
			return nil, err
		}
		if err == nil {
			for client := range strings.FieldsSeq(string(thing.Value)) {
				clients[client] = true
			}
		}
	}
	return clients, err
}

// Leave says that this process no longer has the sources, unless a later configuration of it has said which ones it has.
func (a *Accounts) Leave() {
	if thing := a.said.Load(); thing != nil {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
		defer cancel()
		_, _ = a.Things.Put(ctx, thing, time.Millisecond) // otherwise it ends by itself
	}
}
