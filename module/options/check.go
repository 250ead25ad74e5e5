package options

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxNameSize is the maximum size of a name that an operator gives, in bytes.
const MaxNameSize = 256

// Checker keeps the first fault of a configuration.
type Checker struct{ Fault *ConfigError }

// Check records an error about the value at a JSON path, if it is the first error.
func (c *Checker) Check(path string, err error) {
	if err != nil && c.Fault == nil {
		c.Fault = &ConfigError{Path: path, Err: err}
	}
}

// CheckName checks a name that an operator gives.
func CheckName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s has an empty name", what)
	case len(name) > MaxNameSize:
		return fmt.Errorf("%s name %.20q… is longer than %d bytes", what, name, MaxNameSize)
	case !utf8.ValidString(name):
		return fmt.Errorf("%s name %q is not valid UTF-8", what, name)
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return fmt.Errorf("%s name %q has a space or a control character", what, name)
	}
	return nil
}

// CheckURL checks an absolute http or https URL.
func CheckURL(name, text string) error {
	if err := CheckLiteral(name, text); err != nil {
		return err
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		return fmt.Errorf("%s %q is not an absolute https or http URL", name, text)
	case u.User != nil || u.Fragment != "":
		return fmt.Errorf("%s %q has userinfo or a fragment", name, text)
	}
	return nil
}

// CheckIssuer checks the identifier of an authorization server (RFC 8414, section 2).
func CheckIssuer(name, text string) error {
	if strings.ContainsAny(text, "?#") {
		return fmt.Errorf("%s %q has a query or a fragment, which issuers have not", name, text)
	}
	return CheckURL(name, text)
}

// IsLoopback reports whether a host name or address always means the machine of its user.
func IsLoopback(host string) bool {
	if address, err := netip.ParseAddr(host); err == nil {
		return address.Unmap().IsLoopback()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// CheckScope checks a scope (RFC 6749, section 3.3).
func CheckScope(scope string) error {
	if scope == "" || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
		return fmt.Errorf("a scope consists of visible ASCII characters without quotes and backslashes: %q has a character that scopes can't have", scope)
	}
	return nil
}

// CheckLiteral refuses placeholders in a text in which they are not resolved.
func CheckLiteral(what, text string) error {
	if strings.Contains(text, "{") {
		return fmt.Errorf("%s %q has a placeholder, or a brace: placeholders are not resolved here; write the value itself", what, text)
	}
	return nil
}

// Globals matches placeholders that are the same for all requests.
var Globals = regexp.MustCompile(`\{(?:env|file|system)\.[^{}]*\}`)

// ConfigError is an error about a value of a configuration.
type ConfigError struct {
	Path  string // of the value in the JSON config, such as providers[0].origin
	Owner string // the operator's name for the block that has the value; may be empty
	Err   error
}

func (e *ConfigError) Error() string {
	if e.Owner == "" {
		return e.Path + ": " + e.Err.Error()
	}
	return e.Path + " (" + e.Owner + "): " + e.Err.Error()
}

func (e *ConfigError) Unwrap() error { return e.Err }

// Element returns the JSON path of an element of a list.
func Element(path string, index int) string { return path + "[" + strconv.Itoa(index) + "]" }
