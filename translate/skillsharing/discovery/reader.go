package discovery

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
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
	// Registry has the types of skills that the registry at the origin is asked for, of which the empty one stands for all; nil: the source has an index.
	Registry []document.CapabilityType
	// Guard decides about changed descriptors; nil: the newest one is used.
	Guard Guard

	once sync.Once // makes the constants
	made constant
}

// Indexes returns the lists of the source's skills: its index (section 4.3.2) or, of a registry, the answer for each type (section 4.2). A fresh one that
// was asked for before a time is confirmed (see [cache.Request]). If all are the known ones, it returns those.
func (r *Reader) Indexes(ctx context.Context, known []*document.Index, asked time.Time) ([]*document.Index, *run.Failure) {
	all := r.constant().lists
	if asked.IsZero() && r.areFresh(ctx, known) {
		return known, nil
	}
	indexes, errs := make([]*document.Index, len(all)), make([]*run.Failure, len(all))
	var group panics.Group
	for i := range all {
		group.Go(func() { indexes[i], errs[i] = r.index(ctx, wanted{address: all[i], asked: asked}) })
	}
	group.Wait()
	return indexes, cmp.Or(errs...)
}

// areFresh reports whether all lists are in the cache, fresh and the known ones. It makes no slice, since every call asks.
func (r *Reader) areFresh(ctx context.Context, known []*document.Index) bool {
	all := r.constant().lists
	if len(known) != len(all) {
		return false
	}
	for i := range all {
		doc := r.fresh(&all[i], time.Now())
		if doc == nil || doc.Value.(*keptIndex).Index != known[i] || r.judgeDocument(ctx, &all[i], doc) != nil {
			return false
		}
	}
	return true
}

func (r *Reader) index(ctx context.Context, of wanted) (*document.Index, *run.Failure) {
	doc, e := r.document(ctx, of, func(response *cache.Response) (any, error) {
		if e := CheckMediaType(run.PhaseDiscovery, response.Header); e != nil {
			return nil, e
		}
		parse := r.Limits.ReadIndex
		switch {
		case of.kind == registryDocument:
			parse = r.Limits.ParseRegistry
		case r.Site:
			served, err := url.Parse(response.URL)
			if err != nil {
				return nil, err
			}
			parse = func(text []byte) (*document.Index, error) { return skillsite.ReadIndex(text, served) }
		}
		index, err := parse(response.Body)
		return &keptIndex{Index: index}, err
	})
	if e != nil {
		return nil, e
	}
	return doc.Value.(*keptIndex).Index, nil
}

// listsOf returns the addresses of the source's lists.
func listsOf(r *Reader) (lists []address) {
	base := *r.Origin
	if !strings.HasPrefix(base.Path, "/") {
		base.Path = "/" + base.Path // otherwise JoinPath would make a relative path
	}
	for _, t := range r.Registry {
		u := base.JoinPath("skills")
		if t != "" {
			q := u.Query()
			q.Set("type", string(t))
			u.RawQuery = q.Encode()
		}
		lists = append(lists, address{registryDocument, u.String(), u})
	}
	path := document.WellKnownPath
	if r.Site {
		path = skillsite.IndexPath
	}
	if u := base.JoinPath(path); r.Registry == nil {
		lists = append(lists, address{indexDocument, u.String(), u})
	}
	return lists
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

func (l Location) address() address { return address{kind: descriptorDocument, text: string(l)} }

func (l Location) parse() (*url.URL, *run.Failure) {
	u, err := document.ParseEndpointURL(string(l))
	if err != nil {
		return nil, document.Unusable(run.PhaseDescriptor, "The index names an unusable descriptor URL.", run.Violation{Path: "/descriptor_url", Message: err.Error()})
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
	of := wanted{address: at.address(), id: id}
	if doc := r.fresh(&of.address, time.Now()); doc != nil {
		if e := r.judgeDocument(ctx, &of.address, doc); e != nil {
			return nil, 0, e
		}
		s, e := settle(ctx, r, doc.Value.(*Skill), id, names)
		return s, cache.Hit, e
	}
	u, e := at.parse()
	if e != nil {
		return nil, 0, e
	}
	of.u = u
	doc, e := r.document(ctx, of, func(response *cache.Response) (any, error) {
		artifact, _, isArtifact := skillsite.ArtifactOf(string(at))
		if r.Site != isArtifact {
			return nil, document.Unusable(run.PhaseDescriptor, "The index names an unusable descriptor URL.", run.Violation{Path: "/descriptor_url", Message: "must have the form of the source's descriptors"})
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
	l := &lookup{Reader: r, phase: run.PhaseDescriptor, first: u}
	defer func() { r.constant().misses.end(l.requests, l.redirects, outcomeUnsent) }() // they are not counted
	response, err := l.get(ctx, exchange.SharedHeader)
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
	of := at.address()
	doc, err := r.peek(&of)
	if doc != nil {
		if e := r.judgeDocument(ctx, &of, doc); e != nil {
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

// PeekIndexes returns the lists of the source that the cache has, and nil for others.
func (r *Reader) PeekIndexes() (indexes []*document.Index) {
	for i := range r.constant().lists {
		var index *document.Index
		if doc, _ := r.peek(&r.constant().lists[i]); doc != nil { // a failure to renew it changes nothing
			index = doc.Value.(*keptIndex).Index
		}
		indexes = append(indexes, index)
	}
	return indexes
}

// FreshUntil returns until when all lists of the source are fresh, which may be past; zero: one is not in the cache, or is stale, and could not be
// renewed because of the failure.
func (r *Reader) FreshUntil() (first time.Time, stale *run.Failure) {
	for i := range r.constant().lists {
		var until time.Time
		var failure *run.Failure
		if doc, _ := r.peek(&r.constant().lists[i]); doc != nil {
			until, failure = FreshUntil(doc)
		}
		if stale = cmp.Or(stale, failure); i == 0 || until.Before(first) {
			first = until
		}
	}
	return first, stale
}

// ForgetIndexes drops the lists of the source from the cache.
func (r *Reader) ForgetIndexes() {
	for i := range r.constant().lists {
		r.forget(&r.constant().lists[i])
	}
}

// Forget drops a descriptor from the cache. It is for a provider that says that the skill does not exist.
func (r *Reader) Forget(at Location) {
	of := at.address()
	r.forget(&of)
}

// address says where a document is, and what it is parsed as.
type address struct {
	kind documentKind
	text string // of the URL: the key in the cache
	u    *url.URL
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
	lists      []address
	partitions [documentKinds]string
	limits     document.Limits // of descriptors
	reading    reading
	parsing    map[run.Phase]chan struct{} // slots for large documents
	misses     *misses
}

// readers is the number of the newest reader.
var readers atomic.Uint64

func (r *Reader) constant() *constant {
	r.once.Do(func() {
		made := &r.made
		made.number, made.lists = readers.Add(1), listsOf(r)
		l := &r.Limits // since requests in progress count as failed, all concurrent reads and their redirects must be possible
		made.misses = newMisses(l.FailedReads, (maxRedirects+1)*max(l.FailedReads, l.Reads))
		made.parsing = map[run.Phase]chan struct{}{run.PhaseDiscovery: make(chan struct{}, maxParsed), run.PhaseDescriptor: make(chan struct{}, maxParsed)}
		for kind, name := range documentKindNames {
			if r.Site {
				name = "site " + name
			}
			made.partitions[kind] = name + " " + r.Partition
		}
		made.limits = r.Limits
		made.limits.Owner = made.partitions[descriptorDocument]
	})
	return &r.made
}

func (r *Reader) partition(kind documentKind) string { return r.constant().partitions[kind] }

// fresh returns a document from the cache if it is fresh at a time, about now, or nil.
func (r *Reader) fresh(of *address, now time.Time) *cache.Document {
	return r.Cache.Fresh(of.text, r.partition(of.kind), now)
}

// peek returns a document from the cache, or nil, and the failure to read it that the cache remembers, or nil.
func (r *Reader) peek(of *address) (*cache.Document, error) {
	return r.Cache.Peek(of.text, r.partition(of.kind), r.constant().number)
}

// forget drops a document from the cache.
func (r *Reader) forget(of *address) { r.Cache.Delete(of.text, r.partition(of.kind)) }
