package command

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/module/command/remote"
	"github.com/skill-bridge/caddy-skill-bridge/module/setup"
)

func initCommand() *cobra.Command {
	var b setup.Bridge
	var output string
	var force bool
	cmd := &cobra.Command{
		Use:   "init [--provider <url>] [--key none|<variable>|<file>] [--callers anyone|keys|<issuer-url>]",
		Short: "Writes a Caddyfile with a bridge, and checks it",
		Long: `Writes a Caddyfile with comments for a bridge to one provider, and checks it as the command check does. At a terminal, it asks for what no flag says. The
Caddyfile names the environment variable or the file that has the provider's API key, never the key. With --callers keys, it also makes the file callers beside
it, with a key for the principal agent, which it shows once on standard error. A file that exists is only replaced with --force, and callers never.

Exit status: 0 the Caddyfile is written and all checks passed, 1 a check failed, or wrong usage (then nothing is written), or the key is not there yet, 5 writing the result failed, 130 interrupted.`,
		Example: `  caddy skill-bridge init
  caddy skill-bridge init --provider https://skills.example.com --key SKILLS_API_KEY --callers anyone
  caddy skill-bridge init --provider https://skills.example.com --key /run/secrets/key --callers keys --site agents.example.com --output /etc/caddy/Caddyfile --force`,
		Args: arguments(0, 0),
	}
	f := cmd.Flags()
	f.StringVar(&b.Provider, "provider", "", "Origin of the provider")
	f.StringVar(&b.Key, "key", "", "Its API key: none, the name of an environment variable, or the path of a file")
	f.StringVar(&b.Callers, "callers", "", "Who may call: anyone on this machine, those with keys, or those with access tokens of an issuer (URL)")
	f.StringVar(&b.Site, "site", "localhost:8080", "Address of the site: a host name, for which Caddy gets a certificate, or localhost and a port")
	f.StringVarP(&output, "output", "o", defaultConfig, "File to write")
	f.BoolVar(&force, "force", false, "Replace the file")
	_ = cmd.RegisterFlagCompletionFunc("callers", cobra.FixedCompletions([]string{setup.Anyone, setup.Keys}, cobra.ShellCompDirectiveNoFileComp)) // it fails only for unknown flags
	cmd.RunE = exits(func(cmd *cobra.Command, screen *cli.Screen, _ []string) (int, error) {
		if err := setup.CanWrite(output, force); err != nil {
			return 0, err // before questions
		}
		whom, standard := "anyone (on this machine), ", setup.Anyone
		if !b.Local() {
			whom, standard = "", setup.Keys
		}
		for _, q := range []struct {
			flag               string
			value              *string
			question, standard string
		}{
			{"site", &b.Site, "", ""},
			{"provider", &b.Provider, "Origin of the provider, such as https://skills.example.com:", ""},
			{"key", &b.Key, "Its API key: none, the name of an environment variable, or the path of a file [none]:", setup.NoKey},
			{"callers", &b.Callers, "Who may call: " + whom + "keys, or the URL of an issuer of access tokens [" + standard + "]:", standard},
		} {
			if *q.value != "" || q.question == "" {
				if err := b.Check(q.flag); err != nil {
					return 0, err
				}
				continue
			}
			for {
				answer, asked, err := screen.Ask(q.question)
				if !asked {
					return 0, fmt.Errorf("--%s is required, since there is no terminal to ask for it", q.flag)
				} else if err != nil { // the end of the input
					return screen.Interrupted(), nil
				}
				*q.value = cmp.Or(answer, q.standard)
				if err = b.Check(q.flag); err == nil {
					break
				}
				screen.Complain("%v", err)
			}
		}
		keys, key, err := b.Write(output, force)
		if err != nil {
			return screen.Fail(fmt.Errorf("%s is not written: %w", output, err), "name another file with --output, or run it as a user who may write this one"), nil
		}
		fmt.Fprintln(screen.Out, "Written: "+output)
		token := ""
		if b.Callers == setup.Keys {
			token = " --bearer-env BRIDGE_KEY" //nolint:gosec // a variable's name
			fmt.Fprintln(screen.Out, "Keys of callers: "+keys+" (Caddy's user must be able to read it)")
			if key == "" {
				fmt.Fprintln(screen.Out, "That file was there, and stays as it is")
			}
		}
		if key != "" {
			fmt.Fprintf(screen.Err, "The key of agent, which is shown only now:\n%s\n", key)
		}
		if do := b.MissingKey(); do != "" {
			screen.Advise(do + ", then caddy skill-bridge check " + setup.Named(output))
			return cli.Invalid, nil
		}
		status, err := check(cmd.Context(), screen, output, "caddyfile", false, loggingAt(silent, false))
		if status == cli.OK && err == nil {
			screen.Advise("caddy run " + setup.Named(output) + "; then, for example, caddy skill-bridge add-client cursor --url " + b.URL("/mcp") + token)
		}
		return status, err
	})
	return cmd
}

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Writes the JSON Schema of Caddy's JSON with the bridge",
		Long: `Writes a JSON Schema (2020-12) of Caddy's JSON with the modules of this program, for editors. What Skill Bridge adds is described in it. It says
which members there are, and of which types; caddy validate and check say the rest. Its $defs have the schemas of modules, such as
http.handlers.skill_bridge, for other schemas. In VS Code's settings: "json.schemas": [{"fileMatch": ["*caddy*.json"], "url": "./caddy.schema.json"}]

Exit status: 0 success, 1 wrong usage, 5 writing failed.`,
		Example: "  caddy skill-bridge schema > caddy.schema.json",
		Args:    arguments(0, 0),
		RunE: exits(func(_ *cobra.Command, screen *cli.Screen, _ []string) (int, error) {
			screen.JSON(setup.Schema())
			return cli.OK, nil
		}),
	}
}

func addClientCommand() *cobra.Command {
	server := setup.Server{}
	var variable, file string
	ids := make([]string, len(setup.Clients))
	for i := range ids {
		ids[i] = setup.Clients[i].ID
	}
	cmd := &cobra.Command{
		Use:   "add-client " + strings.Join(ids, "|"),
		Short: "Adds a bridge to the configuration of an MCP client",
		Long: `Adds a bridge to the configuration file of a client of MCP: cursor, vscode, claude (Claude Code) and gemini in the current folder, which is that of a
project; claude-desktop and windsurf in the home folder; or --file. All else in the file stays. It shows what it has added. With --bearer-env, requests have the
token of an environment variable of the client; VS Code asks for it, and for Claude Desktop you write it to the file. Without, there is no token: a bridge may need none,
or its authorization_server gives clients theirs.

Exit status: 0 the file has the bridge, 1 wrong usage, 5 the file is left as it is, for example since it is not JSON.`,
		Example: `  caddy skill-bridge add-client cursor
  caddy skill-bridge add-client vscode --url https://agents.example.com/mcp --bearer-env BRIDGE_KEY
  caddy skill-bridge add-client cursor --file ~/.cursor/mcp.json --name acme --url http://bridge.lan:8080/mcp --allow-http`,
		Args:      arguments(1, 1),
		ValidArgs: ids,
	}
	f := cmd.Flags()
	f.StringVar(&server.URL, "url", "http://localhost:8080/mcp", "URL of the bridge's MCP endpoint")
	f.StringVar(&server.Name, "name", "skills", "Name of the bridge in the client")
	f.StringVar(&variable, "bearer-env", "", "Environment variable of the client that contains the bearer token for the bridge")
	f.BoolVar(&server.AllowHTTP, "allow-http", false, "Allow a bridge elsewhere without TLS")
	f.StringVar(&file, "file", "", "Configuration file (default: that of the client)")
	cmd.RunE = exits(func(_ *cobra.Command, screen *cli.Screen, args []string) (int, error) {
		i := slices.Index(ids, args[0])
		if i < 0 {
			return 0, fmt.Errorf("%q is none of %s", args[0], strings.Join(ids, ", "))
		}
		client, s := &setup.Clients[i], server
		if u, err := url.Parse(s.URL); err == nil && (u.User != nil || u.RawQuery != "") {
			return 0, errors.New("--url has a user name, a password or a query, which would be written to the file: leave it out; a token comes from --bearer-env")
		}
		if _, err := (&remote.Connection{Flag: "--url", Example: "the URL of an MCP endpoint, such as https://agents.example.com/mcp", URL: s.URL}).Open(s.AllowHTTP); err != nil {
			return 0, err
		}
		if variable != "" {
			if !setup.IsVariable(variable) {
				return 0, errors.New("--bearer-env takes the name of an environment variable (one that is set, or short words in capital letters such as BRIDGE_KEY), not the token itself")
			}
			s = s.WithToken(client, variable)
		}
		var err error
		if s.Program, err = os.Executable(); err != nil {
			return 0, err
		}
		name, changed, err := client.Add(file, &s)
		if err != nil {
			return screen.Fail(err, ""), nil
		}
		said := "Already in "
		if changed {
			said = "Added to "
		}
		fmt.Fprintf(screen.Out, "%s%s:\n%s\n", said, name, client.Config(&s))
		screen.Advise(client.Next(&s))
		return cli.OK, nil
	})
	return cmd
}
