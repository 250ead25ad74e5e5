package command

import (
	"cmp"
	"context"
	"encoding/json" // for Caddy's raw modules
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap/zapcore"

	"github.com/skill-bridge/caddy-skill-bridge/module/bridge"
	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/module/command/remote"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/sources"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// providerFlags are the flags about the connection to a provider.
type providerFlags struct {
	flags         *pflag.FlagSet // all except debug
	allowHTTP     bool
	allowNetworks []string
	allowPorts    []int
	trust         []string
	credentials   credentialFlags
	private       bool
	debug         bool
	namespace     string
	site          bool
}

// addFlags adds the flags to a command. named adds --namespace, for commands that use names of skills.
func (r *providerFlags) addFlags(cmd *cobra.Command, named bool) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.BoolVar(&r.allowHTTP, "allow-http", false, "Allow connections to the provider without TLS")
	f.StringSliceVar(&r.allowNetworks, "allow-networks", nil, "Non-public addresses or CIDR ranges to allow, such as 127.0.0.1, or private_ranges")
	f.IntSliceVar(&r.allowPorts, "allow-ports", nil, "Ports to allow in addition to 80, 443 and the provider's")
	f.StringSliceVar(&r.trust, "trust", nil, "Further hosts that may receive the key, token or client secret; *.example.com names the subdomains of example.com")
	r.credentials.addTo(f)
	f.BoolVar(&r.private, "private", false, "Also send the key or token when reading the index and descriptors, to see private skills")
	if named {
		f.StringVar(&r.namespace, "namespace", "", "Namespace with which names of skills begin (default: the provider's host name)")
		f.BoolVar(&r.site, "agent-skills", false, "The provider is a web site that publishes skills to read in the Agent Skills format")
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

// handler returns the configuration that the flags stand for.
func (r *providerFlags) handler(origins ...string) (*bridge.Handler, error) {
	c := new(bridge.Handler)
	c.AllowHTTP, c.AllowNetworks, c.AllowPorts = r.allowHTTP, r.networks(), r.allowPorts
	c.StoreRaw = json.RawMessage(`{"type":"memory"}`)
	key, err := r.credentials.module(r.private)
	switch kind := r.credentials.kind(); {
	case err != nil:
		return nil, err
	case len(origins) > 1 && r.namespace != "":
		return nil, errors.New("--namespace needs exactly one provider; for several, write a Caddyfile with a namespace for each")
	case len(origins) > 1 && kind != "":
		return nil, errors.New(kind + " needs exactly one provider; for several, write a Caddyfile with credentials for each")
	case kind == "" && (r.private || len(r.trust) > 0):
		return nil, errors.New("--private and --trust need --api-key-env or --oauth-client-id")
	case r.site && kind != "" && !r.private:
		return nil, fmt.Errorf("--agent-skills: the skills of a site are not called, so that %s needs --private", kind)
	}
	for _, origin := range origins {
		p := &sources.Provider{Namespace: r.namespaceOf(origin), Origin: origin, CredentialsRaw: key, Trust: r.trust}
		if r.private {
			p.DiscoveryCredentialsRaw = key
		}
		if u, err := url.Parse(origin); err == nil && u.Scheme == "http" && u.Host != "" && !r.allowHTTP {
			return nil, fmt.Errorf("%s does not use TLS: write https://, or add --allow-http", u.Redacted())
		}
		if slices.ContainsFunc(c.Providers, func(other *sources.Provider) bool { return other.Namespace == p.Namespace }) {
			return nil, fmt.Errorf("two providers have the same host and so the same namespace %q: write a Caddyfile with a namespace for each", p.Namespace)
		}
		if r.site {
			c.Sites = append(c.Sites, &sources.Site{Namespace: p.Namespace, Origin: origin, DiscoveryCredentialsRaw: p.DiscoveryCredentialsRaw, Trust: p.Trust})
		} else {
			c.Providers = append(c.Providers, p)
		}
	}
	return c, nil
}

// networks returns the networks that are allowed.
func (r *providerFlags) networks() []string {
	var all []string
	for _, network := range r.allowNetworks {
		if network == "private_ranges" {
			all = append(all, caddyhttp.PrivateRangesCIDR()...)
			continue
		}
		all = append(all, network)
	}
	return all
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

// silent is the level of commands that log nothing without --debug.
const silent = zapcore.PanicLevel

// loggingAt returns the logging configuration with a level, unless --debug is set. It sets no output, because Caddy logs a
// change of the output.
func loggingAt(level zapcore.Level, debug bool) *caddy.Logging {
	if debug {
		level = zapcore.DebugLevel
	}
	return &caddy.Logging{Logs: map[string]*caddy.CustomLog{
		caddy.DefaultLoggerName: {BaseLog: caddy.BaseLog{Level: level.CapitalString()}},
	}}
}

// open opens a bridge for a provider in this process.
func (r *providerFlags) open(origin string) (*localBridge, error) {
	config, err := r.handler(origin)
	if err != nil {
		return nil, err
	}
	config.AllowAnonymous = true // the user of the command has the key
	config.Timeout, config.MaxTimeout = caddy.Duration(cli.DefaultTimeout), caddy.Duration(cli.MaxTimeout)
	return openBridge(config, nil, loggingAt(silent, r.debug))
}

// endpoint returns the endpoint of a bridge in this process; b is nil for messages that need none.
func (r *providerFlags) endpoint(cmd *cobra.Command, screen *cli.Screen, origin string, b *localBridge) *cli.Endpoint {
	p := &cli.Provider{Credentials: r.credentials.kind(), Private: r.private}
	e := &cli.Endpoint{Screen: screen, URL: origin, Command: cmd.Root().Name(), Flags: given(r.flags), Provider: p}
	if b == nil {
		return e
	}
	e.Do = func(r *http.Request) (*http.Response, error) {
		return b.do(r.WithContext(observe.WithWitness(r.Context(), p)))
	}
	caller := run.Caller{Principal: cli.Principal}
	p.ReadAll = func(ctx context.Context) { b.List(ctx, translate.Query{Caller: caller, Descriptors: math.MaxInt}) }
	p.Unread = func(ctx context.Context) *run.Failure {
		if _, unavailable := b.Catalog().Inventory(ctx); len(unavailable) > 0 {
			return unavailable[0].Failure
		}
		return nil
	}
	p.Token = func(ctx context.Context, skill, executionID string) (string, *run.Failure) {
		ref := run.Ref{SkillID: skill, ExecutionID: executionID}
		d, failure := b.Describe(ctx, translate.Call{Name: skill, Caller: caller})
		if failure == nil {
			ref.Source, ref.SkillID, ref.Version = d.Namespace, d.Descriptor.ID, d.Descriptor.Version
			token, err := b.handler.Token(ctx, ref, cli.Principal)
			if err == nil {
				return token, nil
			}
			failure = &run.Failure{Kind: run.Internal, By: run.Bridge, Message: err.Error()}
		}
		about := *failure // a copy that says that the run exists, so that the advice is not to start another one
		about.ExecutionID, about.Executed, about.SkillID = executionID, run.ExecutedYes, cmp.Or(about.SkillID, skill)
		return "", &about
	}
	return e
}

// The flags that say which credentials there are.
const (
	keyFlag    = "--api-key-env"
	clientFlag = "--oauth-client-id"
)

// credentialFlags are the flags about the credentials for a provider. No flag has a secret: other users of a machine can see the command line.
type credentialFlags struct {
	keyEnv, keyHeader, keyPrefix  string
	clientID, secretEnv, tokenURL string
	authStyle                     string
	scopes                        []string
}

// addTo adds the flags to a set.
func (f *credentialFlags) addTo(set *pflag.FlagSet) {
	set.StringVar(&f.keyEnv, "api-key-env", "", "Environment variable that contains the API key")
	set.StringVar(&f.keyHeader, "api-key-header", "", "Header for the key (default: the descriptor's, else X-API-Key)")
	set.StringVar(&f.keyPrefix, "api-key-prefix", "", "What is before the key in the header, such as \"Bearer \"")
	set.StringVar(&f.clientID, "oauth-client-id", "", "OAuth client with which to get tokens (client credentials)")
	set.StringVar(&f.secretEnv, "oauth-secret-env", "", "Environment variable that contains the client's secret")
	set.StringVar(&f.tokenURL, "oauth-token-url", "", "Token endpoint (default: the descriptor's)")
	set.StringVar(&f.authStyle, "oauth-auth-style", "", "How the client authenticates: header (HTTP Basic, the default) or params (in the body)")
	set.StringSliceVar(&f.scopes, "oauth-scopes", nil, "Scopes of the tokens (default: the token endpoint decides)")
}

// kind returns [keyFlag] or [clientFlag]; empty: there are no credentials.
func (f *credentialFlags) kind() string {
	switch {
	case f.keyEnv != "":
		return keyFlag
	case f.clientID != "":
		return clientFlag
	}
	return ""
}

// module returns the configuration of the module for the credentials; nil: there are none. It has the secret as a placeholder, so that no
// log shows it. forDocuments says that requests for documents have them, too.
func (f *credentialFlags) module(forDocuments bool) (json.RawMessage, error) {
	ofClient := f.secretEnv != "" || f.tokenURL != "" || f.authStyle != "" || len(f.scopes) > 0
	switch {
	case f.keyEnv == "" && f.keyHeader != "":
		return nil, errors.New("--api-key-header needs " + keyFlag)
	case f.keyEnv == "" && f.keyPrefix != "":
		return nil, errors.New("--api-key-prefix needs " + keyFlag)
	case f.keyEnv != "" && (f.clientID != "" || ofClient):
		return nil, errors.New(keyFlag + " and " + clientFlag + " exclude each other: write a Caddyfile for several credentials")
	case f.clientID == "" && ofClient:
		return nil, errors.New("--oauth-secret-env, --oauth-token-url, --oauth-auth-style and --oauth-scopes need " + clientFlag)
	case f.keyEnv != "":
		_, err := remote.FromEnvironment(keyFlag, f.keyEnv)
		return caddyconfig.JSON(map[string]string{"type": "api_key", "key": "{env." + f.keyEnv + "}", "header": f.keyHeader, "prefix": f.keyPrefix}, nil), err
	case f.clientID == "":
		return nil, nil
	case f.secretEnv == "":
		return nil, errors.New(clientFlag + " needs --oauth-secret-env, which names the environment variable with the client's secret")
	case forDocuments && f.tokenURL == "":
		return nil, errors.New("with " + clientFlag + ", reading documents needs --oauth-token-url: they are read before a descriptor can name a token endpoint")
	}
	_, err := remote.FromEnvironment("--oauth-secret-env", f.secretEnv)
	return caddyconfig.JSON(map[string]any{
		"type": "oauth2", "client_id": f.clientID, "client_secret": "{env." + f.secretEnv + "}", "token_url": f.tokenURL, "scopes": f.scopes, "auth_style": f.authStyle,
	}, nil), err
}
