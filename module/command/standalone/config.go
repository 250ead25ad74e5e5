// Package standalone is the configuration of the handler http.handlers.skill_bridge that the flags of commands stand for, without a Caddyfile.
package standalone

import (
	"encoding/json" // for Caddy's raw modules
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// Config is the part of the configuration of http.handlers.skill_bridge that flags set.
type Config struct {
	Principal      string          `json:"principal,omitempty"`
	AllowAnonymous bool            `json:"allow_anonymous,omitempty"`
	AllowHTTP      bool            `json:"allow_http,omitempty"`
	AllowNetworks  []string        `json:"allow_networks,omitempty"`
	AllowPorts     []int           `json:"allow_ports,omitempty"`
	Timeout        caddy.Duration  `json:"timeout,omitempty"`
	MaxTimeout     caddy.Duration  `json:"max_timeout,omitempty"`
	MCP            json.RawMessage `json:"mcp,omitempty"`
	Browse         json.RawMessage `json:"browse,omitempty"`
	Store          json.RawMessage `json:"store,omitempty"`
	Providers      []Provider      `json:"providers,omitempty"`
	Skills         []Skill         `json:"skills,omitempty"`
	Sites          []Site          `json:"sites,omitempty"`
}

// Provider is a provider.
type Provider struct {
	Namespace            string          `json:"namespace,omitempty"`
	Origin               string          `json:"origin"`
	Credentials          json.RawMessage `json:"credentials,omitempty"`
	DiscoveryCredentials json.RawMessage `json:"discovery_credentials,omitempty"`
	Trust                []string        `json:"trust,omitempty"`
}

// Site is a site that publishes skills in the Agent Skills format.
type Site struct {
	Namespace            string          `json:"namespace,omitempty"`
	Origin               string          `json:"origin"`
	DiscoveryCredentials json.RawMessage `json:"discovery_credentials,omitempty"`
	Trust                []string        `json:"trust,omitempty"`
}

// Skill is a skill with a known descriptor URL.
type Skill struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// Handler is the interface of http.handlers.skill_bridge that the commands use.
type Handler interface {
	// Check returns the first fault of the configuration.
	Check() error
}

// Check returns the first fault of the configuration.
func (c *Config) Check() error { return Check(caddyconfig.JSON(c, nil)) }

// CheckNamespaces returns an error if two providers have the same namespace.
func (c *Config) CheckNamespaces() error {
	for i, p := range c.Providers {
		if slices.ContainsFunc(c.Providers[:i], func(other Provider) bool { return other.Namespace == p.Namespace }) {
			return fmt.Errorf("two providers have the same host and so the same namespace %q: write a Caddyfile with a namespace for each", p.Namespace)
		}
	}
	return nil
}

// handlerOf returns the handler with a configuration. Package bridge registers it. This package does not import it.
func handlerOf(config json.RawMessage) (Handler, error) {
	info, err := caddy.GetModule("http.handlers.skill_bridge")
	if err != nil {
		return nil, err
	}
	h := info.New()
	if err := caddy.StrictUnmarshalJSON(config, h); err != nil {
		return nil, err
	}
	return h.(Handler), nil
}

// Check returns the first fault of a configuration.
func Check(config json.RawMessage) error {
	h, err := handlerOf(config)
	if err != nil {
		return err
	}
	return h.Check()
}
