package skillbridge

import (
	"encoding/json" // Caddy's raw modules are made for encoding/json
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const serveHelp = `
Runs a bridge without a config file: agents that speak JSON-RPC 2.0 use the skills of
the given providers at one URL, which is printed when the bridge is ready.

It listens on localhost:8080 unless --listen says otherwise, over plain HTTP, and
there it answers only requests to localhost, so that no web page can get at it by
another name. It knows no callers: everyone who reaches it may use it. An API key is
read from the environment variable that --api-key-env names, and added to requests to
the one provider; where others than this machine can reach the bridge, that needs
--allow-anonymous as well. For TLS, authentication and everything else, write a
Caddyfile: this command is for trying and for development. Its admin API is off.

The subcommands ask a provider without a bridge running.`

// serveOptions are the flags of the bridge itself.
type serveOptions struct {
	reach
	providers      []string
	listen         string
	path           string
	allowAnonymous bool
	accessLog      bool
}

func serveCommand(cmd *cobra.Command) {
	var o serveOptions
	cmd.Example = `  caddy skill-bridge --provider https://skills.example.com
  ACME_KEY=... caddy skill-bridge --provider https://skills.example.com --api-key-env ACME_KEY
  caddy skill-bridge --provider http://127.0.0.1:8081 --allow-http --allow-networks 127.0.0.1 --listen localhost:9000
  caddy skill-bridge list https://skills.example.com
  caddy skill-bridge call https://skills.example.com demo.markdown markdown='# Hello'
  caddy skill-bridge validate descriptor.json`
	cmd.Args = cobra.NoArgs
	o.addFlags(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&o.providers, "provider", nil, "Origin of a provider whose skills are offered; repeatable")
	f.StringVarP(&o.listen, "listen", "l", "localhost:8080", "Address to listen on, such as :8080")
	f.StringVar(&o.path, "path", "/rpc", "Path of the endpoint")
	f.BoolVar(&o.allowAnonymous, "allow-anonymous", false, "Let everyone who reaches --listen use the API key")
	f.BoolVar(&o.accessLog, "access-log", false, "Enable the access log")
	cmd.RunE = exits(func(*cobra.Command, []string) (int, error) { return 0, o.serve() })
}

// serve runs the bridge until the process is told to end.
func (o *serveOptions) serve() error {
	config, endpoint, err := o.config()
	if err != nil {
		return err
	}
	caddy.TrapSignals()
	if err := caddy.Run(config); err != nil {
		return err
	}
	caddy.Log().Info("bridging skills", zap.Strings("providers", o.providers), zap.String("endpoint", endpoint))
	fmt.Fprintln(os.Stdout, endpoint)
	select {}
}

// servingGrace is how long a stop waits for runs that are under way.
const servingGrace = 30 * time.Second

func (o *serveOptions) config() (config *caddy.Config, endpoint string, err error) {
	switch {
	case len(o.providers) == 0:
		return nil, "", errors.New("--provider is required; see --help")
	case len(o.providers) > 1 && o.keyEnv != "":
		return nil, "", errors.New("--api-key-env is for one --provider: several need a Caddyfile, where each has credentials of its own")
	case !strings.HasPrefix(o.path, "/") || strings.ContainsAny(o.path, "*?#{} "):
		return nil, "", fmt.Errorf("--path %q is not a plain path, such as /rpc", o.path)
	}
	address, err := o.address()
	if err != nil {
		return nil, "", err
	}
	local := isLoopback(address.Host)
	if o.keyEnv != "" && !local && !o.allowAnonymous {
		return nil, "", fmt.Errorf("everyone who reaches %s could use the API key: listen on localhost, or add --allow-anonymous if that is meant", o.listen)
	}
	h, err := o.handler(o.providers...)
	if err != nil {
		return nil, "", err
	}
	h.AllowAnonymous = local || o.allowAnonymous
	if fault := h.check(); fault != nil {
		return nil, "", usageError(fault)
	}
	match := caddy.ModuleMap{"path": caddyconfig.JSON(caddyhttp.MatchPath{o.path}, nil)}
	host := address.Host
	if local {
		hosts := caddyhttp.MatchHost{"localhost", "127.0.0.1", "::1"}
		if !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
		match["host"] = caddyconfig.JSON(hosts, nil)
	}
	if host == "" || isUnspecified(host) {
		host = "localhost"
	}
	server := &caddyhttp.Server{
		Listen:    []string{address.String()},
		AutoHTTPS: &caddyhttp.AutoHTTPSConfig{Disabled: true},
		Routes: caddyhttp.RouteList{
			{MatcherSetsRaw: []caddy.ModuleMap{match}, HandlersRaw: []json.RawMessage{caddyconfig.JSONModuleObject(h, "handler", "skill_bridge", nil)}},
			{HandlersRaw: []json.RawMessage{[]byte(`{"handler":"static_response","status_code":404}`)}},
		},
	}
	if o.accessLog {
		server.Logs = &caddyhttp.ServerLogConfig{}
	}
	app := caddyhttp.App{Servers: map[string]*caddyhttp.Server{"bridge": server}, GracePeriod: caddy.Duration(servingGrace)}
	config = &caddy.Config{
		Admin:   &caddy.AdminConfig{Disabled: true, Config: &caddy.ConfigSettings{Persist: new(bool)}},
		AppsRaw: caddy.ModuleMap{"http": caddyconfig.JSON(app, nil)},
	}
	if o.debug {
		config.Logging = &caddy.Logging{Logs: map[string]*caddy.CustomLog{
			caddy.DefaultLoggerName: {BaseLog: caddy.BaseLog{Level: zapcore.DebugLevel.CapitalString()}},
		}}
	}
	port := strconv.FormatUint(uint64(address.StartPort), 10)
	return config, "http://" + net.JoinHostPort(host, port) + o.path, nil
}

// address is where to listen: one TCP address with a port.
func (o *serveOptions) address() (caddy.NetworkAddress, error) {
	a, err := caddy.ParseNetworkAddressWithDefaults(o.listen, "tcp", 8080)
	if err != nil {
		return a, fmt.Errorf("--listen: %w", err)
	}
	if !strings.HasPrefix(a.Network, "tcp") || a.PortRangeSize() != 1 || a.StartPort == 0 {
		return a, fmt.Errorf("--listen %q is not one TCP address with a port, such as localhost:8080 or :8080", o.listen)
	}
	return a, nil
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

func isUnspecified(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsUnspecified()
}
