package fronts

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/card"
)

// A2A is the mount of A2A (Agent2Agent).
type A2A struct {
	// The path of the endpoint for all skills; that of one skill is below it, such as `/a2a/acme.summarize`. The agent card
	// is at `/.well-known/agent-card.json`, at the host and below each of these paths. Default: `/a2a`.
	Path string `json:"path,omitempty" option:"-"`

	// The public URL of the path, as clients see it, for the agent cards. Default: scheme and host of the request for the
	// card, and the path. Set it if a proxy in front changes the host or the path. Example: `https://agents.example.com/a2a`.
	URL string `json:"url,omitempty"`

	// The agent's name in its cards. Default: `Skill Bridge`.
	Name string `json:"name,omitempty"`

	// The agent's description in its cards. Default: a sentence with the namespaces of the skills.
	Description string `json:"description,omitempty"`

	// The organization that provides the agent, for the cards. Default: none.
	Organization string `json:"organization,omitempty"`

	// The URL of the agent's documentation, for the cards. Default: none.
	Documentation string `json:"documentation,omitempty"`

	// The URL of the agent's icon, for the cards. Default: none.
	Icon string `json:"icon,omitempty"`

	// The versions of A2A that are served. Default: `1.0`, `0.3` and `0.1`.
	Versions []string `json:"versions,omitempty"`

	// The form of the card at `agent-card.json` for clients that ask for no version: `combined` for versions 1.0 and 0.3 at
	// once, or `1.0` or `0.3` for strict clients of one version. Default: `combined`.
	Card string `json:"card,omitempty"`

	// Sign the cards of version 1.0. Default: they are not signed.
	Sign *Sign `json:"sign,omitempty"`

	// Offer authenticated callers a card with private skills, by a method of its own. Some clients then always call that
	// method, and fail if the caller is not authenticated. Default: false.
	ExtendedCard bool `json:"extended_card,omitempty"`

	// The ways to authenticate that the cards name. The handlers in front of this one have to check them. Default: none.
	Security []card.SecurityScheme `json:"security,omitempty"`

	// The skill for messages that choose none. Default: the only skill, if there is one; otherwise the client is asked.
	DefaultSkill string `json:"default_skill,omitempty"`

	// Names of skills whose output is the answer itself, as a message without a task, if the client waits and the skill completes
	// within `wait` of the handler. Default: none.
	ReplyMessage []string `json:"reply_message,omitempty"`

	// What happens if a client cancels a task whose run was submitted. The Skill Sharing Protocol can't stop a run: `refuse`
	// answers that the task can't be canceled; `abandon` ends the task and says that the run goes on. Default: `refuse`.
	Cancel string `json:"cancel,omitempty"`
}

// Sign has the key that signs cards (JSON Web Signature, RFC 7515, ES256).
type Sign struct {
	// A PEM file with an EC private key on the curve P-256 (PKCS #8 or SEC 1).
	File string `json:"file"`

	// The key's id in signatures. Default: its thumbprint (RFC 7638).
	KeyID string `json:"key_id,omitempty"`
}

const (
	cancelRefuse  = "refuse"
	cancelAbandon = "abandon"
	cardCombined  = "combined"
)

// path returns the path of the mount, without a slash at its end; empty: there is none.
func (a *A2A) path() string {
	if a == nil {
		return ""
	}
	return strings.TrimSuffix(cmp.Or(a.Path, defaultA2APath), "/")
}

// Read reads the option a2a.
func (a *A2A) Read(r *options.Reader) error {
	return r.BlockWith("a2a", "a2a", "optionally a path", 0, a, options.Targets{"security": options.Repeatable(func() error {
		r.Mark(options.Element("a2a.security", len(a.Security)))
		scheme, err := card.ParseSecurityScheme(r.RemainingArgs())
		if err != nil {
			return r.WrapErr(err)
		}
		a.Security = append(a.Security, scheme)
		return nil
	})}, &a.Path)
}

// Read reads the option sign.
func (s *Sign) Read(r *options.Reader) error {
	return r.Args("sign", "a PEM file and optionally a key id", 1, &s.File, &s.KeyID)
}

// check checks the options.
func (a *A2A) check(c *options.Checker) {
	c.Check("a2a.path", checkPath(a.Path))
	if a.Path == "/" {
		c.Check("a2a.path", errors.New("path / would cover all paths: give a2a a path such as /a2a"))
	}
	for _, u := range []struct{ name, value string }{
		{"url", a.URL}, {"documentation", a.Documentation}, {"icon", a.Icon},
	} {
		if u.value != "" {
			c.Check("a2a."+u.name, options.CheckURL(u.name, u.value))
		}
	}
	if a.URL != "" && options.CheckURL("url", a.URL) == nil {
		c.Check("a2a.url", card.CheckURL(a.URL))
	}
	for i, v := range a.Versions {
		if !slices.Contains([]string{"1.0", "0.3", "0.1"}, v) {
			c.Check(options.Element("a2a.versions", i), fmt.Errorf("version %q is none of 1.0, 0.3 and 0.1", v))
		}
	}
	oneOf(c, "a2a.card", "card", a.Card, cardCombined, "1.0", "0.3")
	oneOf(c, "a2a.cancel", "cancel", a.Cancel, cancelRefuse, cancelAbandon)
	if a.Card != "" && a.Card != cardCombined && len(a.Versions) > 0 && !slices.Contains(a.Versions, a.Card) {
		c.Check("a2a.card", fmt.Errorf("the card can't have the form %s: that version is switched off", a.Card))
	}
	for i := range a.Security {
		c.Check(options.Element("a2a.security", i), a.Security[i].Validate())
		if slices.ContainsFunc(a.Security[:i], func(s card.SecurityScheme) bool { return s.Name == a.Security[i].Name }) {
			c.Check(options.Element("a2a.security", i), fmt.Errorf("two security schemes have the name %q", a.Security[i].Name))
		}
	}
	switch {
	case a.Sign == nil:
	case a.Sign.File == "":
		c.Check("a2a.sign", errors.New("sign needs a PEM file"))
	case a.URL == "":
		c.Check("a2a.sign", errors.New("sign needs the option url: a client can send any host in a request, so that host must not be signed"))
	}
}

func oneOf(c *options.Checker, path, name, value string, allowed ...string) {
	if value != "" && !slices.Contains(allowed, value) {
		c.Check(path, fmt.Errorf("%s %q is none of %s", name, value, strings.Join(allowed, ", ")))
	}
}
