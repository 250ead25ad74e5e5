package command

import (
	"context"
	"encoding/json" // for Caddy's raw modules
	"errors"
	"fmt"
	"math"
	"net"
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
	"golang.org/x/term"

	"github.com/skill-bridge/caddy-skill-bridge/module/browse"
	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/module/command/remote"
	"github.com/skill-bridge/caddy-skill-bridge/module/routes"
)

const serveHelp = `Runs a bridge without a config file: agents that speak JSON-RPC 2.0 use the skills of the given providers at one URL, which is printed when the bridge
is ready.

It listens on localhost:8080, or --listen, over plain HTTP. On localhost it answers only requests whose host is localhost, so that web pages can't call it by
another name. If the port is in use, it ends with an error. It does not authenticate callers: everyone who can reach it may use it. --browse also serves a
page for browsers there. --api-key-env names the environment variable with the API key for the provider; if other machines can reach the bridge,
the key also needs --allow-anonymous. Its admin API is off, and its database is in memory. This command is for trials and development; for TLS, authentication
and everything else, write a Caddyfile.

Skills have the names that list shows. status, runs, purge, usage and approve ask a running Caddy. list, describe, call and validate ask a provider and need
no running bridge, unless --bridge names one.

Exit status: 0 stopped by Ctrl-C (SIGINT) or SIGTERM, 1 wrong usage, or it can't start.`

// server has the flags of the command that runs a bridge.
type server struct {
	providerFlags
	providers      []string
	listen         string
	path           string
	allowAnonymous bool
	accessLog      bool
	browse         bool
}

func serveCommand(cmd *cobra.Command) {
	var s server
	cmd.Example = `  caddy skill-bridge --provider https://skills.example.com
  ACME_KEY=... caddy skill-bridge --provider https://skills.example.com --api-key-env ACME_KEY
  caddy skill-bridge --provider http://127.0.0.1:8081 --allow-http --allow-networks 127.0.0.1 --listen localhost:9000
  caddy skill-bridge --provider https://skills.example.com --browse
  caddy skill-bridge list https://skills.example.com
  caddy skill-bridge call https://skills.example.com demo.markdown markdown='# Hello'
  caddy skill-bridge validate descriptor.json`
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := cobra.NoArgs(cmd, args); err != nil {
			return wrongUsage(cmd, err)
		}
		return nil
	}
	s.addFlags(cmd, true)
	f := cmd.Flags()
	f.StringArrayVar(&s.providers, "provider", nil, "Origin of a provider; repeatable")
	f.StringVarP(&s.listen, "listen", "l", "localhost:8080", "Address to listen on, such as :8080")
	f.StringVar(&s.path, "path", "/rpc", "Path of the endpoint")
	f.BoolVar(&s.allowAnonymous, "allow-anonymous", false, "Let everyone who can reach --listen use the API key")
	f.BoolVar(&s.browse, "browse", false, "Serve the page for browsers at the endpoint, too")
	f.BoolVar(&s.accessLog, "access-log", false, "Enable the access log")
	cmd.RunE = exits(func(cmd *cobra.Command, screen *cli.Screen, _ []string) (int, error) {
		return s.serve(cmd.Context(), screen)
	})
}

// serve runs the bridge until a signal ends the process. An error is a usage error.
func (s *server) serve(ctx context.Context, screen *cli.Screen) (int, error) {
	address, err := listenAddress(s.listen)
	switch {
	case len(s.providers) == 0:
		return 0, errors.New("--provider is required")
	case !strings.HasPrefix(s.path, "/") || strings.ContainsAny(s.path, "*?#{} "):
		return 0, fmt.Errorf("--path %q is not a plain path, such as /rpc", s.path)
	case err != nil:
		return 0, err
	}
	config, err := s.config(address)
	if err != nil {
		return 0, err
	}
	caddy.TrapSignals()
	if !start(ctx, screen, address, config) {
		return caddy.ExitCodeFailedStartup, nil
	}
	endpoint := routes.Origin(address, false) + s.path
	if !term.IsTerminal(int(os.Stdout.Fd())) { // there, the bridge says so
		fmt.Fprintln(os.Stdout, endpoint)
	}
	if s.browse {
		screen.Advise("open " + endpoint + " in a browser")
	}
	select {}
}

// listenAddress returns the address that --listen names.
func listenAddress(listen string) (caddy.NetworkAddress, error) {
	address, err := caddy.ParseNetworkAddressWithDefaults(listen, "tcp", 8080)
	if err != nil || !strings.HasPrefix(address.Network, "tcp") || address.PortRangeSize() != 1 || address.StartPort == 0 {
		return address, fmt.Errorf("--listen %q is not one TCP address with a port, such as localhost:8080 or :8080", listen)
	}
	return address, nil
}

// start runs Caddy until a signal ends the process. It says why if it can't.
func start(ctx context.Context, screen *cli.Screen, address caddy.NetworkAddress, config *caddy.Config) bool {
	if isTaken(ctx, address) {
		screen.Complain("%s is in use, perhaps by another bridge", address.JoinHostPort(0))
		another := strconv.FormatUint(uint64(address.StartPort%math.MaxUint16)+1, 10)
		screen.Advise("stop that program, or use another port, such as --listen " + net.JoinHostPort(address.Host, another))
		return false
	}
	if err := caddy.Run(config); err != nil {
		screen.Complain("%v", err)
		return false
	}
	return true
}

// isTaken reports whether a program listens on an address. Caddy would not notice: it
// shares ports (SO_REUSEPORT), so that two of its processes would answer in turn.
func isTaken(ctx context.Context, address caddy.NetworkAddress) bool {
	hosts := []string{address.Host}
	if address.Host == "localhost" {
		hosts = []string{"127.0.0.1", "::1"} // clients may use either
	}
	for _, host := range hosts {
		address.Host = host
		l, err := new(net.ListenConfig).Listen(ctx, address.Network, address.JoinHostPort(0))
		if errors.Is(err, syscall.EADDRINUSE) {
			return true
		}
		if err == nil {
			_ = l.Close() // there is nothing to flush
		}
	}
	return false
}

// stopGrace is how long a stop waits for runs in progress.
const stopGrace = 30 * time.Second

// config makes the configuration of Caddy.
func (s *server) config(address caddy.NetworkAddress) (*caddy.Config, error) {
	local := remote.IsLoopback(address.Host)
	if s.credentials.kind() != "" && !local && !s.allowAnonymous {
		return nil, fmt.Errorf("everyone who can reach %s could use the credentials: listen on localhost, or add --allow-anonymous", s.listen)
	}
	h, err := s.handler(s.providers...)
	if err != nil {
		return nil, err
	}
	if s.browse {
		h.Browse = new(browse.Config)
	}
	h.AllowAnonymous, h.Principal = local || s.allowAnonymous, "{http.vars.caller}" // who may reach it may see private skills
	if err := h.Check(); err != nil {
		return nil, err
	}
	return s.siteAt(address, s.accessLog, caddyhttp.MatchPath{s.path},
		map[string]string{"handler": "vars", "caller": cli.Principal}, caddyconfig.JSONModuleObject(h, "handler", handlerName, nil)), nil
}

// siteAt makes the configuration of Caddy for one site that answers requests for some paths. On an address of this machine only, it answers to no other
// host, so that web pages can't call it by another name.
func (r *providerFlags) siteAt(address caddy.NetworkAddress, accessLog bool, paths caddyhttp.MatchPath, handlers ...any) *caddy.Config {
	match := caddy.ModuleMap{"path": caddyconfig.JSON(paths, nil)}
	if remote.IsLoopback(address.Host) {
		hosts := caddyhttp.MatchHost{"localhost", "127.0.0.1", "::1"}
		if !slices.Contains(hosts, address.Host) {
			hosts = append(hosts, address.Host)
		}
		match["host"] = caddyconfig.JSON(hosts, nil)
	}
	route := caddyhttp.Route{MatcherSetsRaw: []caddy.ModuleMap{match}}
	for _, h := range handlers {
		route.HandlersRaw = append(route.HandlersRaw, caddyconfig.JSON(h, nil))
	}
	site := &caddyhttp.Server{
		Listen:    []string{address.String()},
		AutoHTTPS: &caddyhttp.AutoHTTPSConfig{Disabled: true},
		Protocols: []string{"h1"}, // the others need TLS
		Routes:    caddyhttp.RouteList{route, {HandlersRaw: []json.RawMessage{[]byte(`{"handler":"static_response","status_code":404}`)}}},
	}
	if accessLog {
		site.Logs = &caddyhttp.ServerLogConfig{}
	}
	app := caddyhttp.App{Servers: map[string]*caddyhttp.Server{"bridge": site}, GracePeriod: caddy.Duration(stopGrace)}
	config := &caddy.Config{
		Admin:   &caddy.AdminConfig{Disabled: true, Config: &caddy.ConfigSettings{Persist: new(bool)}},
		AppsRaw: caddy.ModuleMap{"http": caddyconfig.JSON(app, nil)},
	}
	if r.debug {
		config.Logging = loggingAt(silent, r.debug)
	}
	return config
}
