package document

import (
	"net/http"

	"golang.org/x/net/http/httpguts"
)

// maxFieldName is the longest field name that is accepted, in bytes.
const maxFieldName = 128

// fieldName reports whether name is a field name (RFC 9110, section 5.1: a token).
func fieldName(name string) bool {
	return len(name) <= maxFieldName && httpguts.ValidHeaderFieldName(name)
}

// ForbiddenHeader reports whether name must not carry a credential: it is not a
// field name (RFC 9110, section 5.1), or servers use it for framing, routing,
// connection handling or another purpose. Documents choose header names, so
// each one must be checked.
func ForbiddenHeader(name string) bool {
	return !fieldName(name) || forbiddenHeaders[http.CanonicalHeaderKey(name)]
}

// forbiddenHeaders are the fields that must not carry a credential, in the form
// of http.CanonicalHeaderKey. Authorization is not among them.
var forbiddenHeaders = map[string]bool{
	// Routing, framing and connections (RFC 9110, sections 7.2, 7.6, 8.6, 10.1; RFC 9112).
	"Host": true, "Content-Length": true, "Transfer-Encoding": true, "Te": true, "Trailer": true, "Trailers": true,
	"Connection": true, "Keep-Alive": true, "Upgrade": true, "Http2-Settings": true, "Expect": true, "Via": true, "Max-Forwards": true,
	"Proxy-Connection": true, "Proxy-Authenticate": true, "Proxy-Authorization": true, "Proxy-Authentication-Info": true,
	"Alt-Used": true, "Alt-Svc": true, "Early-Data": true, "Date": true,

	// The type of the body, and the types that are accepted in the answer.
	"Content-Type": true, "Content-Encoding": true, "Content-Language": true, "Content-Location": true, "Content-Range": true,
	"Content-Disposition": true, "Content-Security-Policy": true, "Accept": true, "Accept-Charset": true, "Accept-Encoding": true,
	"Accept-Language": true, "Accept-Ranges": true, "User-Agent": true,

	// Conditions, parts and caching: they change what the request asks for.
	"If-Match": true, "If-None-Match": true, "If-Modified-Since": true, "If-Unmodified-Since": true, "If-Range": true, "Range": true,
	"Cache-Control": true, "Pragma": true,

	// The sender of the request, for servers and frameworks.
	"Forwarded": true, "X-Forwarded-For": true, "X-Forwarded-Host": true, "X-Forwarded-Proto": true, "X-Forwarded-Port": true,
	"X-Forwarded-Server": true, "X-Forwarded-By": true, "X-Forwarded-Scheme": true, "X-Forwarded-Ssl": true, "X-Forwarded-Prefix": true,
	"X-Forwarded-Path": true, "X-Forwarded-Uri": true, "X-Forwarded-Method": true, "X-Forwarded-User": true, "X-Forwarded-Email": true,
	"X-Forwarded-Groups": true, "X-Forwarded-Client-Cert": true, "X-Forwarded-Preferred-Username": true, "X-Forwarded-Access-Token": true,
	"X-Real-Ip": true, "X-Client-Ip": true, "X-Cluster-Client-Ip": true, "True-Client-Ip": true, "Cf-Connecting-Ip": true, "Client-Ip": true,
	"X-Original-Url": true, "X-Original-Uri": true, "X-Original-Host": true, "X-Original-Method": true, "X-Rewrite-Url": true,
	"X-Host": true, "X-Http-Method": true, "X-Http-Method-Override": true, "X-Method-Override": true,

	// Fields of browsers, and of tracing.
	"Cookie": true, "Cookie2": true, "Set-Cookie": true, "Set-Cookie2": true, "Origin": true, "Referer": true,
	"Access-Control-Request-Headers": true, "Access-Control-Request-Method": true,
	"Sec-Fetch-Dest": true, "Sec-Fetch-Mode": true, "Sec-Fetch-Site": true, "Sec-Fetch-User": true,
	"Sec-Websocket-Accept": true, "Sec-Websocket-Extensions": true, "Sec-Websocket-Key": true, "Sec-Websocket-Protocol": true, "Sec-Websocket-Version": true,
	"Traceparent": true, "Tracestate": true, "Baggage": true,
}
