package setup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

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
	if err := replace(file, []byte(b.Caddyfile(file, keys)), 0o644); err != nil || b.Callers != Keys {
		return "", "", err
	}
	list, err := os.OpenFile(keys, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
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

// Caddyfile returns the text of a Caddyfile. file is its name, and keys that of the file with the keys of callers.
func (b *Bridge) Caddyfile(file, keys string) string {
	site, bind := b.Site, ""
	if b.Local() {
		site, bind = "http://"+b.Site, "\tbind 127.0.0.1\n\n"
	}
	return "# A bridge to the skills of " + b.Provider + `. "caddy skill-bridge init" wrote this file; change it as you like.
# Check it: caddy skill-bridge check --config ` + file + `
# Start it: caddy run --config ` + file + "\n" + site + " {\n" + bind + `	skill_bridge {
		# The Skills Protocol at /rpc, where browsers get a page; A2A at /a2a; MCP at /mcp.
		rpc
		a2a
		mcp
		browse

` + b.provider() + "\n" + b.callers(keys) + "\t}\n}\n"
}

func (b *Bridge) provider() string {
	text := "\t\tprovider " + b.Provider
	switch {
	case filepath.IsAbs(b.Key):
		text += " {\n\t\t\t# The file has the API key. It is read again after the provider has refused the key.\n\t\t\tcredentials api_key {file." + b.Key + "}\n\t\t}"
	case b.Key != NoKey:
		text += " {\n\t\t\t# The environment variable has the API key. With systemd, put it in a file instead: {file./run/secrets/key}\n\t\t\tcredentials api_key {env." + b.Key + "}\n\t\t}"
	}
	text += "\n"
	u, err := url.Parse(b.Provider)
	if err != nil {
		return text
	}
	if u.Scheme == "http" {
		text += "\n\t\t# Without TLS, others on the way can read and change all that is sent.\n\t\tallow_http\n"
	}
	if a, err := netip.ParseAddr(u.Hostname()); err == nil && !(a.IsGlobalUnicast() && !a.IsPrivate()) {
		text += "\t\tallow_networks " + a.String() + "\n"
	} else if u.Hostname() == "localhost" {
		text += "\t\tallow_networks 127.0.0.1 ::1\n"
	}
	return text
}

func (b *Bridge) callers(keys string) string {
	switch b.Callers {
	case Anyone:
		return "\t\t# Who may call: everyone who reaches this port, which only this machine does.\n\t\tallow_anonymous\n"
	case Keys:
		return "\t\t# Who may call: those with a key. To add one: caddy skill-bridge hash-key alice >> " + keys + "\n\t\tcallers_file " + keys + "\n"
	}
	return "\t\t# Who may call: those with an access token of this issuer for this audience.\n\t\tcallers_jwt " + b.Callers + " {\n\t\t\taudience " + b.URL("/mcp") + "\n\t\t}\n"
}
