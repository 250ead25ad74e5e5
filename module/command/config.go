package command

import (
	"encoding/json" // for Caddy's raw modules

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// handlerConfig is the part of the configuration of http.handlers.skill_bridge that flags set.
type handlerConfig struct {
	Principal      string           `json:"principal,omitempty"`
	AllowAnonymous bool             `json:"allow_anonymous,omitempty"`
	AllowHTTP      bool             `json:"allow_http,omitempty"`
	AllowNetworks  []string         `json:"allow_networks,omitempty"`
	AllowPorts     []int            `json:"allow_ports,omitempty"`
	Timeout        caddy.Duration   `json:"timeout,omitempty"`
	MaxTimeout     caddy.Duration   `json:"max_timeout,omitempty"`
	MCP            json.RawMessage  `json:"mcp,omitempty"`
	Browse         json.RawMessage  `json:"browse,omitempty"`
	Store          json.RawMessage  `json:"store,omitempty"`
	Providers      []providerConfig `json:"providers,omitempty"`
	Skills         []skillConfig    `json:"skills,omitempty"`
	Sites          []providerConfig `json:"sites,omitempty"`
}

// providerConfig is a provider, or a site that publishes skills in the Agent Skills format, which has no credentials for calls.
type providerConfig struct {
	Namespace            string          `json:"namespace,omitempty"`
	Origin               string          `json:"origin"`
	Credentials          json.RawMessage `json:"credentials,omitempty"`
	DiscoveryCredentials json.RawMessage `json:"discovery_credentials,omitempty"`
	Trust                []string        `json:"trust,omitempty"`
}

// skillConfig is a skill with a known descriptor URL.
type skillConfig struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// check returns the first fault of the configuration.
func (c *handlerConfig) check() error { return checkHandler(caddyconfig.JSON(c, nil)) }

// checkHandler returns the first fault of a configuration of http.handlers.skill_bridge. Package bridge registers it. This package does not import it.
func checkHandler(config json.RawMessage) error {
	info, err := caddy.GetModule("http.handlers." + handlerName)
	if err != nil {
		return err
	}
	h := info.New()
	if err := caddy.StrictUnmarshalJSON(config, h); err != nil {
		return err
	}
	return h.(interface{ Check() error }).Check()
}
