package jsonrpc

import (
	"cmp"
	"mime"
	"net/http"
	"slices"
	"strings"
)

// refusal is the answer to an HTTP request whose body is not read.
type refusal struct {
	status int
	text   string
	// header and value say what the server accepts or demands.
	header, value string
}

// refuse answers with a refusal: as an error of the profile, else as text.
func (o *output) refuse(f *refusal) {
	o.w.Header().Set(f.header, f.value)
	if fault := o.server.Profile.refusal(f.status, f.text); fault != nil {
		o.error(f.status, nil, fault)
		return
	}
	o.w.Header().Set("Cache-Control", "no-store")
	http.Error(o.w, f.text, f.status)
}

// refusal returns the error of the profile for an HTTP status; nil: it has none.
func (p *Profile) refusal(status int, reason string) *Error {
	if p.Refuse == nil || status == http.StatusMethodNotAllowed {
		return nil
	}
	e := p.Refuse(status, reason)
	if e != nil {
		e.general = true
	}
	return e
}

var refusedCoding = &refusal{
	http.StatusUnsupportedMediaType,
	"Send the request without a Content-Encoding.",
	"Accept-Encoding", "identity",
}

// refuse returns why the body of a request is not read; nil: it is.
func (p *Profile) refuse(r *http.Request) *refusal {
	coded := r.Header["Content-Encoding"] != nil
	switch {
	case r.Method != http.MethodPost:
		return &refusal{
			http.StatusMethodNotAllowed,
			"JSON-RPC needs a POST request.",
			"Allow", cmp.Or(p.Allow, http.MethodPost),
		}
	case coded && len(p.MediaTypes) == 0: // without a list of the profile, the type is checked last
		return refusedCoding
	case !p.acceptable(r.Header):
		return p.refusedType()
	case coded:
		return refusedCoding
	}
	return nil
}

func (p *Profile) refusedType() *refusal {
	types := p.MediaTypes
	if len(types) == 0 {
		types = defaultMediaTypes[:1]
	}
	return &refusal{
		http.StatusUnsupportedMediaType,
		"Send the request with one Content-Type: " + strings.Join(types, " or ") + ", in UTF-8.",
		"Accept", strings.Join(types, ", "),
	}
}

var defaultMediaTypes = []string{"application/json", "application/json-rpc"}

// acceptable reports whether the media type is one of JSON. This protects against web pages of
// other origins: without a CORS preflight, they can post text or a form to any server,
// but not JSON (Fetch Standard, "CORS-safelisted request-header"). They can also post a
// body without a media type. Such a body is accepted only from clients that are not
// browsers, and only if the profile has no list of media types.
func (p *Profile) acceptable(h http.Header) bool {
	accepted := p.MediaTypes
	if len(accepted) == 0 {
		accepted = defaultMediaTypes
	}
	types := h["Content-Type"]
	switch len(types) {
	case 0:
		return len(p.MediaTypes) == 0 && len(h["Origin"]) == 0 && len(h["Sec-Fetch-Site"]) == 0
	case 1:
		return isOneOf(accepted, types[0])
	}
	return false
}

// isOneOf reports whether a Content-Type is one of the media types, in UTF-8.
func isOneOf(accepted []string, contentType string) bool {
	if slices.Contains(accepted, contentType) {
		return true
	}
	mediaType, params, err := mime.ParseMediaType(contentType)
	if err != nil || !slices.Contains(accepted, mediaType) {
		return false
	}
	charset, declared := params["charset"]
	return !declared || strings.EqualFold(charset, "utf-8") || strings.EqualFold(charset, "utf8") // a label of it (Encoding Standard, section 4.2)
}
