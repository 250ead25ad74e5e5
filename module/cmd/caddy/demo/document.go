package demo

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const protocolOfIndex = "1.0.0"

//go:embed descriptors
var descriptors embed.FS

// An object is a JSON object.
type object = map[string]any

// A document is a body with its entity tag.
type document struct {
	body []byte
	etag string
}

func newDocument(body []byte) document {
	sum := sha256.Sum256(body)
	return document{body, `"` + hex.EncodeToString(sum[:16]) + `"`}
}

// ServeHTTP sends the document, or 304 if it has not changed.
func (d document) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "max-age=60")
	w.Header().Set("ETag", d.etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(d.body))
}

// An entry has the members of an entry of the index (section 4.3), which a descriptor has, too.
type entry struct {
	ID             string `json:"id"`
	Name           string `json:"name"`
	CapabilityType string `json:"capability_type"`
	Description    string `json:"description"`
	DescriptorURL  string `json:"descriptor_url"`
	Access         string `json:"access"`
	Version        string `json:"version"`
}

// A descriptor has the members of a descriptor (section 3) that the provider uses.
type descriptor struct {
	entry
	Protocol struct {
		Version string `json:"version"`
	} `json:"protocol"`
	Auth struct {
		Type   protection `json:"type"`
		Header string     `json:"header"`
	} `json:"auth"`
	Inputs []struct {
		Name     string `json:"name"`
		Required bool   `json:"required"`
		Default  any    `json:"default"`
		Schema   object `json:"schema"`
	} `json:"inputs"`
}

// readDocuments returns the index, and the skills by slug.
func readDocuments(origin string) (index document, bySlug map[string]*skill, err error) {
	bySlug = make(map[string]*skill, len(skills))
	var entries []entry
	for _, s := range skills {
		file, err := descriptors.ReadFile("descriptors/" + s.slug + ".json")
		if err != nil {
			return index, nil, err
		}
		body := []byte(strings.ReplaceAll(string(file), "{origin}", origin))
		if err := json.Unmarshal(body, &s.descriptor); err != nil {
			return index, nil, fmt.Errorf("the descriptor of %s: %w", s.slug, err)
		}
		s.document = newDocument(body)
		if s.request, err = s.requestSchema(); err != nil {
			return index, nil, fmt.Errorf("the inputs of %s: %w", s.slug, err)
		}
		bySlug[s.slug] = &s
		if !s.unlisted {
			s.descriptor.DescriptorURL = origin + "/skills/" + s.slug + ".json"
			entries = append(entries, s.descriptor.entry)
		}
	}
	body, err := json.Marshal(object{
		"protocol": object{"version": protocolOfIndex},
		"provider": object{"name": "Skill Bridge Demo", "url": origin},
		"skills":   entries,
	}, json.Deterministic(true), jsontext.WithIndent("  ")) // as in section 9.3
	return newDocument(body), bySlug, err
}
