package document

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// executionIDPlaceholder stands for the execution id in the URL templates of an
// endpoint (section 5.5).
const executionIDPlaceholder = "{execution_id}"

// MaxExecutionID is the longest execution id that is put into a URL, in bytes.
const MaxExecutionID = 512

// ExpandURL returns the status or result URL of a run. The execution id is
// escaped, so that it stays one path segment or one query value. If the
// template has no placeholder, the id is added as a path segment.
func ExpandURL(template, executionID string) (*url.URL, error) {
	switch id := executionID; {
	case id == "", id == ".", id == "..": // which would change the meaning of a URL even when they are escaped
		return nil, fmt.Errorf("%q can't be used as an execution id", id)
	case len(id) > MaxExecutionID:
		return nil, fmt.Errorf("an execution id of %d bytes is longer than %d", len(id), MaxExecutionID)
	case strings.Contains(schemeAndAuthority(template), executionIDPlaceholder):
		return nil, fmt.Errorf("%q lets the execution id choose the host", template)
	}
	template, _, _ = strings.Cut(template, "#")                             // a fragment is not sent, so the id can't be in it
	escaped := strings.ReplaceAll(url.QueryEscape(executionID), "+", "%20") // all but the unreserved characters of RFC 3986, section 2.3
	if strings.Contains(template, executionIDPlaceholder) {
		return ParseEndpointURL(strings.ReplaceAll(template, executionIDPlaceholder, escaped))
	}
	base, query, hasQuery := strings.Cut(template, "?")
	expanded := strings.TrimSuffix(base, "/") + "/" + escaped
	if hasQuery {
		expanded += "?" + query
	}
	return ParseEndpointURL(expanded)
}

// TemplateURL returns the URL of a template whose id is not known, to check its
// host. The placeholder stays in it, so that logs show no invented id.
func TemplateURL(template string) (*url.URL, error) {
	return ExpandURL(template, executionIDPlaceholder)
}

// escapeForbidden percent-encodes characters that a path or query must not have (RFC 3986,
// appendix A). Package net/url does so, too, but first it decodes all other escapes in a
// path, such as those of an execution id.
func escapeForbidden(s string) string {
	allowed := func(c byte) bool { return c > ' ' && c < 0x7f && strings.IndexByte("\"<>\\^`{|}", c) < 0 }
	if !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x7f || !allowed(byte(r)) }) { //nolint:gosec // it is ASCII
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; allowed(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

var defaultPorts = map[string]string{"https": ":443", "http": ":80"}

// ParseEndpointURL parses an absolute http(s) URL, and removes the fragment,
// which is never sent. The host is in lower case and without the default port (RFC 3986, section 6.2), so that
// no host has several shares of a bound, and equal URLs are one document.
func ParseEndpointURL(text string) (*url.URL, error) {
	head := schemeAndAuthority(text)
	escaped := text // the parts of the result are slices of text, not of a copy
	if rest := text[len(head):]; escapeForbidden(rest) != rest {
		escaped = head + escapeForbidden(rest)
	}
	u, err := url.Parse(escaped)
	if err != nil {
		return nil, fmt.Errorf("%q is not a URL", text)
	}
	if host := u.Hostname(); !strings.ContainsFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) { // others are not requested
		u.Host = strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(u.Host, defaultPorts[u.Scheme]), ":"))
	}
	if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.Opaque != "" {
		return nil, fmt.Errorf("%q is not an absolute http(s) URL", text)
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}
