// Package remote connects a command to a bridge elsewhere: the flags about it, and requests with the credentials of the user.
package remote

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/skill-bridge/caddy-skill-bridge/module/setup"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/stdio"
)

// Connection is the connection to an endpoint of a bridge elsewhere.
type Connection struct {
	Flag     string // that has the URL: --connect or --bridge
	Example  string // of a URL
	URL      string
	tokenEnv string // the variable with a bearer token
	basicEnv string // the variable with user:password
}

// AddFlags adds the flags about the connection. help is that of the flag with the URL.
func (c *Connection) AddFlags(cmd *cobra.Command, help string) {
	f := cmd.Flags()
	f.StringVar(&c.URL, strings.TrimPrefix(c.Flag, "--"), "", help)
	f.StringVar(&c.tokenEnv, "bearer-env", "", "Environment variable that contains the bearer token for "+c.Flag)
	f.StringVar(&c.basicEnv, "basic-env", "", "Environment variable that contains user:password for "+c.Flag)
}

// Given returns the flags about credentials that are set, with their values, as arguments of another command about the same bridge.
func (c *Connection) Given() []string {
	var words []string
	for _, f := range []struct{ name, value string }{{"--bearer-env", c.tokenEnv}, {"--basic-env", c.basicEnv}} {
		if f.value != "" {
			words = append(words, f.name, f.value)
		}
	}
	return words
}

const (
	// connections is how many idle connections are kept: one for each request that is sent at the same time.
	connections = 64
	// pingInterval is after how much silence an HTTP/2 connection is tested, since some networks forget connections.
	pingInterval = 30 * time.Second
	// MaxRelayed is the largest message that is sent to a bridge elsewhere, whose own limit is not known.
	MaxRelayed = 16 << 20
)

// Check returns an error if there are credentials, but no URL, or several credentials.
func (c *Connection) Check() error {
	given := c.Given()
	switch {
	case len(given) > 0 && c.URL == "":
		return fmt.Errorf("%s needs %s", given[0], c.Flag)
	case c.tokenEnv != "" && c.basicEnv != "":
		return errors.New("--bearer-env and --basic-env exclude each other")
	}
	return nil
}

// Open returns a function that sends requests to the endpoint. It sends nothing. Errors are usage errors.
func (c *Connection) Open(allowHTTP bool) (stdio.Do, error) {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Fragment != "":
		return nil, errors.New(c.Flag + " needs " + c.Example)
	case u.User != nil:
		return nil, errors.New(c.Flag + " has a user name or password in its URL: use --basic-env, since other users of this machine can see arguments")
	case u.Scheme == "http" && !allowHTTP && !IsLoopback(u.Hostname()):
		return nil, fmt.Errorf("%s does not use TLS: write https://, or add --allow-http", u.Redacted())
	}
	authorization, err := c.authorization()
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = connections
	transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingInterval}
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return func(r *http.Request) (*http.Response, error) {
		r.Header.Set("User-Agent", "caddy-skill-bridge")
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		return client.Do(r) //nolint:gosec // to the URL that the user of the command names
	}, nil
}

// Refused is the advice about an answer that says that the credentials are missing or wrong.
func (c *Connection) Refused() string {
	if given := c.Given(); len(given) > 0 {
		return "Check that it takes what the environment variable " + given[1] + " contains."
	}
	return "If it takes a token, name the environment variable that contains it with --bearer-env; if it takes a user name and a password, one that contains user:password with --basic-env."
}

// authorization returns the value of the field Authorization; empty: there is none.
func (c *Connection) authorization() (string, error) {
	switch {
	case c.tokenEnv != "":
		token, err := FromEnvironment("--bearer-env", c.tokenEnv)
		if err == nil && strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			err = fmt.Errorf("--bearer-env: the environment variable %s has characters that no bearer token has", c.tokenEnv)
		}
		return "Bearer " + token, err
	case c.basicEnv != "":
		login, err := FromEnvironment("--basic-env", c.basicEnv)
		if err == nil && (!strings.Contains(login, ":") || strings.ContainsFunc(login, unicode.IsControl)) {
			err = fmt.Errorf("--basic-env: the environment variable %s does not contain user:password", c.basicEnv)
		}
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(login)), err
	}
	return "", nil
}

// FromEnvironment returns the value of the environment variable that a flag names, without white space around it.
func FromEnvironment(flag, name string) (string, error) {
	if !setup.IsVariable(name) {
		return "", errors.New(flag + " takes the name of an environment variable, not the secret itself: one in capital letters, or that is set")
	}
	value := strings.TrimSpace(os.Getenv(name))
	if value == "" {
		return "", fmt.Errorf("%s: the environment variable %s is empty or not set", flag, name)
	}
	return value, nil
}

// IsLoopback reports whether a host is this machine. Other names, also those below localhost, are what a resolver says.
func IsLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}
