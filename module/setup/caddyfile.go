package setup

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"

	"github.com/skill-bridge/caddy-skill-bridge/module/callers"
)

// Bridge is what an operator answers about a bridge.
type Bridge struct {
	// Provider is an origin.
	Provider string
	// Key says where the provider's API key is: none, the name of an environment variable, or the path of a file.
	Key string
	// Callers says who may call: anyone on this machine, those with keys, or those with tokens of an issuer, which is a URL.
	Callers string
	// Site is the address of the site: a host name with a certificate, or localhost and a port.
	Site string
}

// Words for Key and Callers.
const (
	NoKey  = "none"
	Anyone = "anyone"
	Keys   = "keys"
)

// IsVariable reports whether a word is the name of an environment variable.
func IsVariable(word string) bool { return variable.MatchString(word) }

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Local reports whether the site is for this machine only.
func (b *Bridge) Local() bool { return strings.HasPrefix(b.Site, "localhost:") }

// URL returns the URL of a path of the site.
func (b *Bridge) URL(path string) string {
	if b.Local() {
		return "http://" + b.Site + path
	}
	return "https://" + b.Site + path
}

// Check checks the answers. Errors name the flags.
func (b *Bridge) Check() error {
	origin, err := url.Parse(b.Provider)
	issuer, _ := url.Parse(b.Callers)
	site, siteErr := url.Parse(b.URL("/"))
	switch {
	case err != nil || origin.Host == "" || origin.User != nil || origin.Scheme != "https" && origin.Scheme != "http" || strings.Trim(origin.Path, "/") != "" || !plain(b.Provider):
		return fmt.Errorf("--provider %q is not an origin, such as https://skills.example.com", b.Provider)
	case b.Key != NoKey && !IsVariable(b.Key) && !(filepath.IsAbs(b.Key) && plain(b.Key)):
		return errors.New("--key takes none, the name of an environment variable, or the absolute path of a file with the provider's API key; not the key itself")
	case b.Callers != Anyone && b.Callers != Keys && (issuer == nil || issuer.Scheme != "https" || issuer.Host == "" || !plain(b.Callers)):
		return fmt.Errorf("--callers %q is none of anyone, keys, and the URL of an issuer of access tokens, such as https://login.example.com", b.Callers)
	case siteErr != nil || site.Host != b.Site || !plain(b.Site):
		return fmt.Errorf("--site %q is neither a host name, such as agents.example.com, nor localhost and a port", b.Site)
	case b.Callers == Anyone && !b.Local():
		return errors.New("--callers anyone is for a site on this machine, such as localhost:8080: everyone on the network could use the skills")
	}
	return nil
}

// plain reports whether a text is one word of a Caddyfile that means itself.
func plain(text string) bool { return !strings.ContainsAny(text, " \t\r\n{}\"`#$\\") }

// Write writes a Caddyfile, and the file with the keys of callers if there is none, with one key, which it returns.
func (b *Bridge) Write(file string, force bool) (keys, key string, err error) {
	if keys, err = filepath.Abs(filepath.Join(filepath.Dir(file), "callers")); err != nil {
		return "", "", err
	}
	if keys = filepath.ToSlash(keys); b.Callers == Keys && !plain(keys) {
		return "", "", fmt.Errorf("the folder of %s has a name that a Caddyfile would have to quote: use another one", keys)
	}
	if _, err := os.Lstat(file); err == nil && !force {
		return "", "", fmt.Errorf("%s exists: name another file with --output, or replace it with --force", file)
	}
	text, err := b.Caddyfile(file, keys)
	if err == nil {
		err = replace(file, text, 0o644)
	}
	if err != nil || b.Callers != Keys {
		return "", "", err
	}
	list, err := os.OpenFile(keys, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) // Caddy may run as another user; the key is random, so that nobody guesses it from its hash
	if errors.Is(err, fs.ErrExist) {
		return keys, "", nil
	} else if err != nil {
		return "", "", err
	}
	key = callers.NewKey()
	line, err := callers.Line("agent", key)
	if err == nil {
		_, err = fmt.Fprintln(list, line)
	}
	return keys, key, cmp.Or(err, list.Close())
}

//go:embed Caddyfile.tmpl
var caddyfile string

var caddyfileTemplate = template.Must(template.New("Caddyfile").Parse(caddyfile))

// page is what the Caddyfile says.
type page struct {
	*Bridge
	File, Keys string // their names
	PlainHTTP  bool
	InFile     bool // the key
	Networks   string
}

// Caddyfile returns the text of a Caddyfile. file is its name, and keys that of the file with the keys of callers.
func (b *Bridge) Caddyfile(file, keys string) ([]byte, error) {
	origin, err := url.Parse(b.Provider)
	if err != nil {
		return nil, err
	}
	p := page{b, file, keys, origin.Scheme == "http", filepath.IsAbs(b.Key), ""}
	if a, err := netip.ParseAddr(origin.Hostname()); err == nil && (a.IsPrivate() || !a.IsGlobalUnicast()) {
		p.Networks = a.String()
	} else if origin.Hostname() == "localhost" {
		p.Networks = "127.0.0.1 ::1"
	}
	var text bytes.Buffer
	err = caddyfileTemplate.Execute(&text, &p)
	return text.Bytes(), err
}
