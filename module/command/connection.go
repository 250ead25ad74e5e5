package command

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/stdio"
)

// connection is the connection to the MCP endpoint of a bridge elsewhere.
type connection struct {
	url      string
	tokenEnv string
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
		return nil, o, errors.New("--connect has a user name or password in its URL: use --bearer-env, since other users of this machine can see arguments")
	case u.Scheme == "http" && !allowHTTP && !isLoopback(u.Hostname()):
		return nil, o, fmt.Errorf("%s does not use TLS: write https://, or add --allow-http", u.Redacted())
	}
	authorization := ""
	o.Refused = "Name the environment variable that contains a token for it with --bearer-env."
	if c.tokenEnv != "" {
		token, err := c.token()
		if err != nil {
			return nil, o, err
		}
		authorization = "Bearer " + token
		o.Refused = "Check that the token in the environment variable " + c.tokenEnv + " is valid for it."
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

// token returns the token in the environment variable.
func (c *connection) token() (string, error) {
	if !envName.MatchString(c.tokenEnv) {
		return "", errors.New("--bearer-env takes the name of an environment variable, not the token itself")
	}
	token := strings.TrimSpace(os.Getenv(c.tokenEnv))
	if token == "" {
		return "", fmt.Errorf("--bearer-env: the environment variable %s is empty or not set", c.tokenEnv)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("--bearer-env: the environment variable %s has characters that no bearer token has", c.tokenEnv)
	}
	return token, nil
}
