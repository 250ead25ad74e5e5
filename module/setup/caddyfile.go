package setup

import (
	"bytes"
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

// IsVariable reports whether a word is the name of an environment variable, and no secret: it is set, or made of words that are no longer than such names have them.
func IsVariable(word string) bool {
	_, set := os.LookupEnv(word)
	return set && variable.MatchString(word) || words.MatchString(word)
}

var (
	variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	words    = regexp.MustCompile(`^[A-Z][A-Z0-9]{0,13}(_[A-Z0-9]{1,14}){0,5}$`)
)

// Loopback returns the address of this machine that a site for this machine only listens on; empty: the site is for others, too.
func (b *Bridge) Loopback() string {
	site, err := url.Parse("http://" + b.Site)
	if err != nil {
		return ""
	}
	host := site.Hostname()
	if a, err := netip.ParseAddr(host); err == nil && a.IsLoopback() {
		return host
	} else if host == "localhost" {
		return "127.0.0.1"
	}
	return ""
}

// Local reports whether the site is for this machine only.
func (b *Bridge) Local() bool { return b.Loopback() != "" }

// URL returns the URL of a path of the site.
func (b *Bridge) URL(path string) string {
	if b.Local() {
		return "http://" + b.Site + path
	}
	return "https://" + b.Site + path
}

// Check checks the answer to a flag. Errors name the flag.
func (b *Bridge) Check(flag string) error {
	origin, err := url.Parse(b.Provider)
	issuer, _ := url.Parse(b.Callers)
	site, siteErr := url.Parse(b.URL("/"))
	switch flag {
	case "provider":
		if err != nil || origin.Host == "" || origin.User != nil || origin.Scheme != "https" && origin.Scheme != "http" || strings.Trim(origin.Path, "/") != "" || !plain(b.Provider) {
			return fmt.Errorf("--provider %q is not an origin, such as https://skills.example.com", b.Provider)
		}
	case "key":
		if b.Key != NoKey && !IsVariable(b.Key) && (!filepath.IsAbs(b.Key) || !plain(b.Key)) {
			return errors.New("--key takes none, the name of an environment variable (one that is set, or short words in capital letters such as SKILLS_API_KEY), or the absolute path of a file with the provider's API key; not the key itself")
		}
	case "callers":
		if b.Callers != Anyone && b.Callers != Keys && (issuer == nil || issuer.Scheme != "https" || issuer.Host == "" || !plain(b.Callers)) {
			return fmt.Errorf("--callers %q is none of anyone, keys, and the URL of an issuer of access tokens, such as https://login.example.com", b.Callers)
		} else if b.Callers == Anyone && !b.Local() {
			return errors.New("--callers anyone is for a site on this machine, such as localhost:8080: everyone on the network could use the skills")
		}
	case "site":
		if siteErr != nil || site.Host != b.Site || !plain(b.Site) {
			return fmt.Errorf("--site %q is neither a host name, such as agents.example.com, nor localhost and a port", b.Site)
		}
	}
	return nil
}

// plain reports whether a text is one word of a Caddyfile that means itself.
func plain(text string) bool { return !strings.ContainsAny(text, " \t\r\n{}\"`#$\\") }

// Named returns the flags of commands that name a Caddyfile.
func Named(file string) string {
	if name := strings.ToLower(filepath.Base(file)); name == "caddyfile" || strings.HasSuffix(name, ".caddyfile") {
		return "--config " + file
	}
	return "--config " + file + " --adapter caddyfile" // Caddy does not know it by its name
}

// CanWrite returns an error if there is the file, unless it may be replaced.
func CanWrite(file string, force bool) error {
	if _, err := os.Lstat(file); err == nil && !force {
		return fmt.Errorf("%s exists: name another file with --output, or replace it with --force", file)
	}
	return nil
}

// MissingKey says what to do so that there is the provider's API key; empty: it is there.
func (b *Bridge) MissingKey() string {
	if filepath.IsAbs(b.Key) {
		if _, err := os.Stat(b.Key); err != nil {
			return "write the API key to " + b.Key
		}
	} else if b.Key != NoKey && os.Getenv(b.Key) == "" {
		return "export " + b.Key + "=…"
	}
	return ""
}

// Write writes a Caddyfile, and the file with the keys of callers if there is none, with one key, which it returns with the name of that file.
func (b *Bridge) Write(file string, force bool) (keys, key string, err error) {
	if err = CanWrite(file, force); err != nil {
		return "", "", err
	}
	if keys, err = filepath.Abs(filepath.Join(filepath.Dir(file), "callers")); err != nil {
		return "", "", err
	}
	if keys = filepath.ToSlash(keys); b.Callers == Keys && !plain(keys) {
		return "", "", fmt.Errorf("the folder of %s has a name that a Caddyfile would have to quote: use another one", keys)
	}
	text, err := b.Caddyfile(file, keys)
	line := ""
	if _, none := os.Lstat(keys); err == nil && errors.Is(none, fs.ErrNotExist) && b.Callers == Keys {
		key = callers.NewKey()
		if line, err = callers.Line("agent", key); err == nil {
			err = replace(keys, []byte(line+"\n"), 0o640, fs.ModePerm) // digests of keys, which Caddy's user reads, perhaps one of the group
		}
	}
	if err == nil {
		if err = replace(file, text, 0o644, fs.ModePerm); err != nil && line != "" {
			err = errors.Join(err, os.Remove(keys)) // nobody has seen the key
		}
	}
	return keys, key, err
}

//go:embed Caddyfile.tmpl
var caddyfile string

var caddyfileTemplate = template.Must(template.New("Caddyfile").Parse(caddyfile))

// page is what the Caddyfile says.
type page struct {
	*Bridge
	Named, Keys string // the flags, and the name
	PlainHTTP   bool
	InFile      bool // the key
	Networks    string
}

// Caddyfile returns the text of a Caddyfile. file is its name, and keys that of the file with the keys of callers.
func (b *Bridge) Caddyfile(file, keys string) ([]byte, error) {
	origin, err := url.Parse(b.Provider)
	if err != nil {
		return nil, err
	}
	p := page{b, Named(file), keys, origin.Scheme == "http", filepath.IsAbs(b.Key), ""}
	if a, err := netip.ParseAddr(origin.Hostname()); err == nil && (a.IsPrivate() || !a.IsGlobalUnicast()) {
		p.Networks = a.String()
	} else if origin.Hostname() == "localhost" {
		p.Networks = "127.0.0.1 ::1"
	}
	var text bytes.Buffer
	err = caddyfileTemplate.Execute(&text, &p)
	return text.Bytes(), err
}
