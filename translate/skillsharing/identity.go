package skillsharing

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
)

// identity is on whose behalf a request is made, which decides whether the client
// certificate of a transport may be shown. The zero value includes no host.
type identity struct {
	client *Client
	// skill is whose descriptor asked for the request; nil: the operator did.
	skill *Skill
}

type identityKey struct{}

// MayIdentify reports whether the bridge may show a request's host who it is, by a
// client certificate: that is a secret of the source that the request is for, and goes
// where its others go, and only if the descriptor came from there. A transport has to
// ask for each request, and must not send one of which the answer is no on a
// connection that was made for another.
func MayIdentify(r *http.Request) bool {
	who, ok := r.Context().Value(identityKey{}).(*identity)
	return ok && who.client != nil && (who.skill == nil || who.skill.stranger(who.client.Audience) == nil) && who.client.Audience.Includes(r.URL)
}

// CertificateWithheld is what to log when the host of a request asked
// for a client certificate that it may not have.
func CertificateWithheld(ctx context.Context, u *url.URL) *Notice {
	n := &Notice{
		Level: slog.LevelWarn, Source: SourceOf(ctx), SecretDenied: true,
		Message: "a client certificate was not shown to a host that asked for one: the request comes from a document that may not use it",
		Attrs:   []slog.Attr{slog.String("host", u.Host), slog.String("scheme", u.Scheme)},
	}
	who, ok := ctx.Value(identityKey{}).(*identity)
	if !ok || who.client == nil {
		return n
	}
	if !who.client.Audience.Includes(u) {
		n.Message = "a client certificate was not shown to a host that asked for one, but may not receive the provider's secrets; if you trust that host, add the line below to the provider"
		n.Attrs = append(n.Attrs, who.client.Audience.lines(u)...)
	}
	return n
}

// lines are the trust lines that would let u have secrets.
func (a *Audience) lines(u *url.URL) []slog.Attr {
	lines := []slog.Attr{slog.String("line", "trust "+trustLine(u))}
	if line := a.subdomainsLine(u); line != "" {
		lines = append(lines, slog.String("line_for_subdomains", "trust "+line))
	}
	return lines
}

// ofSkill is the identity of the requests that a descriptor makes.
func (c *Client) ofSkill(s *Skill) identity {
	if c.Anonymous {
		return identity{}
	}
	return identity{c, s}
}

// ofDocument is the identity of a request for a document: like a credential, it goes to
// the first host on the way to it only, and not again once the way has left it.
func (c *Client) ofDocument(left bool) identity {
	if left {
		return identity{}
	}
	return identity{c, nil}
}
