package credentials

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials/tokens"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Connect gives the credentials what their bridge has. It is called before they are used; without a database, it is not called.
func (o *OAuth2User) Connect(c Connection) {
	c.Logger = o.logger
	o.grants = &grants{Connection: &c}
}

// grants are the grants of a source in the database.
type grants struct {
	*Connection

	mu      sync.Mutex
	rows    tokens.Recent[*held] // by name, for a moment
	changes int                  // of grants by this process
}

// read returns the grant of an owner as it was at most so long ago. It has no row if there is no grant.
func (s *grants) read(ctx context.Context, owner string, age time.Duration) (*held, *run.Failure) {
	name := s.nameOf(owner, s.Namespace)
	s.mu.Lock()
	known, ok := s.rows.Get(name)
	changes := s.changes
	s.mu.Unlock()
	if ok && time.Since(known.read) < age {
		return known, known.failure
	}
	g, err := s.open(ctx, name)
	switch {
	case err != nil:
		g = &held{failure: s.rotation("", "").Unavailable(err)}
	case g.row == nil && g.thing.Version != 0:
		s.Warn("a user's grant in the database can't be decrypted, so that it has ended: it was stored with another seal_key, or the bridge has not written it", nil)
	case g.row != nil && time.Until(g.thing.Expires) < revocable:
		g.row = nil // it was not used for too long
	}
	g.read = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if changes == s.changes && ctx.Err() == nil { // a canceled reading says nothing about the next
		s.rows.Put(name, g, maxRows)
	}
	return g, g.failure
}

// changed notes that a grant has another row now; nil: it is to be read.
func (s *grants) changed(name string, g *held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	if s.rows.Delete(name); g != nil {
		g.read = time.Now()
		s.rows.Put(name, g, maxRows)
	}
}

// write stores a row. ok is false if another instance has stored one meanwhile.
func (s *grants) write(ctx context.Context, thing store.Thing, row *grantRow) (ok bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tokens.SaveTimeout)
	defer cancel()
	if ok, err = s.Put(ctx, &thing, row.text(), unusedKept+revocable); ok && err == nil {
		s.changed(thing.Name, &held{thing: &thing, row: row})
	}
	return ok, err
}

// touch notes once a day that a grant was used. It does so with the lock: who is getting a new refresh token meanwhile has to store it in the place of the
// row that is there, and notes the use by that.
func (s *grants) touch(ctx context.Context, g *held) {
	if !g.old && time.Until(g.thing.Expires) > unusedKept+revocable-24*time.Hour {
		return
	}
	unlock, failure := s.rotation("", g.thing.Name).TryLock(ctx)
	if failure != nil || unlock == nil {
		return
	}
	defer unlock()
	newest, err := s.open(ctx, g.thing.Name)
	if err == nil && newest.row != nil {
		_, err = s.write(ctx, *newest.thing, newest.row)
	}
	if err != nil {
		s.Warn("the use of a grant could not be written to the database", err)
	}
}

// end deletes a grant whose tokens have no use any more, unless another one was stored meanwhile, and reports it.
func (s *grants) end(ctx context.Context, g *held, reason string) {
	s.changed(g.thing.Name, nil)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tokens.SaveTimeout)
	defer cancel()
	if ok, err := s.Things.Put(ctx, new(*g.thing), time.Millisecond); err != nil {
		s.Warn("a grant that has ended could not be deleted from the database", err)
	} else if ok {
		s.Ended(g.row.Owner, g.row.Namespace, reason)
	}
}

// known returns the scopes that the provider has asked for.
func (s *grants) known(ctx context.Context) ([]string, *store.Thing, error) {
	thing, text, _, err := s.Open(ctx, grantScopeKind, tokens.Digest(s.Realm, s.Namespace))
	return strings.Fields(text), thing, err
}

// remember keeps scopes that a provider asks for, with the source. Of too many, those that were kept first are forgotten.
func (s *grants) remember(ctx context.Context, scopes []string) error {
	for {
		known, thing, err := s.known(ctx)
		if err != nil {
			return err
		}
		all := slices.DeleteFunc(union(scopes), func(scope string) bool { return slices.Contains(known, scope) })
		if len(all) == 0 {
			return nil
		}
		all = valid(append(all, known...))
		if ok, err := s.Put(ctx, thing, strings.Join(all, " "), 0); ok || err != nil {
			return err
		}
	}
}

// Grant returns the grant of an owner for skills with one of some authentications; none: for some skill. nil: there is none.
func (o *OAuth2User) Grant(ctx context.Context, owner string, auths ...*document.Auth) (*Grant, error) {
	g, failure := o.grants.read(ctx, owner, 0)
	if failure != nil {
		return nil, failure
	}
	if len(auths) == 0 {
		auths = []*document.Auth{nil}
	}
	c := o.client.get()
	if !slices.ContainsFunc(auths, func(auth *document.Auth) bool { return c.holds(g.row, auth) }) || g.row.ended(time.Now()) {
		return nil, nil //nolint:nilnil // see above
	}
	return g.grant(), nil
}
