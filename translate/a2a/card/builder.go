package card

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Bridge knows the skills. [translate.Bridge] implements it.
type Bridge interface {
	List(ctx context.Context, q translate.Query) translate.Listing
	Describe(ctx context.Context, call translate.Call) (*translate.Description, *run.Failure)
	// Audience returns the same number for all principals that may use the same skills.
	Audience(principal string) int
}

// Config holds the options of a [Builder].
type Config struct {
	// URL is the public URL of the mount; empty: [Request.Base]. A Signer needs one: a client can send any host in a
	// request, so that host must not be signed.
	URL string
	// Name and Description are those of the agent. If they are empty, the card of one skill has those of the skill, and the
	// card of all skills has "Skill Bridge" and a sentence with the namespaces.
	Name, Description string
	// Organization runs the agent, Documentation and Icon are URLs; empty: none.
	Organization, Documentation, Icon string
	// Versions are the versions of A2A that the agent speaks: "1.0", "0.3", "0.1"; empty: all of them.
	Versions []string
	// Form is the form of the card if the request names no version: "combined", "1.0" or "0.3"; empty: combined.
	Form string
	// Extended says that callers with a principal can get a card with private skills, by the method for the extended card.
	Extended bool
	// Push says that push notifications are supported.
	Push bool
	// Security lists the ways to authenticate, each of which is sufficient.
	Security []SecurityScheme
	// Signer signs the pure cards of 1.0; nil: cards are not signed.
	Signer *Signer
	// RequirePrincipal says that anonymous callers can't use the agent. Their card has one skill, whose description says
	// that they have to authenticate.
	RequirePrincipal bool
}

// The versions of A2A, and the form of a card that is valid in both 1.0 and 0.3.
const (
	v10      = "1.0"
	v03      = "0.3"
	v01      = "0.1"
	combined = "combined"
)

// Request selects a card.
type Request struct {
	// Base is the URL of the mount as the client wrote it: scheme and host of the request, and the path.
	Base string
	// Skill is the name of a skill for the card of that skill; empty: the card of all skills.
	Skill string
	// Version is the version of A2A that the client has named; empty: none.
	Version string
	// Old selects agent.json, the document of A2A 0.2 and 0.1, instead of agent-card.json.
	Old bool
	// Extended selects the extended card, if the caller has a principal.
	Extended bool
	// Caller is the caller in the report that skills were listed or described. Concurrent requests share one report.
	Caller run.Caller
}

// Errors of [Builder.Card].
var (
	ErrNotFound    = errors.New("there is no such skill that the caller may see")
	ErrUnavailable = errors.New("the skills can't be read at the moment")
	ErrURL         = errors.New("the host of the request can't be part of a URL")
)

// Builder makes cards. It is safe for concurrent use.
type Builder struct {
	config  Config
	bridge  Bridge
	options []byte // those that the version depends on
	notice  *content

	flights singleflight.Group

	mu   sync.Mutex
	kept map[key]*kept
}

// New returns a Builder for the skills of a bridge. The values of the options are not checked.
func New(bridge Bridge, config Config) *Builder {
	if len(config.Versions) == 0 {
		config.Versions = []string{v10, v03, v01}
	}
	config.Form = cmp.Or(config.Form, combined)
	config.URL = strings.TrimSuffix(config.URL, "/")
	b := &Builder{config: config, bridge: bridge, kept: map[key]*kept{}}
	b.options = b.hashed()
	b.notice = b.noticeContent()
	return b
}

// maxBase bounds the base URL of a request, in bytes.
const maxBase = 512

// originOf returns scheme and host of a URL; empty: it can't be that of a mount.
func originOf(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || len(text) > maxBase {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// Card returns a card, or one of the errors of this package. The Context bounds only the wait of this caller.
func (b *Builder) Card(ctx context.Context, r Request) (*Card, error) {
	base := cmp.Or(b.config.URL, strings.TrimSuffix(r.Base, "/"))
	origin := originOf(base)
	if origin == "" {
		return nil, ErrURL
	}
	if len(r.Skill) > maxName {
		return nil, ErrNotFound
	}
	form := b.form(&r)
	known := r.Caller.Principal != ""
	if b.config.RequirePrincipal && !known {
		if r.Skill != "" {
			base += "/" + url.PathEscape(r.Skill)
		}
		return b.compose(b.notice, form, base, origin), nil
	}
	k := key{skill: r.Skill, audience: b.bridge.Audience(r.Caller.Principal)}
	switch {
	case known && r.Extended:
		k.view = extendedView
	case known:
		k.view = knownView
	}
	c, fresh, err := b.content(ctx, k, r.Caller)
	if err != nil {
		return nil, err
	}
	if r.Skill != "" {
		base += "/" + url.PathEscape(cmp.Or(c.skill, r.Skill))
	}
	card := b.compose(c, form, base, origin)
	card.MaxAge = min(max(0, time.Until(fresh)), maxAge).Truncate(time.Second)
	card.Private, card.Restricted = known, k.audience != 0
	return card, nil
}

// maxName bounds the name of a skill in a request, in bytes. A namespace and an id together are always shorter.
const maxName = 1024

// maxAge bounds [Card.MaxAge].
const maxAge = 5 * time.Minute

// form returns the version of A2A whose form the requested card has, or combined.
func (b *Builder) form(r *Request) string {
	speaks := func(version string) bool { return slices.Contains(b.config.Versions, version) }
	asked := r.Version
	if major, rest, ok := strings.Cut(asked, "."); ok {
		minor, _, _ := strings.Cut(rest, ".") // patch versions are ignored
		asked = major + "." + minor
	}
	switch {
	case r.Old || !speaks(v10) && !speaks(v03):
		return v01
	case (asked == v10 || asked == v03) && speaks(asked):
		return asked
	case b.config.Form != combined:
		return b.config.Form
	case !speaks(v03):
		return v10
	case !speaks(v10):
		return v03
	}
	return combined
}
