package card

import (
	"cmp"
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
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Bridge knows the skills. [translate.Bridge] implements it.
type Bridge interface {
	List(ctx context.Context, q translate.Query) translate.Listing
	Describe(ctx context.Context, call translate.Call) (*translate.Description, *run.Failure)
	// Audience returns the same number for all principals that may use the same skills.
	Audience(principal string) int
	// Personal reports whether lists say other things to each principal.
	Personal() bool
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
	// Panicked is called after a panic while a card is made, for which no request may wait. May be nil.
	Panicked func(ctx context.Context, value any, stack []byte)
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

// CheckURL returns why a URL can't be that of a mount; nil: it can.
func CheckURL(text string) error {
	if originOf(text) == "" {
		return fmt.Errorf("%q can't be the URL of a mount: it has to be an https or http URL without userinfo, query and fragment, with at most %d bytes", text, maxBase)
	}
	return nil
}

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
	if known && b.bridge.Personal() {
		k.principal = r.Caller.Principal
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
	card.Private = known
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

// view is a set of skills that a kind of caller may see.
type view uint8

const (
	publicView   view = iota // for anonymous callers
	knownView                // for callers with a principal
	extendedView             // for callers with a principal, in the extended card
)

// key identifies a kept content.
type key struct {
	view view
	// audience is that of the principal, for whom access rules may permit other skills.
	audience int
	skill    string // as the client wrote it; empty: all
	// principal is the caller's, if lists say other things to each; else empty.
	principal string
}

func (k key) String() string {
	return fmt.Sprintf("%d %d %q %q", k.view, k.audience, k.skill, k.principal)
}

// kept is the content of a card and the lists that it was made from.
type kept struct {
	content    *content
	entries    []catalog.Entry      // of the card of all skills
	descriptor *document.Descriptor // of the card of one skill
	connects   bool                 // which asks the user to connect an account first
	checked    time.Time            // the last query to the bridge
	described  time.Time            // the last reading of descriptors, if some of them could not be read; zero: all could
	fresh      time.Time            // the end of the content's freshness
	used       time.Time
}

const (
	// recheck is how long a content is used before the bridge is asked again. It bounds the processor time for repeated
	// requests: listing 10,000 skills takes some milliseconds.
	recheck = 200 * time.Millisecond
	// describeAgain is how long the card of all skills uses the descriptors it has, if one of them could not be read. Without
	// this pause, a provider whose descriptors fail would get up to maxDescribed requests whenever the cache forgets the failures.
	describeAgain = time.Minute
	// patience is how long a request waits for a new content if there is an old one.
	patience = time.Second
	// reading bounds the queries for a content: an index and descriptors take up to 10 seconds each.
	reading = 25 * time.Second
	// maxKept bounds the number of contents that are kept of single skills, of principals or by access rules, and maxKeptSize their size together, in bytes.
	maxKept     = 256
	maxKeptSize = 16 << 20
)

// content returns the content of a card, and the end of its freshness; zero: it is not fresh.
func (b *Builder) content(ctx context.Context, k key, caller run.Caller) (*content, time.Time, error) {
	b.mu.Lock()
	old := b.kept[k]
	if old != nil {
		old.used = time.Now()
	}
	b.mu.Unlock()
	if old != nil && time.Since(old.checked) < recheck {
		return old.content, old.fresh, nil
	}
	wait := 2 * reading // which ends before
	if old != nil {
		wait = patience
	}
	now, err := front.Shared(ctx, &b.flights, k.String(), reading, wait, b.config.Panicked, func(ctx context.Context) (*kept, error) { return b.renew(ctx, k, caller) })
	switch {
	case err == nil:
		return now.content, now.fresh, nil
	case err == ErrNotFound: //nolint:errorlint // it is never wrapped
		return nil, time.Time{}, err
	case old != nil:
		return old.content, time.Time{}, nil
	}
	return nil, time.Time{}, ErrUnavailable
}

// renew asks the bridge, and keeps the result.
func (b *Builder) renew(ctx context.Context, k key, caller run.Caller) (*kept, error) {
	b.mu.Lock()
	old := b.kept[k]
	b.mu.Unlock()
	if old != nil && time.Since(old.checked) < recheck { // a flight has ended since the caller looked
		return old, nil
	}
	now, err := b.read(ctx, k, caller, old)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == ErrNotFound { //nolint:errorlint // it is never wrapped
		delete(b.kept, k)
	}
	if err != nil {
		return nil, err
	}
	now.checked, now.used = time.Now(), time.Now()
	if old == nil || old.content != now.content {
		b.share(k, old, now)
	}
	b.kept[k] = now
	b.makeRoom()
	return now, nil
}

// share replaces a new content by an equal one that is kept: for the same key, so that LastModified does not change,
// or for another view, so that both share their memory. The caller holds b.mu.
func (b *Builder) share(k key, old, now *kept) {
	if old != nil && old.content.digest == now.content.digest {
		now.content = old.content
		return
	}
	for _, v := range []view{publicView, knownView, extendedView} {
		other := b.kept[key{v, k.audience, k.skill, k.principal}]
		if other != nil && other.content.digest == now.content.digest {
			now.content = other.content
		}
	}
}

// makeRoom removes the least recently used contents of single skills, of principals, and of callers to whom access rules apply, until the rest is within the bounds. The caller holds b.mu.
func (b *Builder) makeRoom() {
	for {
		count, size := 0, 0
		var oldest key
		for k, e := range b.kept {
			if k.skill == "" && k.audience == 0 && k.principal == "" {
				continue
			}
			count++
			size += e.content.size()
			if count == 1 || e.used.Before(b.kept[oldest].used) {
				oldest = k
			}
		}
		if count <= maxKept && size <= maxKeptSize || count == 1 {
			return
		}
		delete(b.kept, oldest)
	}
}

// read asks the bridge for the skills of a view, or for one. If nothing has changed, the content is the old one.
func (b *Builder) read(ctx context.Context, k key, caller run.Caller, old *kept) (*kept, error) {
	if k.view == publicView {
		caller.Principal = ""
	}
	if k.skill != "" {
		return b.describe(ctx, k, caller, old)
	}
	l, described := b.list(ctx, caller, k.view, old)
	refused := 0
	for _, u := range l.Unavailable {
		switch {
		case u.Failure.OfBridge():
			return nil, ErrUnavailable // nothing was read
		case needsPrincipal(u.Failure):
			refused++
		}
	}
	if refused > 0 && refused == len(l.Unavailable) && len(l.Skills) == 0 {
		return &kept{content: b.notice, fresh: l.FreshUntil}, nil
	}
	now := &kept{entries: l.Skills, fresh: l.FreshUntil, described: described}
	if old != nil && old.content != b.notice && slices.Equal(old.entries, l.Skills) {
		now.content = old.content
		return now, nil
	}
	var err error
	if now.content, err = b.contentOf(ctx, l.Skills); err != nil {
		return nil, ErrUnavailable
	}
	return now, nil
}

// list lists the skills of a view, with their descriptors. If some of them could not be read within the last [describeAgain] and
// the list is still the same, it returns the old descriptors. described is the time of the last reading at which some
// descriptors could not be read; zero: all could.
func (b *Builder) list(ctx context.Context, caller run.Caller, v view, old *kept) (l translate.Listing, described time.Time) {
	list := func(descriptors int) translate.Listing {
		l := b.bridge.List(ctx, translate.Query{Caller: caller, Descriptors: descriptors, Executable: true})
		if v != extendedView {
			l.Skills = slices.DeleteFunc(l.Skills, func(e catalog.Entry) bool { return e.Hidden })
		}
		return l
	}
	if old != nil && time.Since(old.described) < describeAgain {
		l = list(0)
		same := func(e, earlier catalog.Entry) bool {
			earlier.Descriptor = nil
			return e == earlier
		}
		if slices.EqualFunc(l.Skills, old.entries, same) {
			l.Skills = old.entries
			return l, old.described
		}
	}
	l = list(maxDescribed)
	if len(l.Skills) <= maxDescribed && (l.Broken > 0 || slices.ContainsFunc(l.Skills, func(e catalog.Entry) bool { return e.Descriptor == nil })) {
		described = time.Now()
	}
	return l, described
}

// describe does what read does, for one skill.
func (b *Builder) describe(ctx context.Context, k key, caller run.Caller, old *kept) (*kept, error) {
	d, failure := b.bridge.Describe(ctx, translate.Call{Caller: caller, Name: k.skill})
	switch {
	case failure == nil && (d.Hidden && k.view != extendedView || d.State == catalog.Unsupported || d.Files != nil):
		return nil, ErrNotFound
	case failure == nil:
		now := &kept{descriptor: d.Descriptor, connects: d.State == catalog.NeedsConsent, fresh: d.FreshUntil}
		if old != nil && old.descriptor == d.Descriptor && old.content.skill == d.Name && old.connects == now.connects {
			now.content = old.content
			return now, nil
		}
		var err error
		if now.content, err = b.contentOfOne(ctx, d); err != nil {
			return nil, ErrUnavailable
		}
		return now, nil
	case failure.Kind == run.SkillNotFound || failure.Kind == run.InvalidArguments:
		return nil, ErrNotFound
	case needsPrincipal(failure):
		return &kept{content: b.notice}, nil
	}
	return nil, ErrUnavailable
}

// needsPrincipal reports whether a failure says that a source refuses anonymous callers.
func needsPrincipal(f *run.Failure) bool {
	return f.Demand != nil && f.Demand.CallerActs
}
