package discovery

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/skillsite"
)

// discoveryTimeout bounds the reading of one document.
const discoveryTimeout = 10 * time.Second

// Reader reads the documents of one source of skills, through a cache. It is safe for concurrent use, and must not be
// changed once it is in use.
type Reader struct {
	exchange.Sender
	// Cache keeps documents, apart from those of other partitions.
	Cache *cache.Cache
	// Site says that the source is a site that publishes skills in the Agent Skills format, instead of a provider.
	Site bool
	// Guard decides about changed descriptors; nil: the newest one is used.
	Guard Guard

	constants atomic.Pointer[constant]
}

// Index returns the index of the provider (section 4.3).
func (r *Reader) Index(ctx context.Context) (*document.Index, *run.Failure) {
	if doc := r.fresh(indexDocument, r.constant().index, time.Now()); doc != nil {
		if e := r.judgeDocument(ctx, indexDocument, r.constant().index, doc); e != nil {
			return nil, e
		}
		return doc.Value.(*keptIndex).Index, nil
	}
	return r.IndexSince(ctx, time.Time{})
}

// IndexSince is Index, but confirms a fresh index that was asked for before a time (see [cache.Request]).
func (r *Reader) IndexSince(ctx context.Context, asked time.Time) (*document.Index, *run.Failure) {
	return r.index(ctx, indexDocument, indexURL(r), asked, func(response *cache.Response) (*document.Index, error) {
		if !r.Site {
			return r.Limits.ReadIndex(response.Body)
		}
		served, err := url.Parse(response.URL)
		if err != nil {
			return nil, err
		}
		return skillsite.ReadIndex(response.Body, served)
	})
}

// indexURL returns the URL of the source's index.
func indexURL(r *Reader) *url.URL {
	if r.Site {
		return r.below(skillsite.IndexPath)
	}
	return r.below(document.WellKnownPath)
}

// Registry returns the skills of a type that the registry at the source's origin
// lists (section 4.2). An empty type stands for all types.
func (r *Reader) Registry(ctx context.Context, t document.CapabilityType) (*document.Index, *run.Failure) {
	return r.index(ctx, registryDocument, r.registryURL(t), time.Time{}, func(response *cache.Response) (*document.Index, error) {
		return r.Limits.ParseRegistry(response.Body)
	})
}

func (r *Reader) registryURL(t document.CapabilityType) *url.URL {
	u := r.below("skills")
	if t != "" {
		q := u.Query()
		q.Set("type", string(t))
		u.RawQuery = q.Encode()
	}
	return u
}

// below returns a URL under the source's origin.
func (r *Reader) below(path string) *url.URL {
	base := *r.Origin
	if !strings.HasPrefix(base.Path, "/") {
		base.Path = "/" + base.Path // otherwise JoinPath would make a relative path
	}
	return base.JoinPath(path)
}

func (r *Reader) index(ctx context.Context, kind documentKind, u *url.URL, asked time.Time, parse func(*cache.Response) (*document.Index, error)) (*document.Index, *run.Failure) {
	doc, err := r.document(ctx, kind, wanted{u: u, text: u.String(), asked: asked}, func(response *cache.Response) (any, error) {
		if e := CheckMediaType(run.PhaseDiscovery, response.Header); e != nil {
			return nil, e
		}
		index, err := parse(response)
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

// Location is the URL of a descriptor, in the form that is the key in the cache. It is a text, because
// a parsed URL for each skill would take more memory. That of an artifact of a site has a fragment (see [skillsite.ArtifactOf]).
type Location string

// NewLocation returns the location for a URL. It accepts an invalid URL; reading the
// descriptor fails then.
func NewLocation(descriptorURL string) Location {
	u, err := document.ParseEndpointURL(descriptorURL)
	if err != nil {
		return Location(descriptorURL)
	}
	text := u.String()
	if _, fragment, ok := skillsite.ArtifactOf(descriptorURL); ok {
		text += fragment
	}
	if text != descriptorURL {
		return Location(text)
	}
	return Location(descriptorURL) // the same text, without a copy
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
func (r *Reader) Skill(ctx context.Context, at Location) (*Skill, *run.Failure) {
	s, _, e := r.SkillDocument(ctx, at, "", Names{})
	return s, e
}

// SkillDocument is like Skill, and also returns whether the descriptor came from the cache. If id is not
// empty, it is the id of the expected skill. The result may have another id: the caller must check it, unless the result is held. The names
// are those that callers know the skill by.
func (r *Reader) SkillDocument(ctx context.Context, at Location, id string, names Names) (*Skill, cache.State, *run.Failure) {
	if doc := r.fresh(descriptorDocument, string(at), time.Now()); doc != nil {
		if e := r.judgeDocument(ctx, descriptorDocument, string(at), doc); e != nil {
			return nil, 0, e
		}
		s, e := settle(ctx, r, doc.Value.(*Skill), id, names)
		return s, cache.Hit, e
	}
	u, e := at.parse()
	if e != nil {
		return nil, 0, e
	}
	doc, e := r.document(ctx, descriptorDocument, wanted{u: u, text: string(at), id: id}, func(response *cache.Response) (any, error) {
		artifact, _, isArtifact := skillsite.ArtifactOf(string(at))
		if r.Site != isArtifact {
			return nil, document.InvalidDescriptor("The index names an unusable descriptor URL.", run.Violation{Path: "/descriptor_url", Message: "must have the form of the source's descriptors"})
		}
		if e := CheckMediaType(run.PhaseDescriptor, response.Header); e != nil && !r.Site { // the digest tells whether it is the file
			return nil, e
		}
		text, way := response.Body, response.Via
		if response.URL != u.String() { // it was redirected
			way = slices.Insert(slices.Clone(way), 0, u.String())
		}
		var files *skillsite.Files
		if r.Site {
			served, err := url.Parse(response.URL)
			if err == nil {
				files, text, err = artifact.Read(text, served)
			}
			if err != nil {
				return nil, err
			}
		}
		skill, err := readFrom(r, text, response.URL, way)
		if err != nil {
			return nil, err
		}
		skill.Files = files
		return skill, nil
	})
	if e != nil {
		return nil, 0, e
	}
	s, e := settle(ctx, r, doc.Value.(*Skill), id, names)
	return s, doc.State, e
}

// Read reads a document by the same rules and within the same limits as [Reader.Index] and
// [Reader.Skill], but neither validates nor caches it. It is for a command that shows what is wrong
// with the document.
func (r *Reader) Read(ctx context.Context, u *url.URL) (*cache.Response, *run.Failure) {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	response, err := (&retrieval{Reader: r, phase: run.PhaseDescriptor, first: u}).get(ctx, exchange.SharedHeader)
	if err == nil && response.StatusCode != http.StatusOK {
		err = &cache.StatusError{StatusCode: response.StatusCode, Header: response.Header, Body: response.Body}
	}
	if err == nil && r.RepeatsSecret(response.Body) {
		err = secretError(run.PhaseDescriptor)
	}
	if err != nil {
		return nil, r.documentFailure(ctx, run.PhaseDescriptor, u, err)
	}
	for _, values := range response.Header { // which the command may show
		for i := range values {
			values[i] = r.ScrubText(values[i])
		}
	}
	return response, nil
}

// Peek makes no request. It returns the document that the cache has for a location, or nil, and the
// failure to read it that the cache remembers, or nil. The names are those that callers know the skill by.
func (r *Reader) Peek(ctx context.Context, at Location, names Names) (*cache.Document, *run.Failure) {
	doc, err := r.Cache.Peek(string(at), r.partition(descriptorDocument), r.constant().number)
	if doc != nil {
		if e := r.judgeDocument(ctx, descriptorDocument, string(at), doc); e != nil {
			return nil, e
		}
	}
	doc = settled(r, doc, names)
	if doc != nil && err == nil {
		return doc, nil
	}
	u, e := at.parse()
	if e != nil || err == nil {
		return nil, e
	}
	return doc, r.documentFailure(ctx, run.PhaseDescriptor, u, err)
}

// PeekIndex returns the index of a provider from the cache, or nil, and until when it is fresh, which may be past; zero: it is stale,
// and could not be renewed because of the failure.
func (r *Reader) PeekIndex() (*document.Index, time.Time, *run.Failure) {
	return r.peekIndex(r.constant().index, indexDocument)
}

// PeekRegistry is PeekIndex for a registry's answer.
func (r *Reader) PeekRegistry(t document.CapabilityType) (*document.Index, time.Time, *run.Failure) {
	return r.peekIndex(r.registryURL(t).String(), registryDocument)
}

func (r *Reader) peekIndex(at string, kind documentKind) (*document.Index, time.Time, *run.Failure) {
	doc, _ := r.Cache.Peek(at, r.partition(kind), r.constant().number) // a failure to renew it changes nothing
	if doc == nil {
		return nil, time.Time{}, nil
	}
	until, failure := FreshUntil(doc)
	return doc.Value.(*keptIndex).Index, until, failure
}

// ForgetIndex drops the index of a provider from the cache.
func (r *Reader) ForgetIndex() {
	r.Cache.Delete(r.constant().index, r.partition(indexDocument))
}

// ForgetRegistry drops a registry's answer from the cache.
func (r *Reader) ForgetRegistry(t document.CapabilityType) {
	r.Cache.Delete(r.registryURL(t).String(), r.partition(registryDocument))
}

// Forget drops a descriptor from the cache. It is for a provider that says that the skill does not exist.
func (r *Reader) Forget(at Location) {
	r.Cache.Delete(string(at), r.partition(descriptorDocument))
}

// documentKind is the type that a document is parsed as. The cache keeps documents of different kinds
// apart, since a hostile index can name any URL, even its own, as the URL of a descriptor.
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

// constant holds what is computed once for each reader.
type constant struct {
	number     uint64 // of the reader; readers with the same partition share documents
	index      string // URL of the index
	partitions [documentKinds]string
	limits     *document.Limits            // of descriptors; one copy for all
	large      map[run.Phase]chan struct{} // slots for large documents
	misses     misses
}

// readers is the number of the newest reader.
var readers atomic.Uint64

func (r *Reader) constant() *constant {
	if known := r.constants.Load(); known != nil {
		return known
	}
	made := &constant{number: readers.Add(1), index: indexURL(r).String(), misses: misses{perMinute: r.Limits.FailedReads, untried: untriedReads(&r.Limits)}}
	made.large = map[run.Phase]chan struct{}{run.PhaseDiscovery: make(chan struct{}, maxLarge), run.PhaseDescriptor: make(chan struct{}, maxLarge)}
	for kind, name := range documentKindNames {
		if r.Site {
			name = "site " + name
		}
		made.partitions[kind] = name + " " + r.Partition
	}
	limits := r.Limits
	limits.Owner = made.partitions[descriptorDocument]
	made.limits = &limits
	if !r.constants.CompareAndSwap(nil, made) {
		return r.constants.Load() // a concurrent call has stored its own
	}
	return made
}

func (r *Reader) partition(kind documentKind) string { return r.constant().partitions[kind] }

// fresh returns a document from the cache if it is fresh at a time, about now, or nil.
func (r *Reader) fresh(kind documentKind, url string, now time.Time) *cache.Document {
	return r.Cache.Fresh(url, r.partition(kind), now)
}
