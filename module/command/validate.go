package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/skill-bridge/caddy-skill-bridge/module/bridge"
	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/module/cli/lint"
	"github.com/skill-bridge/caddy-skill-bridge/module/network"
	"github.com/skill-bridge/caddy-skill-bridge/module/sources"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/conformance"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

const validateHelp = `Validates an index with its entries, or a skill's descriptor, by the rules of the bridge, and shows each fault (50 at most) with its JSON Pointer, what
the member is for, an example, the expected and the actual value. "more" says that there may be further faults. - is standard input. For a URL without a path,
it reads the index there. A document with an array "skills" is an index, unless --descriptor is set; so is that of a site with Agent Skills, which its path,
its "$schema", or "type" or "digest" in its entries shows. Of an index at a URL, it also reads and validates the descriptors or files. Warnings are about what
the protocol allows and is most likely a mistake; --strict counts them as faults.

With --json it writes {"valid", "kind", "faults": [{"path", "message", "expected", "actual", "about", "example"}], "warnings", "descriptors": [{"id", "url",
"valid", "faults", "warnings", "error"}]}, without empty "warnings" and "descriptors", or {"error": {"message", …}} if the document could not be read. A key
is sent only to the origin of the URL and to hosts of --trust; to subdomains only if --trust names them (*.example.com).

--run invokes a skill of a provider with --args, follows the run to its end, and checks the answers: a wrong credential is refused, answers are as the
protocol's schema says, states follow one another, the result and the status stay, an unknown run is not found. The skill is executed; also once more if the
provider does not check credentials. With --json it writes {"passed", "checks": [{"check", "result", "what"}]}; "result" is ok, failed or skipped.

Exit status: 0 valid, 1 not valid, or a check of --run failed, or wrong usage (then standard output is empty), 5 reading the document or writing the result
failed, or the skill of --run can't be invoked, 130 interrupted.`

// validateFlags are the flags of the command that validates a document, or tries a skill.
type validateFlags struct {
	providerFlags
	index, descriptor, descriptors, strict, example bool
	skill, args                                     string // of --run and --args
}

func validateCommand() *cobra.Command {
	var f validateFlags
	cmd := &cobra.Command{
		Use:   "validate <file-or-url>",
		Short: "Validates an index or a descriptor, and shows each fault",
		Long:  validateHelp,
		Example: `  caddy skill-bridge validate descriptor.json
  caddy skill-bridge validate --json https://skills.example.com/.well-known/skill-sharing
  caddy skill-bridge validate https://skills.example.com
  caddy skill-bridge validate https://skills.example.com --run demo.summarize --args '{"text": "A long text."}'
  SECRET=... caddy skill-bridge validate https://skills.example.com --run demo.ledger --oauth-client-id me --oauth-secret-env SECRET
  generate-index | caddy skill-bridge validate --index -
  caddy skill-bridge validate --example
  caddy skill-bridge validate --example async`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.example && cli.Examples[strings.Join(args, " ")] == nil:
				return wrongUsage(cmd, errExamples)
			case f.example:
				return nil
			case f.skill != "" && len(args) > 1:
				return wrongUsage(cmd, errTrialArguments)
			}
			return arguments(1, 1)(cmd, args)
		},
		RunE: exits(f.run),
	}
	f.addFlags(cmd, false)
	addJSON(cmd, "Write JSON")
	addTimeout(cmd, "the skill's own timeout, or 5m; for --run")
	flags := cmd.Flags()
	flags.StringVar(&f.skill, "run", "", "Run this skill of a provider, and hold its answers to the protocol")
	flags.StringVar(&f.args, "args", "", "Arguments for --run: a JSON object, @file, or - for standard input")
	flags.BoolVar(&f.index, "index", false, "Validate the document as an index")
	flags.BoolVar(&f.descriptors, "descriptors", true, "Of an index at a URL, validate the descriptors, too")
	flags.BoolVar(&f.example, "example", false, "Write a minimal index and the descriptor that it lists, and validate nothing; with async, api_key or oauth2, those of such a skill")
	flags.BoolVar(&f.strict, "strict", false, "Count warnings as faults")
	flags.BoolVar(&f.descriptor, "descriptor", false, "Validate the document as a descriptor")
	return cmd
}

func (f *validateFlags) run(cmd *cobra.Command, screen *cli.Screen, args []string) (int, error) {
	timeout, err := timeoutOf(cmd)
	switch {
	case err != nil:
		return 0, err
	case f.skill != "" && (f.index || f.descriptor || f.strict || f.example || !isOrigin(args[0])), f.skill == "" && (f.args != "" || timeout != 0):
		return 0, errNoTrial
	case f.skill != "":
		return f.try(cmd, screen, args[0], f.skill, f.args, timeout)
	case f.example:
		return screen.Example(cli.Examples[strings.Join(args, " ")]), nil
	case f.index && f.descriptor:
		return 0, errors.New("--index and --descriptor exclude each other")
	}
	networks, err := network.ParseNetworks(f.networks())
	if err != nil {
		return 0, fmt.Errorf("--allow-networks: %w", err)
	}
	v := cli.Validator{Strict: f.strict, Allowed: lint.Allowed{HTTP: f.allowHTTP, Networks: networks}}
	isURL := strings.Contains(args[0], "://")
	switch {
	case f.descriptor:
		v.Kind = cli.Descriptor
	case f.index, isURL && isOrigin(args[0]):
		v.Kind = cli.Index
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	if !isURL {
		return screen.ValidateFile(ctx, args[0], v), nil
	}
	return f.validateURL(ctx, f.endpoint(cmd, screen, args[0], nil), v)
}

// validateURL validates the document at a URL, which it reads as a bridge to the origin of the URL does. about says what to do if it can't be read.
func (f *validateFlags) validateURL(ctx context.Context, about *cli.Endpoint, v cli.Validator) (int, error) {
	var plain bridge.Handler
	plain.AllowHTTP, plain.Skills = true, []*sources.Skill{{Name: "document", URL: about.URL}}
	if err := plain.Check(); err != nil {
		return 0, err
	}
	u, err := url.Parse(about.URL)
	if err != nil {
		return 0, err
	}
	f.private = f.credentials.kind() != "" // the only use of credentials is to read documents
	b, err := f.open((&url.URL{Scheme: u.Scheme, Host: u.Host}).String())
	if err != nil {
		return 0, err
	}
	defer b.release()
	fetch := func(ctx context.Context, from string) ([]byte, http.Header, error) {
		u, err := url.Parse(from)
		if err != nil {
			return nil, nil, err
		}
		response, failure := b.Catalog().Sections()[0].Client.Read(ctx, u)
		if failure != nil {
			return nil, nil, failure
		}
		return response.Body, response.Header, nil
	}
	if isOrigin(about.URL) {
		u.Path = document.WellKnownPath
	}
	v.URL = u.String()
	body, header, err := fetch(ctx, v.URL)
	if failure, ok := errors.AsType[*run.Failure](err); ok {
		about.Provider.Private = f.private
		return about.Fail(ctx, failure), nil
	}
	if f.descriptors {
		v.Fetch = fetch
	}
	return about.Screen.Validate(ctx, body, header, v), nil
}

// isOrigin reports whether a URL has no path. Such a URL stands for the index there.
func isOrigin(from string) bool {
	u, err := url.Parse(from)
	return err == nil && u.Host != "" && (u.Path == "" || u.Path == "/")
}

// trialTimeout is how long a run may take if neither the descriptor nor --timeout says so.
const trialTimeout = 5 * time.Minute

// try invokes a skill of a provider, holds the provider to the protocol, and returns the exit status. args is the value of --args.
func (r *providerFlags) try(cmd *cobra.Command, screen *cli.Screen, origin, skill, args string, timeout time.Duration) (int, error) {
	inputs := jsontext.Value("{}")
	if args != "" {
		given, err := cli.ReadArguments(args)
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
		Client: found.Invoker.Client, Skill: found.Skill, Inputs: inputs,
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
		screen.Table("", 2, []string{"RESULT", "RULE", "FOUND"}, rows)
	})
	return cli.Verdict(passed)
}

var errNoTrial = errors.New("--run needs the URL of a provider, and excludes --index, --descriptor, --strict and --example; --args and --timeout need --run")

var errExamples = errors.New("--example takes nothing, async, api_key or oauth2")

// errTrialArguments tells who knows the command call how to give arguments.
var errTrialArguments = errors.New(`--run takes arguments only as one JSON object: --args '{"text": "…"}'`)
