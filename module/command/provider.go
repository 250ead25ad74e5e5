package command

import (
	"encoding/json" // for Caddy's raw modules
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap/zapcore"

	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
)

// providerFlags are the flags about the connection to a provider.
type providerFlags struct {
	flags         *pflag.FlagSet // all except debug
	allowHTTP     bool
	allowNetworks []string
	allowPorts    []int
	trust         []string
	keyEnv        string
	keyHeader     string
	private       bool
	debug         bool
	namespace     string
}

// addFlags adds the flags to a command. named adds --namespace, for commands that use names of skills.
func (r *providerFlags) addFlags(cmd *cobra.Command, named bool) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.BoolVar(&r.allowHTTP, "allow-http", false, "Allow connections to the provider without TLS")
	f.StringSliceVar(&r.allowNetworks, "allow-networks", nil, "Non-public addresses or CIDR ranges to allow, such as 127.0.0.1, or private_ranges")
	f.IntSliceVar(&r.allowPorts, "allow-ports", nil, "Ports to allow in addition to 80, 443 and the provider's")
	f.StringSliceVar(&r.trust, "trust", nil, "Further hosts that may receive the API key; *.example.com names the subdomains of example.com")
	f.StringVar(&r.keyEnv, "api-key-env", "", "Environment variable that contains the API key")
	f.StringVar(&r.keyHeader, "api-key-header", "", "Header for the key (default: the descriptor's, else X-API-Key)")
	f.BoolVar(&r.private, "private", false, "Also send the key when reading the index and descriptors, to see private skills")
	if named {
		f.StringVar(&r.namespace, "namespace", "", "Namespace with which names of skills begin (default: the provider's host name)")
	}
	r.flags = f
	cmd.Flags().AddFlagSet(f)
	cmd.Flags().BoolVar(&r.debug, "debug", false, "Log everything to standard error")
}

// given returns the flags that are set, as arguments of another command.
func given(flags *pflag.FlagSet) []string {
	var words []string
	flags.VisitAll(func(f *pflag.Flag) {
		list, isList := f.Value.(pflag.SliceValue)
		switch {
		case !f.Changed, f.Value.String() == "false":
		case f.Value.Type() == "bool":
			words = append(words, "--"+f.Name)
		case isList:
			words = append(words, "--"+f.Name, strings.Join(list.GetSlice(), ","))
		default:
			words = append(words, "--"+f.Name, f.Value.String())
		}
	})
	return words
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// handlerConfig is the part of the configuration of http.handlers.skill_bridge that
// flags set.
type handlerConfig struct {
	AllowAnonymous bool             `json:"allow_anonymous,omitempty"`
	AllowHTTP      bool             `json:"allow_http,omitempty"`
	AllowNetworks  []string         `json:"allow_networks,omitempty"`
	AllowPorts     []int            `json:"allow_ports,omitempty"`
	Timeout        caddy.Duration   `json:"timeout,omitempty"`
	MaxTimeout     caddy.Duration   `json:"max_timeout,omitempty"`
	MCP            json.RawMessage  `json:"mcp,omitempty"`
	Providers      []providerConfig `json:"providers,omitempty"`
	Skills         []skillConfig    `json:"skills,omitempty"`
}

type providerConfig struct {
	Namespace            string          `json:"namespace,omitempty"`
	Origin               string          `json:"origin"`
	Credentials          json.RawMessage `json:"credentials,omitempty"`
	DiscoveryCredentials json.RawMessage `json:"discovery_credentials,omitempty"`
	Trust                []string        `json:"trust,omitempty"`
	ListPrivate          bool            `json:"list_private,omitempty"`
}

type skillConfig struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// handler is the interface of http.handlers.skill_bridge that the commands use.
type handler interface {
	// Check returns the first fault of the configuration.
	Check() error
	// Standalone returns the configuration of a bridge, and a function that releases what it holds.
	Standalone(ctx caddy.Context) (*translate.Config, func(), error)
}

// module returns the handler.
func (c *handlerConfig) module() (handler, error) { return moduleOf(caddyconfig.JSON(c, nil)) }

// check returns the first fault of the configuration.
func (c *handlerConfig) check() error { return checkHandler(caddyconfig.JSON(c, nil)) }

// checkNamespaces returns an error if two providers have the same namespace.
func (c *handlerConfig) checkNamespaces() error {
	for i, p := range c.Providers {
		if slices.ContainsFunc(c.Providers[:i], func(other providerConfig) bool { return other.Namespace == p.Namespace }) {
			return fmt.Errorf("two providers have the same host and so the same namespace %q: write a Caddyfile with a namespace for each", p.Namespace)
		}
	}
	return nil
}

// moduleOf returns the handler with a configuration. Package bridge registers it. This package does not import it.
func moduleOf(config json.RawMessage) (handler, error) {
	info, err := caddy.GetModule("http.handlers.skill_bridge")
	if err != nil {
		return nil, err
	}
	h := info.New()
	if err := caddy.StrictUnmarshalJSON(config, h); err != nil {
		return nil, err
	}
	return h.(handler), nil
}

// checkHandler returns the first fault of a configuration.
func checkHandler(config json.RawMessage) error {
	h, err := moduleOf(config)
	if err != nil {
		return err
	}
	return h.Check()
}

// handler returns the configuration that the flags stand for. It has the key as a placeholder, so
// that no log shows the key.
func (r *providerFlags) handler(origins ...string) (*handlerConfig, error) {
	c := &handlerConfig{AllowHTTP: r.allowHTTP, AllowPorts: r.allowPorts}
	for _, network := range r.allowNetworks {
		if network == "private_ranges" {
			c.AllowNetworks = append(c.AllowNetworks, caddyhttp.PrivateRangesCIDR()...)
			continue
		}
		c.AllowNetworks = append(c.AllowNetworks, network)
	}
	var key json.RawMessage
	switch {
	case r.keyEnv == "" && (r.private || r.keyHeader != "" || len(r.trust) > 0):
		return nil, errors.New("--private, --api-key-header and --trust need --api-key-env")
	case r.keyEnv != "" && !envName.MatchString(r.keyEnv):
		return nil, errors.New("--api-key-env takes the name of an environment variable, not the key itself")
	case r.keyEnv != "" && os.Getenv(r.keyEnv) == "":
		return nil, fmt.Errorf("--api-key-env: the environment variable %s is empty or not set", r.keyEnv)
	case r.keyEnv != "":
		key = caddyconfig.JSON(map[string]string{"type": "api_key", "key": "{env." + r.keyEnv + "}", "header": r.keyHeader}, nil)
	}
	for _, origin := range origins {
		p := providerConfig{Namespace: r.namespaceOf(origin), Origin: origin, Credentials: key, Trust: r.trust, ListPrivate: true}
		if r.private {
			p.DiscoveryCredentials = key
		}
		if u, err := url.Parse(origin); err == nil && u.Scheme == "http" && u.Host != "" && !r.allowHTTP {
			return nil, fmt.Errorf("%s does not use TLS: write https://, or add --allow-http", u.Redacted())
		}
		c.Providers = append(c.Providers, p)
	}
	return c, nil
}

// namespaceOf returns the namespace of a provider: the same default as in a configuration, so that
// commands and bridges use the same names. Characters that a namespace can't have become hyphens;
// a configuration needs the option namespace then.
func (r *providerFlags) namespaceOf(origin string) string {
	u, err := url.Parse(origin)
	if r.namespace != "" || err != nil {
		return r.namespace
	}
	return notNamespace.ReplaceAllString(strings.ToLower(u.Hostname()), "-")
}

var notNamespace = regexp.MustCompile(`[^A-Za-z0-9._-]`)

// logging returns the logging configuration: without --debug, nothing is logged.
func (r *providerFlags) logging() *caddy.Logging { return r.loggingFrom(zapcore.PanicLevel) }

// loggingFrom returns the logging configuration with a level, unless --debug is set. It sets no output, because Caddy logs a
// change of the output.
func (r *providerFlags) loggingFrom(level zapcore.Level) *caddy.Logging {
	if r.debug {
		level = zapcore.DebugLevel
	}
	return &caddy.Logging{Logs: map[string]*caddy.CustomLog{
		caddy.DefaultLoggerName: {BaseLog: caddy.BaseLog{Level: level.CapitalString()}},
	}}
}

// load returns the configuration of a bridge without a server, and a function that releases what
// the bridge holds.
func (r *providerFlags) load(config *handlerConfig) (*translate.Config, func(), error) {
	config.AllowAnonymous = true // the user of the command has the key
	config.Timeout, config.MaxTimeout = caddy.Duration(cli.DefaultTimeout), caddy.Duration(cli.MaxTimeout)
	h, err := config.module()
	if err != nil {
		return nil, nil, err
	}
	if err := h.Check(); err != nil {
		return nil, nil, err
	}
	ctx, err := caddy.ProvisionContext(&caddy.Config{Logging: r.logging()})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := caddy.NewContext(ctx)
	bridge, release, err := h.Standalone(ctx)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	return bridge, func() { release(); cancel() }, nil
}

// provider returns the provider of a command, without a bridge.
func (r *providerFlags) provider(cmd *cobra.Command, screen *cli.Screen, origin string) *cli.Provider {
	return &cli.Provider{
		Screen: screen, URL: origin, Command: cmd.Root().Name(), Flags: given(r.flags), Keyed: r.keyEnv != "", Private: r.private,
	}
}
