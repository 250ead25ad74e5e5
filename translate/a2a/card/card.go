// Package card makes the agent cards of A2A 1.0, 0.3, 0.2 and 0.1. A card lists the skills of an agent, the URL of its endpoint
// and the ways to authenticate.
//
// A [Builder] makes the card of all skills and the card of each skill. The combined card is valid in 1.0 and in 0.3;
// a client that names a version gets a card of that version only. [Serve] answers an HTTP request with a card.
//
// # Cost
//
// Any client can request a card, without authentication. So the JSON of the skills is made only when the list of skills
// changes, and kept for anonymous callers, for callers with a principal, and for the extended card. The bridge is asked again
// for the list only after [recheck]. Concurrent requests share that query. If it takes longer than [patience], they get the old card.
// With an empty cache of documents, a card costs one request for each index and, if there are at most [maxDescribed] skills,
// one for each descriptor. The cache remembers failures, and the bounds of reading descriptors apply. If a descriptor could not be
// read, descriptors are read again after [describeAgain]. A card has at most about 11 MB. Most of that memory is shared by all
// requests: only the part with the URL is made for each request.
package card

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

// Card is an agent card. It is immutable.
type Card struct {
	// ETag is a strong one: it changes if and only if the card does.
	ETag string
	// LastModified is the time of the last change of the skills in the card.
	LastModified time.Time
	// MaxAge is how long the card is fresh: at most as long as the indexes of the sources.
	MaxAge time.Duration
	// Private says that the card is for a caller with a principal: caches must ask again before each use.
	Private bool

	pieces [][]byte // the card is their concatenation; most of them are shared with other cards
	size   int
}

// JSON returns a copy of the card.
func (c *Card) JSON() jsontext.Value {
	return slices.Concat(c.pieces...)
}

// assembler writes a card. Large values that cards share are not copied into its buffer.
type assembler struct {
	front.Writer
	inserted []insertion
}

// insertion is a value that is not copied. It replaces the byte of the buffer at the index at.
type insertion struct {
	at    int
	value []byte
}

func (a *assembler) insert(name string, value []byte) {
	a.Name(name)
	a.inserted = append(a.inserted, insertion{len(a.Buf), value})
	a.Buf = append(a.Buf, '0')
}

// pieces returns the text of the card in pieces, and its size.
func (a *assembler) pieces() (pieces [][]byte, size int) {
	start := 0
	for _, i := range a.inserted {
		pieces = append(pieces, a.Buf[start:i.at], i.value)
		start = i.at + 1
	}
	pieces = append(pieces, a.Buf[start:])
	for _, p := range pieces {
		size += len(p)
	}
	return pieces, size
}

// compose makes a card from a content. form is a version or combined, base the URL of the mount.
func (b *Builder) compose(c *content, form, base, origin string) *Card {
	signed := form == v10 && b.config.Signer != nil
	a := b.write(c, form, base, origin, signed)
	if signed {
		signature := c.signatureFor(b.config.Signer, base, a)
		a.Buf = a.Buf[:len(a.Buf)-1] // the closing brace of the card
		a.OpenArray("signatures")
		a.Buf = append(a.Buf, signature...)
		a.CloseArray()
		a.Close()
	}
	h := sha256.New()
	h.Write(c.digest[:])
	h.Write([]byte(form))
	h.Write(a.Buf)
	card := &Card{ETag: `"` + hex.EncodeToString(h.Sum(nil)[:16]) + `"`, LastModified: c.modified}
	card.pieces, card.size = a.pieces()
	return card
}

// signatureFor returns the signatures for a card that a holds without signatures. It keeps those for the last base URL.
func (c *content) signatureFor(s *Signer, base string, a *assembler) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.base != base {
		pieces, _ := a.pieces()
		c.base, c.signature = base, s.sign(slices.Concat(pieces...))
	}
	return c.signature
}

// Values of cards about versions of A2A and the transport.
const (
	protocolVersion03 = "0.3.0"
	protocolVersion02 = "0.2.6"
	transport         = "JSONRPC"
)

// write writes a card without signatures. compact leaves out members with default values: clients that decode a card and
// encode it again to verify its signature leave them out, too.
func (b *Builder) write(c *content, form, base, origin string, compact bool) *assembler {
	o := &b.config
	a := new(assembler)
	a.Open()
	a.Text("name", c.name)
	a.Text("description", c.description)
	a.Text("version", c.version())
	if form != v10 {
		a.Text("url", base)
		switch {
		case form != v01:
			a.Text("protocolVersion", protocolVersion03)
			a.Text("preferredTransport", transport)
		case slices.Contains(o.Versions, v03): // 0.2 is served as 0.3; 0.1 has neither member
			a.Text("protocolVersion", protocolVersion02)
			a.Text("preferredTransport", transport)
		}
	}
	if form == v10 || form == combined {
		a.OpenArray("supportedInterfaces")
		for _, version := range []string{v10, v03} {
			if !slices.Contains(o.Versions, version) {
				continue
			}
			a.Open()
			a.Text("url", base)
			a.Text("protocolBinding", transport)
			a.Text("protocolVersion", version)
			a.Close()
		}
		a.CloseArray()
	}
	if o.Organization != "" {
		a.OpenMember("provider")
		a.Text("organization", o.Organization)
		a.Text("url", cmp.Or(o.Documentation, origin))
		a.Close()
	}
	a.Optional("documentationUrl", o.Documentation)
	a.Optional("iconUrl", o.Icon)
	b.writeCapabilities(a, c, form, compact)
	modes := commonModes
	if form == v01 {
		modes = slices.Concat(legacyModes, commonModes)
		a.writeLegacyAuthentication(o.Security)
	}
	a.Texts("defaultInputModes", modes)
	a.Texts("defaultOutputModes", modes)
	schemes := o.Security
	if form == v01 { // 0.2 does not have this type
		schemes = slices.DeleteFunc(slices.Clone(schemes), func(s SecurityScheme) bool { return s.Type == typeMutualTLS })
	}
	a.writeSecurity(schemes, form)
	if o.Extended && form != v10 {
		a.Bool("supportsAuthenticatedExtendedCard", true)
	}
	if form == v01 {
		a.insert("skills", c.legacy)
	} else {
		a.insert("skills", c.skills)
	}
	a.Close()
	return a
}

func (b *Builder) writeCapabilities(a *assembler, c *content, form string, compact bool) {
	a.OpenMember("capabilities")
	a.Bool("streaming", true)
	if b.config.Push || !compact {
		a.Bool("pushNotifications", b.config.Push)
	}
	switch {
	case form == v01:
		a.Bool("stateTransitionHistory", false)
		a.Close()
		return
	case form != v03 && b.config.Extended:
		a.Bool("extendedAgentCard", true)
	}
	a.OpenArray("extensions")
	a.Open()
	a.Text("uri", wire.Extension)
	a.Text("description", "The skill that a message is for, its version, and the schemas of inputs and output.")
	if !compact {
		a.Bool("required", false)
	}
	if c.schemas != nil {
		a.OpenMember("params")
		a.insert("skills", c.schemas)
		a.Close()
	}
	a.Close()
	a.CloseArray()
	a.Close()
}

// Serve answers a GET or HEAD request with a card, or with 304 if the client has this card already (RFC 9110, section 13). The
// caller has to check the method.
func Serve(w http.ResponseWriter, r *http.Request, c *Card) {
	header := w.Header()
	if c.Private { // a cookie or another header may name the principal, so the next request for the URL may be another's
		header.Set("Cache-Control", "private, no-cache")
	} else {
		header.Set("Cache-Control", "public, max-age="+strconv.FormatInt(int64(c.MaxAge/time.Second), 10))
		header.Set("Access-Control-Allow-Origin", "*") // what a principal may see is not for pages of other origins
	}
	header.Set("ETag", c.ETag)
	header.Set("Last-Modified", c.LastModified.UTC().Format(http.TimeFormat))
	header.Add("Vary", "A2A-Version")
	header.Add("Vary", "Authorization")
	if c.isHeldBy(r.Header) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(c.size))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	for _, piece := range c.pieces {
		if _, err := w.Write(piece); err != nil {
			return // the client has disconnected
		}
	}
}

// isHeldBy reports whether the header of a conditional request says that the client has this card.
func (c *Card) isHeldBy(header http.Header) bool {
	if tags := header.Values("If-None-Match"); len(tags) > 0 {
		return slices.ContainsFunc(strings.Split(strings.Join(tags, ","), ","), func(tag string) bool { // a tag of another server may have a comma, which does not matter
			tag = strings.TrimSpace(tag)
			return tag == "*" || strings.TrimPrefix(tag, "W/") == c.ETag
		})
	}
	since, err := http.ParseTime(header.Get("If-Modified-Since"))
	return err == nil && !c.LastModified.Truncate(time.Second).After(since)
}
