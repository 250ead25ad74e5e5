package command

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/stdio"
)

// connection is the connection to the MCP endpoint of a bridge elsewhere.
type connection struct {
	url      string
	tokenEnv string // the variable with a bearer token
	basicEnv string // the variable with user:password
}

const (
	// connections is how many idle connections are kept: one for each request that is sent at the same time.
	connections = 64
	// pingInterval is after how much silence an HTTP/2 connection is tested, since some networks forget connections.
	pingInterval = 30 * time.Second
	// maxRelayed is the largest message that is sent to a bridge elsewhere, whose own limit is not known.
	maxRelayed = 16 << 20
)

// open returns a function that sends requests to the endpoint, and the options for them. It sends nothing. Errors are usage errors.
func (c *connection) open(allowHTTP bool) (stdio.Do, stdio.Options, error) {
	o := stdio.Options{URL: c.url, MaxMessage: maxRelayed}
	u, err := url.Parse(c.url)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Fragment != "":
		return nil, o, errors.New("--connect needs the URL of an MCP endpoint, such as https://bridge.example.com/mcp")
	case u.User != nil:
		return nil, o, errors.New("--connect has a user name or password in its URL: use --basic-env, since other users of this machine can see arguments")
	case u.Scheme == "http" && !allowHTTP && !isLoopback(u.Hostname()):
		return nil, o, fmt.Errorf("%s does not use TLS: write https://, or add --allow-http", u.Redacted())
	}
	authorization, err := c.authorization()
	if err != nil {
		return nil, o, err
	}
	o.Refused = "If it takes a token, name the environment variable that contains it with --bearer-env; if it takes a user name and a password, one that contains user:password with --basic-env."
	if authorization != "" {
		o.Refused = "Check that it takes what the environment variable " + c.tokenEnv + c.basicEnv + " contains."
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
	}, o, nil
}

// authorization returns the value of the field Authorization; empty: there is none.
func (c *connection) authorization() (string, error) {
	switch {
	case c.tokenEnv != "" && c.basicEnv != "":
		return "", errors.New("--bearer-env and --basic-env exclude each other")
	case c.tokenEnv != "":
		token, err := fromEnvironment("--bearer-env", c.tokenEnv)
		if err == nil && strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			err = fmt.Errorf("--bearer-env: the environment variable %s has characters that no bearer token has", c.tokenEnv)
		}
		return "Bearer " + token, err
	case c.basicEnv != "":
		pair, err := fromEnvironment("--basic-env", c.basicEnv)
		if err == nil && (!strings.Contains(pair, ":") || strings.ContainsFunc(pair, unicode.IsControl)) {
			err = fmt.Errorf("--basic-env: the environment variable %s does not contain user:password", c.basicEnv)
		}
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(pair)), err
	}
	return "", nil
}

// fromEnvironment returns the value of the environment variable that a flag names, without white space around it.
func fromEnvironment(flag, name string) (string, error) {
	if !envName.MatchString(name) {
		return "", errors.New(flag + " takes the name of an environment variable, not the secret itself")
	}
	value := strings.TrimSpace(os.Getenv(name))
	if value == "" {
		return "", fmt.Errorf("%s: the environment variable %s is empty or not set", flag, name)
	}
	return value, nil
}
