package command

import (
	"cmp"
	"context"
	"encoding/json" // for Caddy's raw modules
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/spf13/cobra"

	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/module/publish"
	"github.com/skill-bridge/caddy-skill-bridge/module/routes"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

const publishHelp = `Publishes operations of an HTTP API as skills, without a config file, and prints the URLs of the index and of the descriptors when it is ready. The
OpenAPI document (3.0, 3.1, or Swagger 2.0) is a file or a URL; it is read again when it changes. --include names what is published, by operationId or by method
and path; * stands for any text. Nothing else of the API can be reached. Operations that can't be skills are named, with the reason.

It listens on localhost:8080, or --listen, over plain HTTP, and asks the API at --to. On localhost it answers only requests whose host is localhost. A credential
that the caller sends goes to the API if the operation needs it. Its admin API is off, and its database is in memory. This command is for trials and development;
for TLS and everything else, write a Caddyfile with skill_publish.

With --print it serves nothing, and writes the index and the descriptors as static files into a folder, for a site at --url, whose skill_publish executes them.

Exit status: 0 stopped by Ctrl-C (SIGINT) or SIGTERM, or written, 1 wrong usage, it can't start, or no operation is a skill, 5 writing the result failed.`

// publisher has the flags of the command that publishes an API.
type publisher struct {
	publish.Handler
	api    publish.Document
	to     string
	listen string
	files  string
	debug  bool
}

func publishCommand() *cobra.Command {
	var p publisher
	cmd := &cobra.Command{
		Use:   "publish --openapi <file-or-url> --include <operation> --to <url>",
		Short: "Publishes operations of an HTTP API as skills",
		Long:  publishHelp,
		Example: `  caddy skill-bridge publish --openapi api.yaml --include 'list*' --include 'GET /pets/{petId}' --to http://localhost:3000
  caddy skill-bridge publish --openapi api.yaml --include '*' --exclude 'delete*' --to http://localhost:3000 --listen :8080 --url https://api.example.com
  caddy skill-bridge publish --openapi api.yaml --include '*' --print site --url https://api.example.com`,
		Args: arguments(0, 0),
		RunE: exits(func(cmd *cobra.Command, screen *cli.Screen, _ []string) (int, error) {
			return p.run(cmd.Context(), screen)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&p.api.Location, "openapi", "", "The OpenAPI document: a file or a URL")
	f.StringArrayVar(&p.api.Include, "include", nil, "Operation to publish: an operationId, or a method and a path; repeatable")
	f.StringArrayVar(&p.api.Exclude, "exclude", nil, "Operation not to publish; repeatable")
	f.StringVar(&p.to, "to", "", "Origin of the API, such as http://localhost:3000")
	f.StringVarP(&p.listen, "listen", "l", "localhost:8080", "Address to listen on, such as :8080")
	f.StringVar(&p.URL, "url", "", "Origin as consumers see it (default: the address that it listens on)")
	f.StringVar(&p.Namespace, "namespace", "", "First part of the ids of skills (default: the host of the URL)")
	f.StringVar(&p.files, "print", "", "Write the index and the descriptors as files into this folder, and serve nothing")
	f.BoolVar(&p.AllowHTTP, "allow-http", false, "Read a document at a URL without TLS, too")
	f.StringSliceVar(&p.AllowNetworks, "allow-networks", nil, "Non-public addresses or CIDR ranges to allow for documents at URLs, such as 127.0.0.1")
	f.BoolVar(&p.debug, "debug", false, "Log everything to standard error")
	return cmd
}

// run publishes the API until a signal ends the process, or writes what it would publish. An error is a usage error.
func (p *publisher) run(ctx context.Context, screen *cli.Screen) (int, error) {
	address, err := listenAddress(p.listen)
	if err != nil {
		return 0, err
	}
	to, err := url.Parse(p.to)
	switch {
	case p.api.Location == "" || len(p.api.Include) == 0 || p.to == "" && p.files == "":
		return 0, errors.New("--openapi and --include are required, and --to without --print: which document, which of its operations, and where the API is")
	case p.files == "" && (err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" || strings.Trim(to.Path, "/") != "" || to.RawQuery != ""):
		return 0, fmt.Errorf("--to %q is not the origin of an API, such as http://localhost:3000; its paths are in the document", p.to)
	}
	if p.files == "" {
		caddy.TrapSignals() // before there is something to stop
	}
	if p.URL == "" {
		p.URL = routes.Origin(address, false)
	}
	p.OpenAPI, p.StoreRaw = []publish.Document{p.api}, json.RawMessage(`{"type":"memory"}`)
	handler, release, err := load("skill_publish", &p.Handler, nil, loggingAt(silent, false))
	if err != nil {
		return 0, errors.New(wayToModule.ReplaceAllString(err.Error(), ""))
	}
	files, found := handler.(*publish.Handler).Documents(ctx) //nolint:forcetypeassert // it is this one
	release()
	for _, f := range found {
		if f.Operation != "" {
			f.Reason = f.Operation + " is " + f.What()
		}
		screen.Complain("%s: %s", cmp.Or(f.Document, "skill_publish"), strings.ReplaceAll(f.Reason, "the option allow_networks", "--allow-networks"))
	}
	switch {
	case len(files) == 1: // the index
		screen.Complain("no operation is a skill")
		return cli.Invalid, nil
	case p.files != "":
		return cli.OK, publish.WriteFiles(p.files, files)
	}
	proxy := map[string]any{
		"handler":   "reverse_proxy",
		"upstreams": []map[string]string{{"dial": net.JoinHostPort(to.Hostname(), cmp.Or(to.Port(), map[string]string{"http": "80", "https": "443"}[to.Scheme]))}},
		"headers":   map[string]any{"request": map[string]any{"set": map[string][]string{"Host": {to.Host}}}},
	}
	if to.Scheme == "https" {
		proxy["transport"] = map[string]any{"protocol": "http", "tls": struct{}{}}
	}
	config := (&providerFlags{debug: p.debug}).siteAt(address, false, caddyhttp.MatchPath{document.WellKnownPath, "/skill-sharing/*"},
		caddyconfig.JSONModuleObject(&p.Handler, "handler", "skill_publish", nil), proxy)
	if !start(ctx, screen, address, config) {
		return caddy.ExitCodeFailedStartup, nil
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintln(os.Stdout, p.URL+path)
	}
	select {}
}
