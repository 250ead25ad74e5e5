package command

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/module/cli/lint"
	"github.com/skill-bridge/caddy-skill-bridge/module/network"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

func validateCommand() *cobra.Command {
	var r providerFlags
	var index, descriptor, strict, descriptors, example bool
	var skill, whole string
	cmd := &cobra.Command{
		Use:   "validate <file-or-url>",
		Short: "Validates an index or a descriptor, and shows each fault",
		Long: `Validates an index with its entries, or a skill's descriptor, by the rules of the bridge, and shows each fault (50 at most) with its JSON Pointer,
what the member is for, an example, the expected and the actual value. "more" says that there may be further faults. - is standard input. For a URL
without a path, it reads the index there. A document with an array "skills" is an index, unless --descriptor is set; so is that of a site with Agent
Skills, which its path, its "$schema", or "type" or "digest" in its entries shows. Of an index at a URL, it also reads and validates the descriptors
or files. Warnings are about what the protocol allows and is most likely a mistake; --strict counts them as faults.

With --json it writes {"valid", "kind", "faults": [{"path", "message", "expected", "actual", "about", "example"}], "warnings", "descriptors": [{"id",
"url", "valid", "faults", "warnings", "error"}]}, without empty "warnings" and "descriptors", or {"error": {"message", …}} if the document could not
be read. A key is sent only to the origin of the URL and to hosts of --trust; to subdomains only if --trust names them (*.example.com).

--run invokes a skill of a provider with --args, follows the run to its end, and checks the answers: a wrong credential is refused, answers are as the
protocol's schema says, states follow one another, the result and the status stay, an unknown run is not found. The skill is executed; also once more
if the provider does not check credentials. With --json it writes {"passed", "checks": [{"check", "result", "what"}]}; "result" is ok, failed or
skipped.

Exit status: 0 valid, 1 not valid, or a check of --run failed, or wrong usage (then standard output is empty), 5 reading the document or writing the
result failed, or the skill of --run can't be invoked, 130 interrupted.`,
		Example: `  caddy skill-bridge validate descriptor.json
  caddy skill-bridge validate --json https://skills.example.com/.well-known/skill-sharing
  caddy skill-bridge validate https://skills.example.com
  caddy skill-bridge validate https://skills.example.com --run demo.summarize --args '{"text": "A long text."}'
  SECRET=... caddy skill-bridge validate https://skills.example.com --run demo.ledger --oauth-client-id me --oauth-secret-env SECRET
  generate-index | caddy skill-bridge validate --index -
  caddy skill-bridge validate --example`,
		Args: func(cmd *cobra.Command, args []string) error {
			if example {
				return arguments(0, 0)(cmd, args)
			}
			if skill != "" && len(args) > 1 {
				return wrongUsage(cmd, errTrialArguments)
			}
			return arguments(1, 1)(cmd, args)
		},
	}
	cmd.RunE = exits(func(cmd *cobra.Command, screen *cli.Screen, args []string) (int, error) {
		timeout, err := timeoutOf(cmd)
		switch {
		case err != nil:
			return 0, err
		case skill != "" && (index || descriptor || strict || example || !isOrigin(args[0])), skill == "" && (whole != "" || timeout != 0):
			return 0, errNoTrial
		case skill != "":
			return r.try(cmd, screen, args[0], skill, whole, timeout)
		case example:
			return screen.Example(), nil
		case index && descriptor:
			return 0, errors.New("--index and --descriptor exclude each other")
		}
		networks, err := network.ParseNetworks(r.networks())
		if err != nil {
			return 0, fmt.Errorf("--allow-networks: %w", err)
		}
		v := cli.Validator{Strict: strict, Allowed: lint.Allowed{HTTP: r.allowHTTP, Networks: networks}}
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		isURL := strings.Contains(args[0], "://")
		switch {
		case descriptor:
			v.Kind = cli.Descriptor
		case index, isURL && isOrigin(args[0]):
			v.Kind = cli.Index
		}
		if !isURL {
			return screen.ValidateFile(ctx, args[0], v), nil
		}
		return r.validateURL(ctx, r.endpoint(cmd, screen, args[0], nil), v, descriptors)
	})
	r.addFlags(cmd, false)
	addJSON(cmd, "Write JSON")
	addTimeout(cmd, "the skill's own timeout, or 5m; for --run")
	cmd.Flags().StringVar(&skill, "run", "", "Run this skill of a provider, and hold its answers to the protocol")
	cmd.Flags().StringVar(&whole, "args", "", "Arguments for --run: a JSON object, @file, or - for standard input")
	cmd.Flags().BoolVar(&index, "index", false, "Validate the document as an index")
	cmd.Flags().BoolVar(&descriptors, "descriptors", true, "Of an index at a URL, validate the descriptors, too")
	cmd.Flags().BoolVar(&example, "example", false, "Write a minimal index and the descriptor that it lists, and validate nothing")
	cmd.Flags().BoolVar(&strict, "strict", false, "Count warnings as faults")
	cmd.Flags().BoolVar(&descriptor, "descriptor", false, "Validate the document as a descriptor")
	return cmd
}

// validateURL validates the document at a URL. about says what to do if it can't be read.
func (r *providerFlags) validateURL(ctx context.Context, about *cli.Endpoint, v cli.Validator, descriptors bool) (int, error) {
	fetch, release, err := r.fetcher(about.URL)
	if err != nil {
		return 0, err
	}
	defer release()
	v.URL = wellKnown(about.URL)
	body, header, err := fetch(ctx, v.URL)
	failure, isFailure := errors.AsType[*run.Failure](err)
	switch {
	case ctx.Err() != nil:
		return about.Screen.Interrupted(), nil
	case isFailure:
		about.Provider.Private = r.private
		return about.Unreadable(failure), nil
	case err != nil:
		return 0, err
	}
	if descriptors {
		v.Fetch = fetch
	}
	return about.Screen.Validate(ctx, body, header, v), nil
}

// isOrigin reports whether a URL has no path. Such a URL stands for the index there.
func isOrigin(from string) bool {
	u, err := url.Parse(from)
	return err == nil && u.Host != "" && (u.Path == "" || u.Path == "/")
}

// wellKnown returns the URL of the index for an origin, else the URL itself.
func wellKnown(from string) string {
	if u, err := url.Parse(from); err == nil && isOrigin(from) {
		u.Path = document.WellKnownPath
		return u.String()
	}
	return from
}

// fetcher returns a function that reads documents as a bridge to the origin of a URL does.
func (r *providerFlags) fetcher(from string) (fetch func(context.Context, string) ([]byte, http.Header, error), release func(), err error) {
	plain := handlerConfig{AllowHTTP: true, Skills: []skillConfig{{Name: "document", URL: from}}}
	if err := plain.check(); err != nil {
		return nil, nil, err
	}
	u, err := url.Parse(from)
	if err != nil {
		return nil, nil, err
	}
	r.private = r.credentials.kind() != "" // the only use of credentials is to read documents
	b, err := r.open((&url.URL{Scheme: u.Scheme, Host: u.Host}).String())
	if err != nil {
		return nil, nil, err
	}
	client := b.Catalog().Sections()[0].Client
	return func(ctx context.Context, from string) ([]byte, http.Header, error) {
		u, err := url.Parse(from)
		if err != nil {
			return nil, nil, err
		}
		response, failure := client.Read(ctx, u)
		if failure != nil {
			return nil, nil, failure
		}
		return response.Body, response.Header, nil
	}, b.release, nil
}
