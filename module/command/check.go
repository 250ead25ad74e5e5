package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/module/command/findings"
	"github.com/skill-bridge/caddy-skill-bridge/module/keeping"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/sources"
)

// defaultConfig is the configuration that check reads if none is named.
const defaultConfig = "Caddyfile"

func checkCommand() *cobra.Command {
	var file, adapter string
	var strict, debug bool
	cmd := &cobra.Command{
		Use:   "check [--config <file>]",
		Short: "Checks a configuration with its providers: documents, names and credentials",
		Long: `Checks the bridges of a configuration as they would run, without listening and without calling a skill: each provider, skill and registry is read, with
all descriptors; each skill must have a name; each credential must be permitted to go where its descriptor sends it, and works as far as that is known without
a call: from OAuth endpoints, it gets a token, which it throws away. A refresh token that the endpoint replaces is stored in the database, as a bridge does. A
row is written to the database, and deleted again: run check as the user that Caddy runs as. The schema of the database stays as it is; check says if a start
of this version will change it.

It shows what it found, and what to do about it. A check that failed means that a source or a skill can't be used, or that skill_publish names an operation,
or a document another one, that does not exist. Warnings are about what may be intended, such as skills for which there are no credentials, or other operations
that can't be skills or whose schemas are missing; --strict counts them as failed.

With --json it writes {"passed", "findings": [{"result", "bridge", "source", "skill", "what", "fix", "code", "url"}]}; "result" is ok, warning or failed, and
"bridge" the number of the bridge; 0 is skill_publish.

Exit status: 0 all checks passed, 1 a check failed, the configuration is not valid, or wrong usage (for these, standard output is empty), 5 writing the result
failed, 130 interrupted.`,
		Example: `  caddy skill-bridge check --config /etc/caddy/Caddyfile
  caddy skill-bridge check --strict --json`,
		Args: arguments(0, 0),
	}
	f := cmd.Flags()
	f.StringVarP(&file, "config", "c", "", "Configuration file (default: Caddyfile in the current folder)")
	f.StringVarP(&adapter, "adapter", "a", "", "Adapter of the configuration file")
	f.BoolVar(&strict, "strict", false, "Count warnings as failed")
	f.BoolVar(&debug, "debug", false, "Log everything to standard error")
	addJSON(cmd, "Write JSON")
	cmd.RunE = exits(func(cmd *cobra.Command, screen *cli.Screen, _ []string) (int, error) {
		return check(cmd.Context(), screen, file, adapter, strict, loggingAt(silent, debug))
	})
	return cmd
}

// check checks a configuration, shows what it has found, and returns the exit status.
func check(ctx context.Context, screen *cli.Screen, file, adapter string, strict bool, logging *caddy.Logging) (int, error) {
	ctx, stop := interruptible(ctx)
	defer stop()
	sources.LeaveDescriptors()
	defer keeping.CheckOnly()()
	if err := provision(file, adapter, logging); err != nil {
		_ = screen.Fail(err, "") // it says what to do
		return cli.Invalid, nil
	}
	bridges := observe.Numbered()
	publishers, published := findings.OfPublishers(ctx)
	if len(bridges)+publishers == 0 {
		return 0, errors.New("the configuration has no " + handlerName + ", and no skill_publish")
	}
	all := append(findings.OfAll(ctx, bridges), published...)
	if ctx.Err() != nil {
		return screen.Interrupted(), nil
	}
	passed := findings.Passed(all, strict)
	screen.Show(struct {
		Passed   bool               `json:"passed"`
		Findings []findings.Finding `json:"findings"`
	}{passed, all}, func() { showFindings(screen, all, len(bridges) > 1) })
	return cli.Verdict(passed), nil
}

// provision provisions the configuration in a file, without starting it. The bridges in it are then live. What they hold is released when
// the process ends.
func provision(file, adapter string, logging *caddy.Logging) error {
	if _, err := caddy.ProvisionContext(&caddy.Config{Logging: logging}); err != nil { // reading a configuration logs, too
		return err
	}
	if file == "" {
		if _, err := os.Stat(defaultConfig); err != nil {
			return errors.New("there is no Caddyfile in the current folder: name a configuration with --config")
		}
		file = defaultConfig
	}
	text, _, _, err := caddycmd.LoadConfig(file, adapter)
	if err != nil {
		return err
	}
	config := new(caddy.Config)
	if err := caddy.StrictUnmarshalJSON(caddy.RemoveMetaFields(text), config); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	config.Logging = logging // not that of the configuration, which a running Caddy may write
	if _, err := caddy.ProvisionContext(config); err != nil {
		for _, name := range []string{handlerName, "skill_publish"} {
			if _, fault, ok := strings.Cut(err.Error(), "provision http.handlers."+name+": "); ok {
				return fmt.Errorf("%s: %s: %s", file, name, wayToModule.ReplaceAllString(fault, ""))
			}
		}
		return fmt.Errorf("%s: %w", file, err)
	}
	observe.Quiet() // until the process ends
	return nil
}

// wayToModule is how Caddy comes to a module, which operators do not know.
var wayToModule = regexp.MustCompile(`(loading module '[^']*': )?provision [a-z0-9_.]+: `)

// showFindings writes a table of findings. With several bridges, it has their numbers.
func showFindings(screen *cli.Screen, all []findings.Finding, several bool) {
	rows := make([][]string, len(all))
	for i, f := range all {
		where := cmp.Or(f.Skill, f.Source)
		if several {
			where = strconv.Itoa(f.Bridge) + " " + where
		}
		rows[i] = []string{string(f.Result), where, f.What, f.Fix}
	}
	screen.Table("", 2, []string{"RESULT", "WHERE", "WHAT", "HOW TO FIX"}, rows)
}
