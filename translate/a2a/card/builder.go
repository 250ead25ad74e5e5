package card

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// ExtensionURI names the bridge's extension of A2A. Its objects in cards and messages hold what A2A has no member for.
const ExtensionURI = "https://github.com/skill-bridge/caddy-skill-bridge/a2a/v1"

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
	origin  string // of Config.URL; empty: of the request
	options []byte // those that the version depends on
	notice  *content

	flights singleflight.Group

	mu   sync.Mutex
	kept map[key]*kept
}

// New returns a Builder for the skills of a bridge.
func New(bridge Bridge, config Config) (*Builder, error) {
	if len(config.Versions) == 0 {
		config.Versions = []string{v10, v03, v01}
	}
	for _, v := range config.Versions {
		if v != v10 && v != v03 && v != v01 {
			return nil, fmt.Errorf("%q is not one of the versions 1.0, 0.3 and 0.1", v)
		}
	}
	switch config.Form {
	case "", combined:
		config.Form = combined
	case v10, v03:
		if !slices.Contains(config.Versions, config.Form) {
			return nil, fmt.Errorf("the card can't have the form %s: that version is switched off", config.Form)
		}
	default:
		return nil, fmt.Errorf("%q is not one of the forms combined, 1.0 and 0.3", config.Form)
	}
	b := &Builder{config: config, bridge: bridge, kept: map[key]*kept{}}
	if config.URL != "" {
		config.URL = strings.TrimSuffix(config.URL, "/")
		b.config.URL = config.URL
		var err error
		if b.origin, err = originOf(config.URL); err != nil {
			return nil, fmt.Errorf("%q is not the URL of a mount: %w", config.URL, err)
		}
	} else if config.Signer != nil {
		return nil, errors.New("a signed card needs the public URL of the mount")
	}
	names := map[string]bool{}
	for i := range config.Security {
		s := &config.Security[i]
		if err := s.Validate(); err != nil {
			return nil, err
		}
		if names[s.Name] {
			return nil, fmt.Errorf("two security schemes have the name %q", s.Name)
		}
		names[s.Name] = true
	}
	b.options = b.hashed()
	b.notice = b.noticeContent()
	return b, nil
}

// maxBase bounds the base URL of a request, in bytes.
const maxBase = 512

// originOf returns scheme and host of a URL.
func originOf(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "", errors.New("it can't be parsed")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("it must be http or https, with a host, and without user, query and fragment")
	case len(text) > maxBase:
		return "", fmt.Errorf("it has more than %d bytes", maxBase)
	}
	return u.Scheme + "://" + u.Host, nil
}

// Card returns a card, or one of the errors of this package. The Context bounds only the wait of this caller.
func (b *Builder) Card(ctx context.Context, r Request) (*Card, error) {
	base, origin := b.config.URL, b.origin
	if base == "" {
		base = strings.TrimSuffix(r.Base, "/")
		var err error
		if origin, err = originOf(base); err != nil {
			return nil, ErrURL
		}
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
		name := c.skill
		if name == "" {
			name = r.Skill
		}
		base += "/" + url.PathEscape(name)
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
