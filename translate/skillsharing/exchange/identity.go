package exchange

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
)

// Identity says to which hosts the client certificate of a transport may be shown. The zero value includes no host.
type Identity struct {
	Hosts *credential.AllowedHosts
	// Descriptor is the document that names the request's URL; nil: the operator configured the URL.
	Descriptor publication
}

// publication is where a descriptor came from.
type publication interface {
	// Stranger returns a URL that the descriptor came from, or was redirected by, and that a does not include; nil: there
	// is none.
	Stranger(a *credential.AllowedHosts) *url.URL
}

// MayIdentify reports whether the bridge may show its client certificate to the host of a request. The certificate is a
// secret of the source that the request is for: only hosts that may receive the source's other secrets may see it, and only
// if the descriptor came from such a host. A transport must call MayIdentify for each request. If it returns false, the
// transport must not send the request on a connection that was made with the certificate.
func MayIdentify(r *http.Request) bool {
	who := purposeOf(r.Context()).identity
	return who.Hosts != nil && (who.Descriptor == nil || who.Descriptor.Stranger(who.Hosts) == nil) && who.Hosts.Includes(r.URL)
}

// CertificateWithheld returns the notice about a host that asked for a client certificate which it may not
// have.
func CertificateWithheld(ctx context.Context, u *url.URL) *Notice {
	n := &Notice{
		Level: slog.LevelWarn, Source: SourceOf(ctx), SecretDenied: true,
		Message: "the client certificate was not presented to a host that asked for one, because the document that names the host may not use it",
		Attrs:   []slog.Attr{slog.String("host", u.Host), slog.String("scheme", u.Scheme)},
	}
	who := purposeOf(ctx).identity
	if who.Hosts == nil {
		return n
	}
	if !who.Hosts.Includes(u) {
		n.Message = "the client certificate was not presented to a host that asked for one, because the host may not receive the provider's secrets; if you trust that host, add the line below to the provider"
		n.Attrs = append(n.Attrs, who.Hosts.Lines(u)...)
	}
	return n
}
