package sources

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/module/network"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
)

// parseOrigin parses the origin of a source whose index is under a well-known path.
func parseOrigin(what, index, text string) (*url.URL, error) {
	u, err := parseURL(what, text)
	if err != nil {
		return nil, err
	}
	switch {
	case u.Path != "" && u.Path != "/":
		return nil, fmt.Errorf("%s %q has a path; an origin is scheme, host and port only: the index is always under %s", what, text, index)
	case u.RawQuery != "" || u.ForceQuery:
		return nil, fmt.Errorf("%s %q has a query; an origin is scheme, host and port only", what, text)
	}
	u.Path = ""
	return u, nil
}

// parseRegistry parses the URL of a registry.
func parseRegistry(text string) (*url.URL, error) {
	u, err := parseURL("registry URL", text)
	if err == nil && (u.RawQuery != "" || u.ForceQuery) {
		return nil, fmt.Errorf("registry URL %q has a query; /skills is appended to the URL, so it has to end with its path", text)
	}
	return u, err
}

// parseURL parses an absolute http or https URL.
func parseURL(what, text string) (*url.URL, error) {
	if text == "" {
		return nil, fmt.Errorf("%s is empty", what)
	}
	if strings.Contains(text, "{") || strings.HasPrefix(text, "$") { // the error does not repeat the text, which may hold a password
		return nil, fmt.Errorf("%s has a placeholder, or a variable of a shell, which are not replaced here: "+
			"write the URL itself, or {$NAME} for the environment variable NAME, which Caddy replaces when it reads a Caddyfile", what)
	}
	u, err := url.Parse(text)
	if err != nil {
		// The error of url.Parse repeats the text, which may hold a password.
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		if !strings.Contains(text, "://") {
			return nil, fmt.Errorf("%s has to start with https:// or http://", what)
		}
		return nil, fmt.Errorf("%s is not a URL: %w", what, err)
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("%s %q has to start with https:// or http://", what, u.Redacted())
	case u.User != nil:
		return nil, fmt.Errorf("%s %q has user information before its host; use credentials instead", what, u.Redacted())
	case u.Host == "":
		return nil, fmt.Errorf("%s %q has no host", what, text)
	case u.Fragment != "" || strings.HasSuffix(text, "#"):
		return nil, fmt.Errorf("%s %q has a fragment, which is never sent", what, text)
	}
	if err := checkAuthority(u); err != nil {
		return nil, fmt.Errorf("%s %q: %w", what, text, err)
	}
	return u, nil
}

// checkAuthority checks the host and port of a URL.
func checkAuthority(u *url.URL) error {
	if _, err := credential.NewAllowedHosts(u, nil); err != nil {
		return err
	}
	if strings.HasSuffix(u.Host, ":") {
		return errors.New("the port after the colon is missing")
	}
	return network.CheckSpelling(u.Hostname())
}

// checkHost checks a host that may receive secrets.
func checkHost(text string) error {
	if err := options.CheckLiteral("trusted host", text); err != nil {
		return err
	}
	host := strings.TrimPrefix(text, "*.")
	switch {
	case strings.Contains(text, "://"):
		return fmt.Errorf("trusted host %q has a scheme; write only the host and, if it is not 443, the port", text)
	case strings.Contains(host, "*"):
		return fmt.Errorf("trusted host %q has a wildcard that is not its first label; "+
			"write *.example.com for all subdomains of example.com, or name each host", text)
	case strings.Contains(text, "/"):
		return fmt.Errorf("trusted host %q has a path; write only the host and, if it is not 443, the port", text)
	case strings.Count(host, ":") > 1 && !strings.HasPrefix(host, "["):
		return fmt.Errorf("trusted host %q: write an IPv6 address in brackets", text)
	}
	u, err := url.Parse("https://" + host)
	if err != nil {
		return fmt.Errorf("trusted host %q is not a host with an optional port", text)
	}
	if err := checkAuthority(u); err != nil {
		return fmt.Errorf("trusted host %q: %w", text, err)
	}
	_, err = credential.NewAllowedHosts(u, []string{text})
	return err
}
