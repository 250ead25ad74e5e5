package discovery

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// discoveryTimeout bounds the reading of one document.
const discoveryTimeout = 10 * time.Second

// Reader reads the documents of one source of skills, through a cache. It is safe for concurrent use, and must not be
// changed once it is in use.
type Reader struct {
	exchange.Sender
	// Cache keeps documents, apart from those of other partitions.
	Cache *cache.Cache

	constants atomic.Pointer[constant]
}

// Index returns the index of the provider (section 4.3).
func (c *Reader) Index(ctx context.Context) (*document.Index, *run.Failure) {
	if doc := c.fresh(indexDocument, c.constant().index); doc != nil {
		if e := c.judgeDocument(ctx, indexDocument, c.constant().index, doc); e != nil {
			return nil, e
		}
		return doc.Value.(*keptIndex).Index, nil
	}
	return c.index(ctx, indexDocument, c.below(document.WellKnownPath), c.Limits.ParseIndex)
}

// Registry returns what the registry at the client's origin lists (section 4.2).
// An empty type asks for all skills.
func (c *Reader) Registry(ctx context.Context, t document.CapabilityType) (*document.Index, *run.Failure) {
	return c.index(ctx, registryDocument, c.registryURL(t), c.Limits.ParseRegistry)
}

func (c *Reader) registryURL(t document.CapabilityType) *url.URL {
	u := c.below("skills")
	if t != "" {
		q := u.Query()
		q.Set("type", string(t))
		u.RawQuery = q.Encode()
	}
	return u
}

// below is a URL under the client's origin.
func (c *Reader) below(path string) *url.URL {
	base := *c.Origin
	if !strings.HasPrefix(base.Path, "/") {
		base.Path = "/" + base.Path // else JoinPath makes a relative path
	}
	return base.JoinPath(path)
}

func (c *Reader) index(ctx context.Context, kind documentKind, u *url.URL, parse func([]byte) (*document.Index, error)) (*document.Index, *run.Failure) {
	doc, err := c.document(ctx, kind, u, u.String(), "", func(r *cache.Response) (any, error) {
		if e := checkMediaType(run.PhaseDiscovery, r.Header); e != nil {
			return nil, e
		}
		index, err := parse(r.Body)
		if err != nil {
			return nil, err
		}
		return &keptIndex{Index: index}, nil
	})
	if err != nil {
		return nil, err
	}
	return doc.Value.(*keptIndex).Index, nil
}

// Location is where a descriptor is published, to be read many times. There may be
// many of them, so that it is no more than the text that the descriptor is cached by.
type Location string

// NewLocation reads the URL of a descriptor. A URL that can't be used is an error
// when the descriptor is read.
func NewLocation(descriptorURL string) Location {
	u, err := document.ParseEndpointURL(descriptorURL)
	if err != nil {
		return Location(descriptorURL)
	}
	if text := u.String(); text != descriptorURL {
		return Location(text)
	}
	return Location(descriptorURL) // one copy is enough
}

func (l Location) parse() (*url.URL, *run.Failure) {
	u, err := document.ParseEndpointURL(string(l))
	if err != nil {
		return nil, document.InvalidDescriptor("The index names an unusable descriptor URL.", run.Violation{Path: "/descriptor_url", Message: err.Error()})
	}
	return u, nil
}

// Skill returns the skill whose descriptor is published at a location (section
// 4.2).
func (c *Reader) Skill(ctx context.Context, at Location) (*Skill, *run.Failure) {
	s, _, e := c.SkillDocument(ctx, at, "")
	return s, e
}

// SkillDocument is Skill, and says whether the descriptor came from the cache. The id, if it is not
// empty, is that of the skill that is expected; another one is for the caller to judge.
func (c *Reader) SkillDocument(ctx context.Context, at Location, id string) (*Skill, cache.State, *run.Failure) {
	if doc := c.fresh(descriptorDocument, string(at)); doc != nil {
		if e := c.judgeDocument(ctx, descriptorDocument, string(at), doc); e != nil {
			return nil, 0, e
		}
		return doc.Value.(*Skill), cache.Hit, nil
	}
	u, e := at.parse()
	if e != nil {
		return nil, 0, e
	}
	doc, e := c.document(ctx, descriptorDocument, u, string(at), id, func(r *cache.Response) (any, error) {
		if e := checkMediaType(run.PhaseDescriptor, r.Header); e != nil {
			return nil, e
		}
		source, way := u, []*url.URL(nil)
		if r.URL != string(at) { // it was redirected
			var err error
			if source, err = url.Parse(r.URL); err != nil {
				return nil, err
			}
			way = append(way, u)
		}
		for _, text := range r.Via {
			hop, err := url.Parse(text)
			if err != nil {
				return nil, err
			}
			way = append(way, hop)
		}
		limits := c.Limits
		limits.Owner = c.partition(descriptorDocument)
		return newSkill(&limits, r.Body, source, way...)
	})
	if e != nil {
		return nil, 0, e
	}
	return doc.Value.(*Skill), doc.State, nil
}

// Read reads a document as [Reader.Index] and [Reader.Skill] do, by the same rules
// and within the same limits, but neither judges the document nor keeps it: that is for a command
// that shows what is wrong with it.
func (c *Reader) Read(ctx context.Context, u *url.URL) (*cache.Response, *run.Failure) {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	r, err := (&retrieval{Reader: c, phase: run.PhaseDescriptor, first: u}).get(ctx, exchange.SharedHeader)
	if err == nil && r.StatusCode != http.StatusOK {
		err = &cache.StatusError{StatusCode: r.StatusCode, Header: r.Header, Body: r.Body}
	}
	if err == nil && c.RepeatsSecret(r.Body) {
		err = secretError(run.PhaseDescriptor)
	}
	if err != nil {
		return nil, c.documentFailure(ctx, run.PhaseDescriptor, u, err)
	}
	for _, values := range r.Header { // which are shown if they are not as they should be
		for i := range values {
			values[i] = c.ScrubText(values[i])
		}
	}
	return r, nil
}

// Peek returns what is known of a descriptor without a request: the document that the cache
// has, or nil; and why it can't be read at the moment, or nil.
func (c *Reader) Peek(ctx context.Context, at Location) (*cache.Document, *run.Failure) {
	u, e := at.parse()
	if e != nil {
		return nil, e
	}
	doc, err := c.Cache.Peek(string(at), c.partition(descriptorDocument), c.constant().number)
	if doc != nil {
		if e := c.judgeDocument(ctx, descriptorDocument, string(at), doc); e != nil {
			return nil, e
		}
	}
	if err == nil {
		return doc, nil
	}
	return doc, c.documentFailure(ctx, run.PhaseDescriptor, u, err)
}

// PeekIndex returns the index of a provider that is kept, fresh or not, or nil.
func (c *Reader) PeekIndex() *document.Index {
	return c.peekIndex(c.below(document.WellKnownPath), indexDocument)
}

// PeekRegistry returns a registry's answer that is kept, fresh or not, or nil.
func (c *Reader) PeekRegistry(t document.CapabilityType) *document.Index {
	return c.peekIndex(c.registryURL(t), registryDocument)
}

func (c *Reader) peekIndex(u *url.URL, kind documentKind) *document.Index {
	doc, _ := c.Cache.Peek(u.String(), c.partition(kind), c.constant().number) // a failure to renew it changes nothing
	if doc == nil {
		return nil
	}
	return doc.Value.(*keptIndex).Index
}

// ForgetIndex drops the index of a provider from the cache.
func (c *Reader) ForgetIndex() {
	c.Cache.Delete(c.below(document.WellKnownPath).String(), c.partition(indexDocument))
}

// ForgetRegistry drops a registry's answer from the cache.
func (c *Reader) ForgetRegistry(t document.CapabilityType) {
	c.Cache.Delete(c.registryURL(t).String(), c.partition(registryDocument))
}

// Forget drops a descriptor from the cache: the provider has denied the skill.
func (c *Reader) Forget(at Location) {
	c.Cache.Delete(string(at), c.partition(descriptorDocument))
}

// documentKind says what a document is read as. A hostile index can name any URL
// as that of a descriptor, its own too, so the cache keeps the kinds apart.
type documentKind int

const (
	indexDocument documentKind = iota
	registryDocument
	descriptorDocument
	documentKinds
)

var documentKindNames = [documentKinds]string{"index", "registry", "descriptor"}

func (k documentKind) phase() run.Phase {
	if k == descriptorDocument {
		return run.PhaseDescriptor
	}
	return run.PhaseDiscovery
}

// constant is what the requests of one reader have in common.
type constant struct {
	number     uint64 // tells the client from others whose documents are in the same partition
	index      string // its URL
	partitions [documentKinds]string
	large      map[run.Phase]chan struct{} // with room for the large documents that may be read at a time
	misses     misses
}

// clients is how many readers have been used so far.
var clients atomic.Uint64

func (c *Reader) constant() *constant {
	if known := c.constants.Load(); known != nil {
		return known
	}
	made := &constant{number: clients.Add(1), index: c.below(document.WellKnownPath).String(), large: newLarge(), misses: misses{perMinute: c.Limits.FailedReads, untried: untriedReads(&c.Limits)}}
	for kind, name := range documentKindNames {
		made.partitions[kind] = name + " " + c.Partition
	}
	if !c.constants.CompareAndSwap(nil, made) {
		return c.constants.Load() // another call was faster
	}
	return made
}

func (c *Reader) partition(kind documentKind) string { return c.constant().partitions[kind] }

// fresh returns a document from the cache that is fresh, or nil.
func (c *Reader) fresh(kind documentKind, url string) *cache.Document {
	return c.Cache.Fresh(url, c.partition(kind))
}
