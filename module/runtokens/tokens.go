package runtokens

import (
	"context"
	"strconv"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

// Tokens makes and reads the run tokens of one handler.
type Tokens struct {
	keys   Keys
	sealer *runtoken.Sealer
	realm  string
	blocks map[string]runtoken.Block // by the namespace of the source
}

var _ front.Tokens = (*Tokens)(nil)

// New returns the tokens of a handler, which are valid for a time. Its name and its principal are the options; both may be the default. A reload
// changes what tokens are bound to only if it changes the source's URL or one of these options, and so do instances differ.
func New(name, principal string, sources []catalog.Source, keys Keys, valid time.Duration) *Tokens {
	t := &Tokens{keys, runtoken.New(keys, valid, nil), lifetime.NewDigest("name", name, principal).String(), make(map[string]runtoken.Block, len(sources))}
	for i := range sources {
		s := &sources[i]
		t.blocks[s.Namespace] = runtoken.Block(lifetime.NewDigest(strconv.Itoa(int(s.Kind)), s.Namespace, s.URL.String(), t.realm).String())
	}
	return t
}

// Ready implements front.Tokens.
func (t *Tokens) Ready(ctx context.Context) error {
	_, err := t.keys.Current(ctx)
	return err
}

// Prepare makes a key in the background if there is none.
func (t *Tokens) Prepare() { t.keys.Prepare() }

// Lifetime implements front.Tokens.
func (t *Tokens) Lifetime() time.Duration { return t.sealer.Lifetime() }

// Sealer returns what encrypts tokens, and other texts that are stored.
func (t *Tokens) Sealer() *runtoken.Sealer { return t.sealer }

// Keys returns the keys with which tokens are made.
func (t *Tokens) Keys() Keys { return t.keys }

// Seal implements front.Tokens.
func (t *Tokens) Seal(ctx context.Context, ref run.Ref, principal string) (string, error) {
	return t.sealer.Seal(ctx, ref, t.blocks[ref.Source], principal)
}

// Open implements front.Tokens.
func (t *Tokens) Open(ctx context.Context, token, principal string) (run.Ref, error) {
	return t.sealer.Open(ctx, token, func(source string) runtoken.Block { return t.blocks[source] }, principal)
}

// Realm identifies the handler's principals: in two handlers with the same realm, one principal is the same caller. It is the same in all
// instances, and depends on the options name and principal only.
func (t *Tokens) Realm() string { return t.realm }
