package jsonrpc

import (
	"mime"
	"net/http"
	"strings"
)

// refusal is the answer to an HTTP request whose body is not read.
type refusal struct {
	status int
	text   string
	// header and value say what the server accepts.
	header, value string
}

func (f *refusal) write(w http.ResponseWriter) {
	w.Header().Set(f.header, f.value)
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, f.text, f.status)
}

var (
	refusedMethod = &refusal{
		http.StatusMethodNotAllowed,
		"JSON-RPC needs a POST request.",
		"Allow", http.MethodPost,
	}
	refusedType = &refusal{
		http.StatusUnsupportedMediaType,
		"Send the request with one Content-Type: application/json, in UTF-8.",
		"Accept", "application/json",
	}
	refusedCoding = &refusal{
		http.StatusUnsupportedMediaType,
		"Send the request without a Content-Encoding.",
		"Accept-Encoding", "identity",
	}
)

// refuse returns why the body of a request is not read; nil: it is.
func refuse(r *http.Request) *refusal {
	if r.Method != http.MethodPost {
		return refusedMethod
	}
	if r.Header["Content-Encoding"] != nil {
		return refusedCoding
	}
	if !acceptable(r.Header) {
		return refusedType
	}
	return nil
}

// acceptable reports whether the media type is JSON. This protects against web pages of
// other origins: without a CORS preflight, they can post text or a form to any server,
// but not JSON (Fetch Standard, "CORS-safelisted request-header"). They can also post a
// body without a media type. Such a body is accepted only from clients that are not
// browsers.
func acceptable(h http.Header) bool {
	types := h["Content-Type"]
	switch len(types) {
	case 0:
		return len(h["Origin"]) == 0 && len(h["Sec-Fetch-Site"]) == 0
	case 1:
		return isJSON(types[0])
	}
	return false
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	mediaType, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return false
	}
	switch mediaType {
	case "application/json", "application/json-rpc":
	default:
		return false
	}
	charset, declared := params["charset"]
	return !declared || strings.EqualFold(charset, "utf-8")
}
