package demo

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	protocolOfIndex = "1.0.0"
	idPrefix        = "demo/"
)

// The documents of sections 3 and 4, as far as this provider uses them.
type (
	protocol struct {
		Version string `json:"version"`
	}

	provider struct {
		Name string `json:"name"`
		URL  string `json:"url"`
	}

	index struct {
		Protocol protocol     `json:"protocol"`
		Provider provider     `json:"provider"`
		Skills   []indexEntry `json:"skills"`
	}

	indexEntry struct {
		ID             string `json:"id"`
		Name           string `json:"name"`
		CapabilityType string `json:"capability_type"`
		Description    string `json:"description"`
		DescriptorURL  string `json:"descriptor_url"`
		Access         access `json:"access"`
		Version        string `json:"version"`
	}

	descriptor struct {
		Protocol       protocol    `json:"protocol"`
		ID             string      `json:"id"`
		Name           string      `json:"name"`
		Version        string      `json:"version"`
		CapabilityType string      `json:"capability_type"`
		Description    string      `json:"description"`
		Provider       provider    `json:"provider"`
		Endpoint       endpoints   `json:"endpoint"`
		Inputs         []parameter `json:"inputs"`
		Output         output      `json:"output"`
		Auth           auth        `json:"auth"`
		Access         access      `json:"access"`
		Tags           []string    `json:"tags"`
	}

	endpoints struct {
		URL         string `json:"url"`
		Method      string `json:"method"`
		ContentType string `json:"content_type"`
		StatusURL   string `json:"status_url"`
		ResultURL   string `json:"result_url"`
		TimeoutMS   int64  `json:"timeout_ms"`
		Retry       struct {
			MaxAttempts int `json:"max_attempts"`
			BackoffMS   int `json:"backoff_ms"`
		} `json:"retry"`
	}

	parameter struct {
		Name        string `json:"name"`
		Type        string `json:"type"`
		Description string `json:"description"`
		Required    bool   `json:"required"`
		Default     any    `json:"default,omitzero"`
		Schema      schema `json:"schema"`
	}

	// schema holds the JSON Schema keywords that the inputs here need.
	schema struct {
		Type      string `json:"type"`
		MinLength int    `json:"minLength,omitzero"`
		MaxLength int    `json:"maxLength,omitzero"`
		Minimum   *int   `json:"minimum,omitzero"`
		Maximum   *int   `json:"maximum,omitzero"`
	}

	output struct {
		ContentType string         `json:"content_type"`
		Description string         `json:"description"`
		Schema      map[string]any `json:"schema"`
	}

	auth struct {
		Type        protection `json:"type"`
		Description string     `json:"description,omitzero"`
		Header      string     `json:"header,omitzero"`
		OAuth2      *oauth2    `json:"oauth2,omitzero"`
	}

	oauth2 struct {
		AuthorizationURL string            `json:"authorization_url"`
		TokenURL         string            `json:"token_url"`
		Scopes           map[string]string `json:"scopes"`
	}
)

// An access is an AccessPolicy (section 3.4.2).
type access string

const (
	public     access = "public"
	restricted access = "restricted"
	private    access = "private"
)

// A document is one body and the entity tag that stands for it.
type document struct {
	body []byte
	etag string
}

// newDocument serializes as section 9.3 says: with an indentation of two spaces.
func newDocument(content any) (document, error) {
	body, err := json.Marshal(content, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return document{}, err
	}
	sum := sha256.Sum256(body)
	return document{body, `"` + hex.EncodeToString(sum[:16]) + `"`}, nil
}

// A catalog holds the skills and their documents, which never change while a
// configuration lasts.
type catalog struct {
	skills      map[string]*skill // by slug
	descriptors map[string]document
	publicIndex document
	wholeIndex  document
}

func newCatalog(origin string, skills []*skill) (*catalog, error) {
	owner := provider{Name: "Skill Bridge Demo", URL: origin}
	c := &catalog{
		skills:      make(map[string]*skill, len(skills)),
		descriptors: make(map[string]document, len(skills)),
	}
	whole := index{Protocol: protocol{protocolOfIndex}, Provider: owner}
	open := whole
	for _, s := range skills {
		c.skills[s.slug] = s
		d, err := newDocument(s.descriptor(origin, owner))
		if err != nil {
			return nil, err
		}
		c.descriptors[s.slug] = d

		if s.unlisted {
			continue
		}
		entry := s.entry(origin)
		whole.Skills = append(whole.Skills, entry)
		if s.access != private {
			open.Skills = append(open.Skills, entry)
		}
	}
	var err error
	if c.publicIndex, err = newDocument(open); err != nil {
		return nil, err
	}
	c.wholeIndex, err = newDocument(whole)
	return c, err
}

func (s *skill) entry(origin string) indexEntry {
	return indexEntry{
		ID:             s.id(),
		Name:           s.name,
		CapabilityType: s.capability,
		Description:    s.description,
		DescriptorURL:  origin + "/skills/" + s.slug + ".json",
		Access:         s.access,
		Version:        s.version,
	}
}

func (s *skill) descriptor(origin string, owner provider) descriptor {
	d := descriptor{
		Protocol:       protocol{s.protocol},
		ID:             s.id(),
		Name:           s.name,
		Version:        s.version,
		CapabilityType: s.capability,
		Description:    s.description,
		Provider:       owner,
		Endpoint: endpoints{
			URL:         origin + "/skills/" + s.slug + "/executions",
			Method:      http.MethodPost,
			ContentType: "application/json",
			StatusURL:   origin + "/executions/{execution_id}",
			ResultURL:   origin + "/executions/{execution_id}/result",
			TimeoutMS:   max(30*time.Second, 2*s.duration).Milliseconds(),
		},
		Inputs: s.inputs,
		Output: s.output,
		Auth:   auth{Type: s.protection},
		Access: s.access,
		Tags:   s.tags,
	}
	d.Endpoint.Retry.MaxAttempts, d.Endpoint.Retry.BackoffMS = 3, 500

	switch s.protection {
	case unprotected:
	case byAPIKey:
		d.Auth.Description = "Send the demo's API key in the " + keyHeader + " header."
		d.Auth.Header = keyHeader
	case byOAuth:
		d.Auth.Description = "OAuth 2.0 with the client credentials grant."
		d.Auth.OAuth2 = &oauth2{
			AuthorizationURL: origin + "/authorize",
			TokenURL:         origin + "/token",
			Scopes: map[string]string{
				scopeRun:  "Run the skill, and read its runs",
				scopeRead: "Read the status and the result of runs",
			},
		}
	}
	return d
}

// serveIndex answers with the index (section 4.3); the private skill is in it
// only for those who send the API key (section 4.4).
func (h *Handler) serveIndex(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Vary", keyHeader)
	if sentKey(r) == "" {
		serveDocument(w, r, h.catalog.publicIndex, "max-age=60")
		return nil
	}
	if !h.hasAPIKey(r) {
		return h.keyRequired().write(w)
	}
	serveDocument(w, r, h.catalog.wholeIndex, "private, max-age=60")
	return nil
}

// serveDescriptor answers with a descriptor. To whoever lacks the API key the
// private one does not exist (section 3.4.2).
func (h *Handler) serveDescriptor(w http.ResponseWriter, r *http.Request, slug string) error {
	s := h.catalog.skills[slug]
	if s == nil {
		return skillNotFound(idPrefix + slug).write(w)
	}
	if s.access != private {
		serveDocument(w, r, h.catalog.descriptors[slug], "max-age=60")
		return nil
	}
	w.Header().Set("Vary", keyHeader)
	if !h.hasAPIKey(r) {
		return skillNotFound(s.id()).write(w)
	}
	serveDocument(w, r, h.catalog.descriptors[slug], "private, max-age=60")
	return nil
}

func serveDocument(w http.ResponseWriter, r *http.Request, d document, cacheControl string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", cacheControl)
	w.Header().Set("ETag", d.etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(d.body))
}
