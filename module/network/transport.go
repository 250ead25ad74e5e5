package network

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json" // Caddy's types are made for encoding/json
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// TransportName is the name of the transport in `transport http`, and TransportModule the ID of its module.
const (
	TransportName   = "http"
	TransportModule = transportNamespace + "." + TransportName

	transportNamespace = "http.reverse_proxy.transport"
)

// ErrTransport is the error for all transports except http.
var ErrTransport = errors.New("only http is possible: the bridge can't check the addresses that other transports connect to")

// Transport sends requests to providers. It is Caddy's HTTP transport with a guard that checks
// each address before it is dialed. It ignores the proxies that environment variables name.
type Transport struct {
	*http.Transport
	// unidentified sends, on its own connections, the requests to hosts that must not
	// receive the client certificate; nil: there is no certificate.
	unidentified *Transport
	guard        *guard
	proxied      bool
	// http2 has the URL schemes of which requests may use HTTP/2.
	http2    map[string]bool
	overhead int64 // what HTTP/2 connections may carry for a call besides answers, in bytes
	// anew returns a copy of the transport that opens a new connection for each request.
	anew  func() *http.Transport
	hosts *hosts
}

// CheckTransport checks the configuration of a transport as far as possible without loading it.
func CheckTransport(raw json.RawMessage) error {
	_, err := parseTransport(raw)
	return err
}

// parseTransport reads and checks the configuration of a transport and sets defaults that
// suit unknown servers; Caddy's own are for trusted upstreams.
func parseTransport(raw json.RawMessage) (*reverseproxy.HTTPTransport, error) {
	config := new(reverseproxy.HTTPTransport)
	if len(raw) > 0 {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(raw, &members); err != nil {
			return nil, fmt.Errorf("transport is not a JSON object: %w", err)
		}
		var protocol string
		if err := json.Unmarshal(members["protocol"], &protocol); err != nil || protocol != TransportName {
			return nil, fmt.Errorf("transport %q: %w", protocol, ErrTransport)
		}
		delete(members, "protocol")
		rest, err := json.Marshal(members)
		if err != nil {
			return nil, err
		}
		if err := caddy.StrictUnmarshalJSON(rest, config); err != nil {
			return nil, fmt.Errorf("transport: %w", err)
		}
	}
	if err := checkGuardable(config); err != nil {
		return nil, err
	}
	if config.TLS == nil {
		config.TLS = new(reverseproxy.TLSConfig)
	}
	if config.KeepAlive == nil {
		config.KeepAlive = new(reverseproxy.KeepAlive)
	}
	config.DialTimeout = cmp.Or(config.DialTimeout, caddy.Duration(5*time.Second))
	config.TLS.HandshakeTimeout = cmp.Or(config.TLS.HandshakeTimeout, caddy.Duration(5*time.Second))
	config.ExpectContinueTimeout = cmp.Or(config.ExpectContinueTimeout, caddy.Duration(time.Second))
	config.MaxResponseHeaderSize = cmp.Or(config.MaxResponseHeaderSize, 64<<10)
	config.WriteBufferSize = cmp.Or(config.WriteBufferSize, 8<<10)
	config.KeepAlive.IdleConnTimeout = cmp.Or(config.KeepAlive.IdleConnTimeout, caddy.Duration(90*time.Second))
	config.KeepAlive.MaxIdleConnsPerHost = cmp.Or(config.KeepAlive.MaxIdleConnsPerHost, 512)
	return config, nil
}

// checkGuardable refuses options with which Caddy's transport would not dial through the
// guard, options that the guard does not support, and negative values.
func checkGuardable(config *reverseproxy.HTTPTransport) error {
	for name, d := range map[string]caddy.Duration{
		"dial_timeout": config.DialTimeout, "response_header_timeout": config.ResponseHeaderTimeout,
		"expect_continue_timeout": config.ExpectContinueTimeout, "read_timeout": config.ReadTimeout, "write_timeout": config.WriteTimeout,
	} {
		if d < 0 {
			return fmt.Errorf("transport: %s %s is negative", name, time.Duration(d))
		}
	}
	switch {
	case config.MaxResponseHeaderSize < 0:
		return fmt.Errorf("transport: max_response_header_size %d is negative", config.MaxResponseHeaderSize)
	case config.TLS != nil && config.TLS.HandshakeTimeout < 0:
		return fmt.Errorf("transport: handshake_timeout %s is negative", time.Duration(config.TLS.HandshakeTimeout))
	case slices.Contains(config.Versions, "3"):
		return errors.New("transport with HTTP/3 (versions 3) is not possible: its connections can't be checked")
	case config.ProxyProtocol != "":
		return errors.New("transport with proxy_protocol is not possible: there is no client address to send, and its TLS connections can't be checked")
	case config.TLS != nil && strings.Contains(config.TLS.ServerName, "{"):
		return fmt.Errorf("transport with a placeholder in tls_server_name (%q) is not possible: its connections can't be checked", config.TLS.ServerName)
	}
	_, err := nameServers(config.Resolver)
	return err
}

// nameServers returns the addresses of a resolver, or none if there is no resolver.
func nameServers(resolver *reverseproxy.UpstreamResolver) ([]caddy.NetworkAddress, error) {
	if resolver == nil {
		return nil, nil
	}
	if len(resolver.Addresses) == 0 {
		return nil, errors.New("transport: resolver has no addresses")
	}
	servers := make([]caddy.NetworkAddress, len(resolver.Addresses))
	for i, text := range resolver.Addresses {
		server, err := caddy.ParseNetworkAddressWithDefaults(text, "udp", 53)
		if err != nil {
			return nil, fmt.Errorf("transport: resolver %q: %w", text, err)
		}
		if server.PortRangeSize() != 1 {
			return nil, fmt.Errorf("transport: resolver %q: an address with one port is needed", text)
		}
		servers[i] = server
	}
	return servers, nil
}

// NewTransport provisions Caddy's transport and puts the guard into it.
func NewTransport(ctx caddy.Context, raw json.RawMessage, allowed *Rules, overhead int64) (*Transport, error) {
	config, err := parseTransport(raw)
	if err != nil {
		return nil, err
	}
	t, err := provisionTransport(ctx, config, allowed, overhead)
	if err != nil {
		return nil, err
	}
	if config.TLS.InsecureSkipVerify {
		ctx.Logger().Warn("certificates of providers are not verified: anyone on the network path can read secrets")
	}
	if config.TLS.ClientCertificateFile == "" && config.TLS.ClientCertificateAutomate == "" {
		return t, nil
	}
	without := *config.TLS
	without.ClientCertificateFile, without.ClientCertificateKeyFile, without.ClientCertificateAutomate = "", "", ""
	config.TLS = &without
	if t.unidentified, err = provisionTransport(ctx, config, allowed, overhead); err != nil {
		return nil, err
	}
	t.unidentified.reportWithheld(allowed)
	return t, nil
}

// reportWithheld makes a transport without a client certificate report each host that asks for one.
func (t *Transport) reportWithheld(r *Rules) {
	if t.TLSClientConfig == nil {
		t.TLSClientConfig = new(tls.Config)
	}
	t.TLSClientConfig.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if u, ok := asked.Context().Value(targetKey{}).(*url.URL); ok && r.Notice != nil {
			r.Notice(asked.Context(), exchange.CertificateWithheld(asked.Context(), u))
		}
		return new(tls.Certificate), nil // an empty one: none is sent
	}
}

// targetKey is the context key of the URL of a request that is sent without the client certificate.
type targetKey struct{}

// CloseIdleConnections closes the idle connections with and without the client certificate.
func (t *Transport) CloseIdleConnections() {
	t.Transport.CloseIdleConnections()
	if t.unidentified != nil {
		t.unidentified.CloseIdleConnections()
	}
}

// LimitIdle bounds the idle connections, for a transport whose hosts are chosen by others. Call it before the transport is used.
func (t *Transport) LimitIdle(most, perHost int, timeout time.Duration) {
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.IdleConnTimeout = most, perHost, timeout
	if t.unidentified != nil {
		t.unidentified.LimitIdle(most, perHost, timeout)
	}
}

func provisionTransport(ctx caddy.Context, config *reverseproxy.HTTPTransport, allowed *Rules, overhead int64) (*Transport, error) {
	lookup, err := newLookup(config)
	if err != nil {
		return nil, err
	}
	proxied := len(config.NetworkProxyRaw) > 0 || config.ForwardProxyURL != ""
	filled, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	module, err := ctx.LoadModuleByID(TransportModule, filled)
	if err != nil {
		return nil, fmt.Errorf("transport: %w", err)
	}
	inner := module.(*reverseproxy.HTTPTransport).Transport
	t := &Transport{
		Transport: inner,
		guard: &guard{
			Rules:   allowed,
			lookup:  lookup,
			next:    inner.DialContext,
			timeout: time.Duration(config.DialTimeout),
		},
		proxied:  proxied,
		http2:    schemesOfHTTP2(config.Versions),
		overhead: overhead,
		hosts:    newHosts(),
	}
	if t.http2["https"] {
		inner.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: receiveWindow(overhead)}
	}
	if proxied {
		inner.Proxy = rememberProxy(inner.Proxy)
	} else {
		inner.Proxy = nil // a proxy from the environment would hide the target from the guard
	}
	inner.Proxy = limitRepeats(inner.Proxy)
	inner.DialContext = t.dial
	t.anew = sync.OnceValue(func() *http.Transport { return withoutReuse(inner) })
	return t, nil
}

// schemesOfHTTP2 returns the URL schemes of which requests may use HTTP/2, given the option
// versions of a transport. Without it, the versions are 1.1 and 2.
func schemesOfHTTP2(versions []string) map[string]bool {
	withoutTLS := slices.Contains(versions, "h2c")
	return map[string]bool{"https": withoutTLS || len(versions) == 0 || slices.Contains(versions, "2"), "http": withoutTLS}
}

// errSwitched is the error of an answer 101 (Switching Protocols), which the bridge never
// asks for. After it, net/http returns the connection itself as the body, and neither a
// deadline nor a cancelled context ends a read from it.
var errSwitched = &exchange.MalformedError{Status: http.StatusSwitchingProtocols, Reason: "the answer is HTTP 101 (Switching Protocols), which was not requested"}

// RoundTrip implements http.RoundTripper. All requests to providers go through it.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.unidentified != nil && !exchange.MayIdentify(r) {
		return t.unidentified.RoundTrip(r.WithContext(context.WithValue(r.Context(), targetKey{}, r.URL)))
	}
	if t.DisableCompression { // by the operator; the client sets Accept-Encoding anyway
		r = withoutCompression(r)
	}
	response, err := t.roundTrip(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		_ = response.Body.Close() // closes the connection, which can't carry another request
		return nil, errSwitched
	}
	return response, nil
}

// withoutCompression returns a request that asks for no compressed answer.
func withoutCompression(r *http.Request) *http.Request {
	plain := *r
	plain.Header = r.Header.Clone()
	plain.Header.Del("Accept-Encoding")
	return &plain
}

// roundTrip sends a request. If it goes through a proxy, the target is checked here, because
// the guard sees only the address of the proxy.
func (t *Transport) roundTrip(r *http.Request) (*http.Response, error) {
	if !t.proxied {
		return t.send(r)
	}
	ctx, cancel := context.WithTimeout(r.Context(), t.guard.timeout)
	_, err := t.guard.judge(ctx, hostport(r.URL))
	cancel()
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // required by http.RoundTripper; err is the more important error
		}
		return nil, err
	}
	r = r.WithContext(context.WithValue(r.Context(), proxyKey{}, new(atomic.Pointer[string])))
	r.Host = r.URL.Host // net/http takes the target from Host if a proxy gets the request by plain HTTP
	return t.send(r)
}

// send sends a request. It limits how often net/http repeats the request by itself. Connections to further hosts of a source that has named
// very many are not reused.
func (t *Transport) send(r *http.Request) (*http.Response, error) {
	if !t.hosts.admit(exchange.SourceOf(r.Context()), r.URL) {
		return newTrip(r, false).send(t.anew(), t.anew)
	}
	return newTrip(r, t.http2[r.URL.Scheme]).send(t.Transport, t.anew)
}

// withoutReuse returns a copy of a transport that opens an HTTP/1.1 connection for each
// request.
func withoutReuse(like *http.Transport) *http.Transport {
	anew := like.Clone()
	anew.DisableKeepAlives = true
	anew.Protocols = new(http.Protocols)
	anew.Protocols.SetHTTP1(true)
	anew.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	if anew.TLSClientConfig != nil {
		anew.TLSClientConfig.NextProtos = []string{"http/1.1"}
	}
	return anew
}

// Judge checks the port and the host of a URL: the spelling of a name, or whether an address
// may be reached. Its error is an [exchange.RefusedError]. Judge neither connects nor looks
// up names: the addresses of a name are checked when it is dialed.
func (t *Transport) Judge(_ context.Context, source string, u *url.URL) error {
	return t.guard.judgeURL(source, u)
}

// Proxied reports whether requests go through a proxy, so that connections do not show the addresses of their targets.
func (t *Transport) Proxied() bool { return t.proxied }

// HasCertificate reports whether the transport has a client certificate.
func (t *Transport) HasCertificate() bool { return t.unidentified != nil }

// dial dials through the guard. If the request may use HTTP/2, the connection gets a meter.
func (t *Transport) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := t.dialGuarded(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if trip, ok := ctx.Value(tripKey{}).(*trip); ok && trip.cancel != nil {
		return newMeter(conn, t.overhead), nil
	}
	if tcp, ok := conn.(*net.TCPConn); ok { // it has another type if the operator limits the time of each write
		return wholeWriter{tcp}, nil
	}
	return conn, nil
}

func (t *Transport) dialGuarded(ctx context.Context, network, address string) (net.Conn, error) {
	// The operator's own proxy may have any address.
	if proxy, ok := ctx.Value(proxyKey{}).(*atomic.Pointer[string]); ok {
		if own := proxy.Load(); own != nil && *own == address {
			return t.guard.next(ctx, network, address)
		}
	}
	return t.guard.dial(ctx, network, address)
}

// proxyKey is the context key of the address of the proxy that a request uses.
type proxyKey struct{}

// rememberProxy wraps the function that chooses Caddy's proxy. It stores the proxy's address
// in the request's context, where dialGuarded finds it.
func rememberProxy(choose func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		// Caddy stores the proxy in the variables of the served request, which are not
		// safe for the concurrent requests of a batch.
		proxy, err := choose(r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, nil)))
		if err != nil || proxy == nil {
			return proxy, err
		}
		if own, ok := r.Context().Value(proxyKey{}).(*atomic.Pointer[string]); ok {
			own.Store(new(hostport(proxy)))
		}
		return proxy, nil
	}
}

// defaultPorts has the default port of each scheme of targets and proxies.
var defaultPorts = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}

// hostport returns the address that net/http dials for a URL.
func hostport(u *url.URL) string { return net.JoinHostPort(u.Hostname(), portOf(u)) }

func portOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	return defaultPorts[u.Scheme]
}

// newLookup returns a function that resolves names as Caddy's transport would.
func newLookup(config *reverseproxy.HTTPTransport) (func(context.Context, string) ([]netip.Addr, error), error) {
	servers, err := nameServers(config.Resolver)
	if err != nil {
		return nil, err
	}
	resolver := net.DefaultResolver
	if len(servers) > 0 {
		dialer := &net.Dialer{Timeout: time.Duration(config.DialTimeout)}
		resolver = &net.Resolver{
			PreferGo: true,
			Dial: func(ctx context.Context, asked, _ string) (net.Conn, error) {
				server := servers[rand.IntN(len(servers))] //nolint:gosec // spreads load, as Caddy does
				network := server.Network
				if asked == "tcp" { // because the answer did not fit into a datagram
					network = strings.Replace(network, "udp", "tcp", 1)
				}
				return dialer.DialContext(ctx, network, server.JoinHostPort(0))
			},
		}
	}
	return func(ctx context.Context, host string) ([]netip.Addr, error) {
		return resolver.LookupNetIP(ctx, "ip", host)
	}, nil
}
