package publish

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/translate/publish"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// catalog is what is published. It is immutable.
type catalog struct {
	namespace string // of operations
	provider  document.Provider
	skills    map[string]*publish.Skill // by id
	ordered   []*publish.Skill          // by id
	partial   bool                      // a document was not read yet

	last [2][1 + len(document.CapabilityTypes)]atomic.Pointer[encoded] // that were asked for, without and with private skills, by kind
}

// encoded is an index that was encoded: that of a large API takes milliseconds.
type encoded struct {
	base    string
	text    []byte
	private bool
}

// index returns the index of the skills of a kind (empty: of all), which are served below base, and whether it has private ones.
func (c *catalog) index(base string, kind document.CapabilityType, withPrivate bool) (text []byte, private bool) {
	slot := &c.last[map[bool]int{true: 1}[withPrivate]][1+slices.Index(document.CapabilityTypes[:], kind)]
	if last := slot.Load(); last != nil && last.base == base {
		return last.text, last.private
	}
	index := document.Index{Protocol: document.ProtocolVersion{Version: document.ConsumerVersion}, Provider: c.provider, Skills: []document.IndexEntry{}}
	for _, s := range c.ordered {
		if (s.Access != document.Private || withPrivate) && (kind == "" || s.CapabilityType == kind) {
			index.Skills = append(index.Skills, s.Entry(base))
			private = private || s.Access == document.Private
		}
	}
	text, _ = json.Marshal(&index, jsonOptions) // it was read from JSON
	slot.Store(&encoded{base, text, private})
	return text, private
}

// serveIndex answers a request for the index, or for the skills of a registry.
func (q *request) serveIndex(c *catalog) {
	kind := document.CapabilityType(q.URL.Query().Get("type"))
	if kind != "" && !slices.Contains(document.CapabilityTypes[:], kind) {
		q.fail(http.StatusBadRequest, document.ValidationError, "type has to be one of api, knowledge, plugin and task", nil)
		return
	}
	if base, ok := q.documents(); ok {
		text, private := c.index(base, kind, q.caller != "")
		q.serveDocument(text, private, c.partial)
	}
}

// serveDescriptor answers a request for a descriptor.
func (q *request) serveDescriptor(c *catalog, s *publish.Skill) {
	if base, ok := q.documents(); ok {
		q.serveDocument(s.Descriptor(base, c.provider.Name), s.Access == document.Private, false)
	}
}

// serveDocument writes a document, or that the client has it already. Nothing keeps a private one, and one that is partial is fresh until the documents are looked at again.
func (q *request) serveDocument(text []byte, private, partial bool) {
	memory := q.memory()
	defer memory.Set(0)
	if !memory.Set(int64(len(text))) {
		q.failForNow(http.StatusTooManyRequests, document.RateLimited, "Too many answers are in memory", time.Second)
		return
	}
	sum := sha256.Sum256(text)
	header := q.w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("ETag", `"`+base64.RawURLEncoding.EncodeToString(sum[:16])+`"`)
	header.Set("Cache-Control", map[bool]string{true: "max-age=5", false: "max-age=60"}[partial])
	if private {
		header.Set("Cache-Control", "no-store")
	}
	header.Add("Vary", "Authorization")
	http.ServeContent(q.w, q.Request, "", time.Time{}, bytes.NewReader(text))
}

// documents returns the base of the URLs in documents. Otherwise it answers.
func (q *request) documents() (base string, ok bool) {
	if !q.allows(http.MethodGet, http.MethodHead) {
		return "", false
	}
	if base, ok = q.base(); !ok {
		q.fail(http.StatusMisdirectedRequest, document.EndpointUnreachable, "The address of this site does not name the host and port of the request, so that the publisher "+
			"does not know its own URL: its operator has to write url https://<host> into the block of "+directive, nil)
	}
	return base, ok
}
