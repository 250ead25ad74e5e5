package fronts

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// baseOf returns the URL of the handler as the client of a request sees it: its path is what a handler in front has removed.
func baseOf(r *http.Request) url.URL {
	original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request)
	if !ok {
		original = *r
	}
	u := url.URL{Scheme: "http", Host: r.Host}
	if r.TLS != nil {
		u.Scheme = "https"
	}
	if trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool); trusted {
		if scheme := r.Header.Get("X-Forwarded-Proto"); scheme == "http" || scheme == "https" {
			u.Scheme = scheme
		}
		if host := r.Header.Get("X-Forwarded-Host"); host != "" && !strings.ContainsAny(host, "/, @") {
			u.Host = host
		}
	}
	if original.URL != nil {
		if prefix, ok := strings.CutSuffix(original.URL.Path, r.URL.Path); ok {
			u.Path = prefix
		}
	}
	return u
}

// urlOf returns the URL of a path of the handler as the client of a request sees it.
func urlOf(r *http.Request, path string) string {
	u := baseOf(r)
	u.Path += path
	return u.String()
}

// URLOf returns the URL of a request as its client sees it, without the query.
func URLOf(r *http.Request) string { return urlOf(r, r.URL.Path) }
