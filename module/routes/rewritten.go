package routes

import (
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/fileserver"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"
)

// relativeFile is the placeholder for what a matcher of files has found, to which try_files rewrites requests.
const relativeFile = "{http.matchers.file.relative}"

// frame returns what a rewrite puts before and after the path of requests, as /api{uri} does; ok is false if it does something else. Of methods and
// queries it does not tell.
func frame(h *rewrite.Rewrite) (before, after string, ok bool) {
	path, _, _ := strings.Cut(h.URI, "?")
	path = caddy.NewReplacer().ReplaceKnown(path, "") // those of the environment
	for _, own := range []string{"{http.request.uri}", "{http.request.uri.path}"} {
		if before, after, ok = strings.Cut(path, own); ok {
			break
		}
	}
	return before, after, (ok || path == "") && !strings.Contains(before+after, "{") &&
		h.StripPathPrefix == "" && h.StripPathSuffix == "" && len(h.URISubstring) == 0 && len(h.PathRegexp) == 0
}

// reframes notes what a rewrite does that has a frame, and returns the path that requests had before. If there is none, requests with the path come
// only from clients for which the rewrite does not run.
func (w *Way) reframes(h *rewrite.Rewrite, before, after string, certain bool, r Request) string {
	rest, begins := strings.CutPrefix(r.Path, before)
	rest, ends := strings.CutSuffix(rest, after)
	switch inside := begins && ends && strings.HasPrefix(rest, "/"); {
	case inside && rest != r.Path && !certain:
		w.Unknown = true
	case inside:
		return rest
	case certain:
		w.HiddenBy, w.Rewritten = nameOf(h), true
	}
	return r.Path
}

// rewritten returns the path of requests after a rewrite behind matchers. It is not known if it depends on other placeholders than those of
// the environment and that of the file that the matchers have found.
func rewritten(h *rewrite.Rewrite, sets caddyhttp.MatcherSets, r Request) (path string, known bool) {
	if strings.HasPrefix(h.URI, relativeFile) {
		for _, set := range sets {
			for _, matcher := range set {
				if m, ok := matcher.(*fileserver.MatchFile); ok && fallback(m) != "" {
					return "/" + strings.TrimPrefix(fallback(m), "/"), true
				}
			}
		}
		return "", false
	}
	path, _, _ = strings.Cut(h.URI, "?")
	path = caddy.NewReplacer().ReplaceKnown(path, "")
	values := []string{path, h.StripPathPrefix, h.StripPathSuffix}
	for i := range h.URISubstring {
		values = append(values, h.URISubstring[i].Replace)
	}
	for _, replacer := range h.PathRegexp {
		values = append(values, replacer.Replace)
	}
	if slices.ContainsFunc(values, func(value string) bool { return strings.Contains(value, "{") }) {
		return "", false
	}
	request := r.http()
	plain := rewrite.Rewrite{URI: path, StripPathPrefix: h.StripPathPrefix, StripPathSuffix: h.StripPathSuffix, URISubstring: h.URISubstring, PathRegexp: h.PathRegexp}
	plain.Rewrite(request, caddy.NewReplacer())
	return request.URL.Path, true
}

// rewrites reports whether a rewrite can be followed: it leaves a path as it is, or sends requests that have it elsewhere, which it notes. Its matchers are those of its route,
// for which these requests certainly run or not.
func (w *Way) rewrites(h *rewrite.Rewrite, sets caddyhttp.MatcherSets, certain bool, r Request) bool {
	to, known := rewritten(h, sets, r)
	if known && to == r.Path && h.URI == "" {
		return true
	}
	if !known || to == r.Path || w.place.takes(w.prefix(r), Request{r.Method, to}) ||
		slices.ContainsFunc(w.later, func(later caddyhttp.MatcherSets) bool { return mayMatch(later, Request{r.Method, to}) }) {
		return false
	}
	if certain {
		w.HiddenBy, w.Rewritten = nameOf(h), true
	}
	return true
}

// prefix returns what the handlers between a place in front and the handler strip from paths.
func (w *Way) prefix(r Request) string { return strings.TrimSuffix(r.Path, w.path) }

// takes reports whether the handler answers requests that have a path before a prefix of it is stripped.
func (p *Place) takes(prefix string, r Request) bool {
	a, ok := p.handler.(answerer)
	path, has := strings.CutPrefix(r.Path, prefix)
	return !ok || has && a.Answers(Request{r.Method, path}.http())
}

// fallback returns the file that a matcher finds for paths without a file; empty: there is none.
func fallback(m *fileserver.MatchFile) string {
	if len(m.TryFiles) == 0 {
		return ""
	}
	if last := m.TryFiles[len(m.TryFiles)-1]; !strings.Contains(last, "{") {
		return last
	}
	return ""
}

// findsFallback reports whether a matcher of files matches paths without a file. A fallback is taken to exist if it is one: a file that is the only
// one may be a switch, as for maintenance.
func findsFallback(m *fileserver.MatchFile) bool {
	return fallback(m) != "" && (len(m.TryFiles) > 1 || m.TryPolicy == "first_exist_fallback")
}

// findsNone reports whether a matcher of files does not match paths without a file, as those of the handler are.
func findsNone(m *fileserver.MatchFile) bool {
	return !slices.ContainsFunc(m.TryFiles, func(file string) bool {
		return !strings.Contains(file, "{path}") && !strings.Contains(file, "{http.request.uri.path}")
	})
}

// triesLast reports whether a route is the last one of those that try_files becomes if one of its files has a query: it has only the fallback.
func triesLast(route *caddyhttp.Route) bool {
	sets := route.MatcherSets
	if len(route.Handlers) != 1 || len(sets) != 1 || len(sets[0]) != 1 {
		return false
	}
	h, rewrites := route.Handlers[0].(*rewrite.Rewrite)
	m, files := sets[0][0].(*fileserver.MatchFile)
	return rewrites && files && strings.HasPrefix(h.URI, relativeFile+"?") && fallback(m) != ""
}
