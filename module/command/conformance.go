package command

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/conformance"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// trialTimeout is how long a run may take if neither the descriptor nor --timeout says so.
const trialTimeout = 5 * time.Minute

// try invokes a skill of a provider, holds the provider to the protocol, and returns the exit status. args is the value of --args.
func (r *providerFlags) try(cmd *cobra.Command, screen *cli.Screen, origin, skill, args string, timeout time.Duration) (int, error) {
	inputs := jsontext.Value("{}")
	if args != "" {
		given, err := cli.ReadArguments(args, os.Stdin)
		if err != nil {
			return 0, err
		}
		inputs = given.Object()
	}
	b, err := r.open(origin)
	if err != nil {
		return 0, err
	}
	defer b.release()
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	trial, failure := trialOf(ctx, b.Catalog(), skill, inputs, timeout)
	if failure != nil {
		return r.endpoint(cmd, screen, origin, nil).Fail(ctx, failure), nil
	}
	checks := trial.Run(ctx)
	if ctx.Err() != nil {
		return screen.Interrupted(), nil
	}
	return showChecks(screen, checks), nil
}

// trialOf returns the trial of a skill.
func trialOf(ctx context.Context, all *catalog.Catalog, skill string, inputs jsontext.Value, timeout time.Duration) (*conformance.Trial, *run.Failure) {
	listed, failure := all.Resolve(ctx, skill, cli.Principal)
	if failure != nil {
		return nil, failure
	}
	found, failure := all.Read(ctx, listed, "")
	if failure != nil {
		return nil, failure
	}
	if failure = found.Skill.CheckInputs(ctx, "", jsonrpc.Object{Text: inputs}, nil); failure != nil {
		return nil, failure
	}
	if failure, _ = found.Invoker.Client.Rehearse(ctx, found.Skill); failure != nil {
		return nil, failure
	}
	limit := "the default; --timeout sets another time"
	if found.Skill.Endpoint.TimeoutMS != 0 {
		limit = "endpoint.timeout_ms of the descriptor; --timeout sets another time"
	}
	if timeout != 0 {
		limit = "--timeout"
	}
	return &conformance.Trial{
		Attempts: skillsharing.Attempts{Client: found.Invoker.Client, Skill: found.Skill}, Inputs: inputs,
		Timeout: cmp.Or(timeout, document.Milliseconds(found.Skill.Endpoint.TimeoutMS), trialTimeout),
		Limit:   limit,
	}, nil
}

// showChecks writes the checks of a trial, and returns the exit status.
func showChecks(screen *cli.Screen, checks []conformance.Check) int {
	passed := !slices.ContainsFunc(checks, func(c conformance.Check) bool { return c.Result == conformance.Failed })
	screen.Show(struct {
		Passed bool                `json:"passed"`
		Checks []conformance.Check `json:"checks"`
	}{passed, checks}, func() {
		rows := make([][]string, len(checks))
		for i, c := range checks {
			rows[i] = []string{string(c.Result), c.Rule, c.What}
		}
		screen.WholeTable("", 2, []string{"RESULT", "RULE", "FOUND"}, rows)
	})
	return cli.Verdict(passed)
}

var errNoTrial = errors.New("--run needs the URL of a provider, and excludes --index, --descriptor, --strict and --example; --args and --timeout need --run")

// errTrialArguments tells who knows the command call how to give arguments.
var errTrialArguments = errors.New(`--run takes arguments only as one JSON object: --args '{"text": "…"}'`)
