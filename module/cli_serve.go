package skillbridge

import (
	"context"
	"encoding/json" // Caddy's raw modules are made for encoding/json
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
)

const serveHelp = `
Runs a bridge without a config file: agents that speak JSON-RPC 2.0 use the skills of
the given providers at one URL, which is printed when the bridge is ready.

It listens on localhost:8080 unless --listen says otherwise, over plain HTTP, and
there it answers only requests to localhost, so that no web page can get at it by
another name. Where something else listens already, it ends with an error. It knows
no callers: everyone who reaches it may use it. An API key is
read from the environment variable that --api-key-env names, and added to requests to
the one provider; where others than this machine can reach the bridge, that needs
--allow-anonymous as well. For TLS, authentication and everything else, write a
Caddyfile: this command is for trying and for development. Its admin API is off.

Skills have the names that list shows. The subcommands ask a provider without a bridge
running; status and purge ask a Caddy that is.

Exit status: 0 stopped, by Ctrl-C (SIGINT) or SIGTERM, 1 wrong usage, or it can't
start.`

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
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := cobra.NoArgs(cmd, args); err != nil {
			return wrongUsage(cmd, err)
		}
		return nil
	}
	o.addFlags(cmd)
	o.addNamespace(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&o.providers, "provider", nil, "Origin of a provider whose skills are offered; repeatable")
	f.StringVarP(&o.listen, "listen", "l", "localhost:8080", "Address to listen on, such as :8080")
	f.StringVar(&o.path, "path", "/rpc", "Path of the endpoint")
	f.BoolVar(&o.allowAnonymous, "allow-anonymous", false, "Let everyone who reaches --listen use the API key")
	f.BoolVar(&o.accessLog, "access-log", false, "Enable the access log")
	cmd.RunE = exits(func(cmd *cobra.Command, screen *cli.Screen, _ []string) (int, error) {
		return o.serve(cmd.Context(), screen)
	})
}

// serve runs the bridge until the process is told to end. An error is one of usage.
func (o *serveOptions) serve(ctx context.Context, screen *cli.Screen) (int, error) {
	config, endpoint, err := o.config()
	if err != nil {
		return 0, err
	}
	if address, _ := o.address(); isTaken(ctx, address) {
		screen.Complain("something listens on %s already, perhaps another bridge", o.listen)
		another := strconv.FormatUint(uint64(address.StartPort%math.MaxUint16)+1, 10)
		screen.Advise("stop it, or listen elsewhere, such as --listen " + net.JoinHostPort(address.Host, another))
		return caddy.ExitCodeFailedStartup, nil
	}
	caddy.TrapSignals()
	if err := caddy.Run(config); err != nil {
		screen.Complain("%v", err)
		return caddy.ExitCodeFailedStartup, nil
	}
	caddy.Log().Info("bridging skills", zap.Strings("providers", o.providers), zap.String("endpoint", endpoint))
	fmt.Fprintln(os.Stdout, endpoint)
	select {}
}

// isTaken reports whether somebody listens on an address. Caddy would not notice: it
// shares ports (SO_REUSEPORT), so that two of its processes would answer in turn.
func isTaken(ctx context.Context, address caddy.NetworkAddress) bool {
	hosts := []string{address.Host}
	if address.Host == "localhost" {
		hosts = []string{"127.0.0.1", "::1"} // of which clients may choose either
	}
	for _, host := range hosts {
		address.Host = host
		l, err := new(net.ListenConfig).Listen(ctx, address.Network, address.JoinHostPort(0))
		if errors.Is(err, syscall.EADDRINUSE) {
			return true
		}
		if err == nil {
			_ = l.Close() // nobody has connected
		}
	}
	return false
}

// servingGrace is how long a stop waits for runs that are under way.
const servingGrace = 30 * time.Second

func (o *serveOptions) config() (config *caddy.Config, endpoint string, err error) {
	switch {
	case len(o.providers) == 0:
		return nil, "", errors.New("--provider is required")
	case len(o.providers) > 1 && o.namespace != "":
		return nil, "", errors.New("--namespace is for one --provider: several need a Caddyfile, where each has a namespace of its own")
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
	for i, p := range h.Providers {
		if slices.ContainsFunc(h.Providers[:i], func(other *Provider) bool { return other.Namespace == p.Namespace }) {
			return nil, "", fmt.Errorf("two providers would both have the namespace %q, that of their host: write a Caddyfile, where each has a namespace of its own", p.Namespace)
		}
	}
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
	if err != nil || !strings.HasPrefix(a.Network, "tcp") || a.PortRangeSize() != 1 || a.StartPort == 0 {
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
