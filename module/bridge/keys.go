package bridge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/callers"
	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// bearerChallenge is the WWW-Authenticate field for callers without a key of callers_file (RFC 6750, section 3).
const bearerChallenge = `Bearer realm="skill-bridge"` //nolint:gosec // no credential, but how callers authenticate

// noKey is why a request is refused that has no key of callers_file.
type noKey struct {
	reason    string // for the operator
	message   string // for the caller
	challenge string
}

var (
	keyRequired = &noKey{
		run.KeyRequired,
		"This bridge answers callers with a key only: send it with each request in the header field Authorization: Bearer <key>. Its operator gives you the key.",
		bearerChallenge,
	}
	unknownKey = &noKey{
		run.UnknownKey,
		front.UnknownKey,
		bearerChallenge + `, error="invalid_token"`,
	}
)

// openKeys reads callers_file, if there is one.
func (c *Callers) openKeys(logger *zap.Logger) error {
	if c.CallersFile == "" {
		return nil
	}
	path, err := credentials.Text(c.CallersFile)
	if err == nil {
		c.keys, err = callers.Open(path, logger)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; make it with caddy skill-bridge hash-key", err)
	}
	if err != nil {
		return &options.ConfigError{Path: "callers_file", Err: err}
	}
	return nil
}

// challenge returns the WWW-Authenticate field for callers; empty: something in front of the handler authenticates them.
func (c *Callers) challenge() string {
	if c.CallersFile == "" {
		return ""
	}
	return bearerChallenge
}

// authenticate returns the principal of a request by its key, or why the request is refused. Only POST requests need a key: others are
// for documents that anyone may read, or for the page, which refuses callers itself.
func (c *Callers) authenticate(r *http.Request) (principal string, refused *noKey) {
	principal, sent := c.keys.Authenticate(r.Header)
	switch {
	case principal != "":
		if replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
			replacer.Set("http.auth.user.id", principal) // for the access log, as authentication handlers do
		}
	case sent:
		return "", unknownKey
	case r.Method == http.MethodPost && c.requires():
		return "", keyRequired
	}
	return principal, nil
}

// refuse answers a request without a key of callers_file. Its body is not read, so that its method is not known.
func (h *Handler) refuse(ctx context.Context, w http.ResponseWriter, r *http.Request, caller run.Caller, why *noKey, toAgent, toTools bool) {
	caller.Front = skillsprotocol.Name
	answer := h.server.Refuse
	switch {
	case toTools:
		caller.Front, answer = mcp.Name, h.tools.Refuse
	case toAgent:
		caller.Front, answer = a2a.Name, h.agent.Refuse
	}
	h.refused(ctx, caller, why.reason, why.message)
	answer(ctx, w, r, http.StatusUnauthorized, why.message, "WWW-Authenticate", why.challenge)
}
