package agentskills

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front/skillfile"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
)

// Bridge knows the skills. [translate.Bridge] implements it.
type Bridge interface {
	List(ctx context.Context, q translate.Query) translate.Listing
	ToolNames(ctx context.Context) []string
	ReportRun(ctx context.Context, call translate.Call, o translate.Operation, r *run.Run)
}

const (
	// recheck is how long a list is used before the bridge is asked again, longestRecheck how long if asking takes long, and costFactor how much longer
	// than the asking: so it takes at most 5 percent of the time.
	recheck        = 5 * time.Second
	longestRecheck = time.Minute
	costFactor     = 20
	// reading bounds the time to read a list. What was not read by then is left out, unless there is a stale descriptor; the next reading has it.
	reading = 15 * time.Second
	// patience is how long a request waits for a new list if there is an earlier one, and firstPatience if there is none.
	patience      = time.Second
	firstPatience = 20 * time.Second
	// pageSize is how many skills are read at a time, with their descriptors.
	pageSize = 100
	// sourcesAtOnce is of how many sources pages are read at a time.
	sourcesAtOnce = 8

	maxSkills  = 10_000
	maxSize    = 32 << 20 // bytes of the texts of a list
	maxIndexes = 32
	maxKept    = 64 << 20 // bytes of the indexes
	maxViews   = 256
)

// Errors of readings.
var errUnavailable = errors.New("the skills can't be read at the moment")

// Site serves the files. Its exported fields must not be changed while it serves.
type Site struct {
	// Bridge knows the skills. It is required.
	Bridge Bridge
	// URL is the public URL of the endpoint of the Skills Protocol; empty: that of the request.
	URL string
	// RequirePrincipal says that anonymous callers are refused.
	RequirePrincipal bool
	// Refused is called for each request that was refused because of its principal, with the reason. May be nil.
	Refused func(ctx context.Context, method, reason string)
	// LeftOut is called with the namespace of a source and the number of its skills without a file, if it is greater than ever: there are too
	// many, or they could not be read in time. May be nil.
	LeftOut func(ctx context.Context, source string, n int)
	// Panicked is called after a panic of a reading, for which no request may wait. May be nil.
	Panicked func(ctx context.Context, value any, stack []byte)

	flights singleflight.Group
	making  chan struct{} // has room for one index that is made

	mu       sync.Mutex
	contents map[string]*content // of the skills, by their names
	views    map[string]*view    // by principal
	indexes  []*madeIndex        // least recently used first
	leftOut  map[string]int      // the greatest numbers for LeftOut, by namespace
}

// NewSite returns a site for the skills of a bridge.
func NewSite(bridge Bridge) *Site {
	return &Site{Bridge: bridge, making: make(chan struct{}, 1), contents: map[string]*content{}, views: map[string]*view{}, leftOut: map[string]int{}}
}

// Page returns the SKILL.md of a skill, as its file is. url is that of the endpoint, as the client of a request sees it.
func (s *Site) Page(ctx context.Context, d *translate.Description, url string) (string, error) {
	url, err := s.urlOf(url)
	if err != nil {
		return "", err
	}
	tool := cmp.Or(d.Tool, d.Name) // without a tool, there is no file
	made := skill{file: newNames(s.Bridge.ToolNames(ctx)).of(tool), name: d.Name, source: d.Namespace, descriptor: d.Descriptor, files: d.Files}
	c := s.contentFor(&made)
	if c == nil {
		return "", errors.New("the skill has no SKILL.md")
	}
	return c.at(url), nil
}

// endpointForm are the URLs that need no escapes in a command line, in Markdown and in YAML.
var endpointForm = regexp.MustCompile(`^https?://[A-Za-z0-9._:\[\]-]+(/[A-Za-z0-9._~/-]*)?$`)

// maxURL bounds a public URL, in bytes: the field compatibility of the front matter has at most 500 characters.
const maxURL = 400

// CheckURL checks a public URL.
func CheckURL(url string) error {
	if len(url) > maxURL || !endpointForm.MatchString(url) {
		return errURL
	}
	return nil
}

var errURL = errors.New("the URL of the endpoint must be http or https, with a host of letters, digits, dots and hyphens, and without query, user and special characters")

// urlOf returns the public URL of the endpoint. Those of requests whose Host differs only in case, a final dot or the port of the scheme are the same.
func (s *Site) urlOf(requested string) (string, error) {
	if s.URL != "" {
		return s.URL, nil
	}
	if err := CheckURL(requested); err != nil {
		return "", err
	}
	u, err := url.Parse(requested)
	if err != nil {
		return "", errURL
	}
	host, err := credential.AuthorityOf(u)
	if err != nil {
		return "", errURL
	}
	u.Host = strings.TrimSuffix(host.String(), defaultPorts[u.Scheme])
	return u.String(), nil
}

var defaultPorts = map[string]string{"http": ":80", "https": ":443"}

// viewOf returns what a caller may see.
func (s *Site) viewOf(ctx context.Context, caller run.Caller) (*view, error) {
	s.mu.Lock()
	old := s.views[caller.Principal]
	s.mu.Unlock()
	if old != nil && time.Now().Before(old.next) {
		return old, nil
	}
	wait := firstPatience
	if old != nil {
		wait = patience
	}
	v, err := front.Shared(ctx, &s.flights, caller.Principal, reading, wait, s.Panicked, func(ctx context.Context) (*view, error) {
		v, err := s.read(ctx, caller)
		if err == nil {
			s.keepView(caller.Principal, v)
		}
		return v, err
	})
	switch {
	case err == nil:
		return v, nil
	case old != nil:
		return old, nil
	}
	return nil, errUnavailable
}

// keepView keeps the view of a principal in place of an earlier one, and forgets the contents that no view has.
func (s *Site) keepView(principal string, v *view) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.views[principal] = v
	for len(s.views) > maxViews {
		oldest := principal
		for p, other := range s.views {
			if other.next.Before(s.views[oldest].next) {
				oldest = p
			}
		}
		delete(s.views, oldest)
	}
	lists, listed := map[*list]bool{}, map[*content]bool{}
	for _, v := range s.views {
		if lists[v.list] { // most callers see the same
			continue
		}
		lists[v.list] = true
		for _, c := range v.contents {
			listed[c] = true
		}
	}
	maps.DeleteFunc(s.contents, func(_ string, c *content) bool { return !listed[c] })
}

// Serves reports whether a path is that of the index or of a file.
func Serves(path string) bool {
	_, ok := parsePath(path)
	return ok
}

// target is what a path means.
type target struct {
	file    string // the name of a skill; empty: the index
	version string // the beginning of the digest; empty: the newest
}

// wellKnown is the folder of the index and the files.
const wellKnown = "/.well-known/agent-skills/"

func parsePath(path string) (target, bool) {
	rest, ok := strings.CutPrefix(path, wellKnown)
	if !ok {
		return target{}, false
	}
	if rest == "index.json" {
		return target{}, true
	}
	rest, ok = strings.CutSuffix(rest, "/SKILL.md")
	file, version, versioned := strings.Cut(rest, "/")
	if !ok || file == "" || versioned && len(version) != versionSize || strings.Contains(version, "/") {
		return target{}, false
	}
	return target{file, version}, true
}

// names are the names of skills. They depend on the tool names of all skills of the bridge, not on what a caller may see.
type names map[string]int // how many tools have a plain name

func newNames(tools []string) names {
	n := make(names, len(tools))
	for _, tool := range tools {
		n[skillfile.PlainName(tool)]++
	}
	return n
}

// of returns the name of the skill with a tool name: the plain one, or the hashed one if another skill has the plain one, too.
func (n names) of(tool string) string {
	plain := skillfile.PlainName(tool)
	if plain == "" || n[plain] > 1 {
		return skillfile.HashedName(tool, plain)
	}
	return plain
}
