package consent

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/module/options"
)

// Config configures the pages on which users connect accounts.
type Config struct {
	// The path of the pages. Default: `/connect`.
	Path string `json:"path,omitempty" option:"-"`

	// The URL of the path as browsers see it; it has to end with the path. Links and redirect URIs begin with it, never with what a request names as
	// its host. It has `https`, unless it is of this machine. Required. Example: `https://agents.example.com/connect`.
	URL string `json:"url,omitempty"`

	// Who the user of a browser is, with placeholders: the same text that the bridge's principal is in calls of the user's agents. A user for whom
	// a placeholder is empty is anonymous, and can't connect anything. Use nothing that a client can set. Required beside `callers_file` and
	// `callers_jwt`, since browsers send neither keys nor tokens. Default: the bridge's `principal`. Example: `{http.auth.user.id}`.
	Principal string `json:"principal,omitempty"`
}

const defaultPath = "/connect"

// At returns the path of the pages, without a slash at its end.
func (c *Config) At() string { return strings.TrimSuffix(cmp.Or(c.Path, defaultPath), "/") }

// Base returns the URL of the path, without a slash at its end.
func (c *Config) Base() string { return strings.TrimSuffix(c.URL, "/") }

// Read reads the option connect.
func (c *Config) Read(r *options.Reader) error {
	return r.BlockWith("connect", "connect", "optionally a path", 0, c, nil, &c.Path)
}

// Check checks the options. Those about the path are checked with the other mounts.
func (c *Config) Check(k *options.Checker) {
	k.Check("connect.url", c.checkURL())
	switch {
	case c.Principal == "":
	case !strings.Contains(options.Globals.ReplaceAllString(c.Principal, ""), "{"):
		k.Check("connect.principal", fmt.Errorf("principal %q has no placeholder that says who the user is, so that all users would share one account: write for example {http.auth.user.id}", c.Principal))
	case strings.ContainsAny(c.Principal, "\r\n"):
		k.Check("connect.principal", errors.New("principal has a line break"))
	}
}

func (c *Config) checkURL() error {
	if c.URL == "" {
		return errors.New("connect needs the option url, the URL of its path as browsers see it, such as https://agents.example.com" + c.At())
	}
	if err := options.CheckURL("url", c.URL); err != nil {
		return err
	}
	u, _ := url.Parse(c.URL) // checked before
	switch {
	case u.Hostname() == "" || u.RawQuery != "" || u.ForceQuery:
		return fmt.Errorf("url %q is not the URL of a path, such as https://agents.example.com%s: without user, query and fragment", c.URL, c.At())
	case u.Scheme == "http" && !options.IsLoopback(u.Hostname()):
		return fmt.Errorf("url %q has to begin with https://, since login and codes pass through it; http is for localhost only", c.URL)
	case !strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), c.At()):
		return fmt.Errorf("url %q does not end with the path of connect, %s: write connect <path>, or the URL of that path", c.URL, c.At())
	}
	return nil
}
