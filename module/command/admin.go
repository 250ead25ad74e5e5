package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json" // like Caddy's admin API
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skill-bridge/caddy-skill-bridge/module/admin"
	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

const adminHelp = `

It uses the admin API of the running Caddy: at --address, or at the address in the configuration file --config, or at localhost:2019.

Exit status: 0 success, 1 wrong usage, no request was sent, 5 Caddy did not answer or refused, or writing the result failed.`

// adminCommand completes a command about a running Caddy. names returns what the argument after args may be; nil: shells offer nothing.
func adminCommand(cmd *cobra.Command, names func(ctx context.Context, api *adminClient, args []string) []string, run func(cmd *cobra.Command, screen *cli.Screen, api *adminClient, args []string) (int, error)) *cobra.Command {
	var address, config, adapter string
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.StringVar(&address, "address", "", "Address of the admin API (default: the one in --config)")
	flags.StringVarP(&config, "config", "c", "", "Configuration file with the address of the admin API")
	flags.StringVarP(&adapter, "adapter", "a", "", "Adapter of the configuration file")
	cmd.Flags().AddFlagSet(flags)
	addJSON(cmd, "Write JSON")
	connect := func() (*adminClient, error) {
		if adapter != "" && config == "" {
			return nil, errors.New("--adapter needs --config")
		}
		// DetermineAdminAPIAddress logs to the default logger, so configure that logger first.
		if _, err := caddy.ProvisionContext(&caddy.Config{Logging: loggingAt(silent, false)}); err != nil {
			return nil, err
		}
		text, err := caddycmd.DetermineAdminAPIAddress(address, nil, config, adapter)
		if err != nil {
			return nil, err
		}
		a, err := caddy.ParseNetworkAddress(text)
		if err != nil || !a.IsUnixNetwork() && !a.IsFdNetwork() && (!strings.HasPrefix(a.Network, "tcp") || a.PortRangeSize() != 1 || a.StartPort == 0) {
			return nil, fmt.Errorf("%q is not the address of an admin API, such as localhost:2019", text)
		}
		if a.IsUnixNetwork() {
			a.Host, _, _ = strings.Cut(a.Host, "|") // without the permissions of the socket
		}
		return &adminClient{a, given(flags), cli.AnswerTimeout}, nil
	}
	cmd.RunE = exits(func(cmd *cobra.Command, screen *cli.Screen, args []string) (int, error) {
		api, err := connect()
		if err != nil {
			return 0, err
		}
		return run(cmd, screen, api, args)
	})
	if names == nil {
		return cmd
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) (fit []string, _ cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		if api, err := connect(); err == nil { // without an answer, there are no names
			fit = slices.DeleteFunc(names(ctx, api, args), func(name string) bool { return !strings.HasPrefix(name, begun) || !cli.IsCompletable(name) })
		}
		return fit, cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// adminClient sends requests to the admin API of a running Caddy.
type adminClient struct {
	address caddy.NetworkAddress
	given   []string // the flags that name it
	timeout time.Duration
}

// command returns the text of another command about the same Caddy.
func (a *adminClient) command(words ...string) string {
	return cli.ShellCommand(slices.Concat([]string{"caddy", "skill-bridge"}, words, a.given)...)
}

// get asks for an answer of the admin API, decodes it, and shows it: as it is with --json, else by a function.
func get[T any](ctx context.Context, screen *cli.Screen, api *adminClient, path string, show func(*cli.Screen, *T)) (int, error) {
	var text jsontext.Value
	if err := api.ask(ctx, http.MethodGet, path, nil, &text); err != nil {
		return 0, err
	}
	answer := new(T)
	if json.Unmarshal(text, answer) != nil {
		return 0, api.notAdmin("its answer is of another version")
	}
	screen.Show(text, func() { show(screen, answer) })
	return cli.OK, nil
}

// adminError is the error of an admin request, and the advice about it. [exits] shows it.
type adminError struct{ message, next string }

func (e *adminError) Error() string { return e.message }

// unanswered is the error of a request without a whole answer. A connection that failed or broke says nothing about who listens there.
func (a *adminClient) unanswered(err error) error {
	next := "check that Caddy is running, and name the address of its admin API with --address or --config; with «admin off» there is none"
	if errors.Is(err, context.DeadlineExceeded) { // also of a connection
		err, next = errors.New("it did not answer in time"), "Caddy may still be at work: look again before you repeat it"
	} else if system, ok := errors.AsType[*os.SyscallError](err); ok {
		err = system.Err
	} else if connection, ok := errors.AsType[*net.OpError](err); ok {
		err = connection.Err
	} else if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the connection ended before the whole answer")
	} else {
		return a.notAdmin("it does not speak HTTP")
	}
	return &adminError{fmt.Sprintf("no admin API answers at %s: %v", a.address, err), next}
}

// ask sends a request and decodes the answer.
func (a *adminClient) ask(ctx context.Context, method, path string, body, answer any) error {
	resp, err := a.send(ctx, method, path, body)
	var text []byte
	if err == nil {
		defer resp.Body.Close()
		text, err = io.ReadAll(resp.Body)
	}
	var refusal struct {
		Error string `json:"error"`
	}
	switch {
	case err != nil:
		return a.unanswered(err)
	case resp.StatusCode == http.StatusOK && json.Unmarshal(text, answer) != nil:
		return a.notAdmin("its answer is not JSON")
	case resp.StatusCode == http.StatusOK:
		return nil
	case json.Unmarshal(text, &refusal) != nil || refusal.Error == "":
		return a.notAdmin(fmt.Sprintf("HTTP %d", resp.StatusCode))
	case resp.StatusCode == http.StatusNotFound:
		return &adminError{refusal.Error, "see which sources and skills there are: " + a.command("status")}
	}
	return &adminError{message: refusal.Error}
}

func (a *adminClient) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	text, err := json.Marshal(body)
	origin := "http://127.0.0.1"
	isTCP := !a.address.IsUnixNetwork() && !a.address.IsFdNetwork()
	if isTCP {
		origin = "http://" + a.address.JoinHostPort(0)
	}
	req, requestErr := http.NewRequestWithContext(ctx, method, origin+path, bytes.NewReader(text))
	if err = cmp.Or(err, requestErr); err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if isTCP {
		req.Header.Set("Origin", origin) // required by enforce_origin
	}
	client := http.Client{Timeout: a.timeout, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, a.address.Network, a.address.JoinHostPort(0))
	}}}
	return client.Do(req)
}

func (a *adminClient) notAdmin(reason string) error {
	return &adminError{
		fmt.Sprintf("the server at %s is not the admin API of a Caddy with skill_bridge (%s)", a.address, reason),
		"name the address of the admin API with --address or --config; it differs from the addresses of sites",
	}
}

func purgeCommand() *cobra.Command {
	var all bool
	cmd := adminCommand(&cobra.Command{
		Use:   "purge --all | <namespace> [<skill-id>]",
		Short: "Removes documents from the cache of the running bridge",
		Long: `Removes the documents of all sources (--all), the documents of one source, or one descriptor from the cache of the running bridge. The next call reads
them again. With --json, writes {"purged"}, or {"error": {"message"}}.` + adminHelp,
		Example: `  caddy skill-bridge purge --all
  caddy skill-bridge purge acme
  caddy skill-bridge purge acme acme/weather`,
		Args: arguments(0, 2),
	}, func(ctx context.Context, api *adminClient, args []string) (names []string) {
		var all admin.Inventory
		_ = api.ask(ctx, http.MethodGet, "/skill_bridge/skills", nil, &all)
		for _, s := range all.Skills {
			switch {
			case len(args) == 0:
				names = append(names, s.Namespace)
			case len(args) == 1 && args[0] == s.Namespace:
				names = append(names, s.ID)
			}
		}
		slices.Sort(names)
		return slices.Compact(names)
	}, func(cmd *cobra.Command, screen *cli.Screen, api *adminClient, args []string) (int, error) {
		if all == (len(args) > 0) {
			return 0, errors.New("name what to remove: a namespace, a namespace and a skill's id, or --all")
		}
		var wanted admin.PurgeRequest
		what := "all documents"
		if len(args) > 0 {
			wanted.Namespace = args[0]
		}
		if len(args) > 1 {
			wanted.SkillID = args[1]
			what = "the descriptor of " + args[1]
		}
		var answer admin.PurgeAnswer
		if err := api.ask(cmd.Context(), http.MethodPost, "/skill_bridge/purge", wanted, &answer); err != nil {
			return 0, err
		}
		screen.Show(answer, func() {
			for _, namespace := range answer.Purged {
				fmt.Fprintf(screen.Out, "%s: %s forgotten\n", namespace, what)
			}
		})
		return cli.OK, nil
	})
	cmd.Flags().BoolVar(&all, "all", false, "The documents of all sources")
	return cmd
}

func approveCommand() *cobra.Command {
	return adminCommand(&cobra.Command{
		Use:   "approve [<skill> [<digest>]]",
		Short: "Shows the changes of skills that the running bridge holds, or approves one",
		Long: `Without a skill, shows the changes that wait for approval, of sources with "on_change hold": what each skill has asked for (-), and what its provider
asks for now (+). With the name or the id of a skill, shows all of its change, and asks at a terminal whether to approve it. Without a terminal, it needs the
digest of the change that you have seen, or at least its first 12 characters, and approves no other. The bridge, and all instances with the same database,
then use the new descriptor. With --json it asks nothing, and writes {"changes", "unreadable", "more"}, or the change of the skill. If the change of a skill
was not approved, the exit status is 5.` + adminHelp,
		Example: `  caddy skill-bridge approve
  caddy skill-bridge approve acme.weather
  caddy skill-bridge approve acme.weather 0c5b1d6e9f3a`,
		Args: arguments(0, 2),
	}, func(ctx context.Context, api *adminClient, args []string) (names []string) {
		var all admin.Changes
		if len(args) == 0 { // a digest shows that the change was read
			_ = api.ask(ctx, http.MethodGet, "/skill_bridge/changes", nil, &all)
		}
		for i := range all.Changes {
			names = append(names, clean(changed(&all.Changes[i])))
		}
		return names
	}, func(cmd *cobra.Command, screen *cli.Screen, api *adminClient, args []string) (int, error) {
		path := "/skill_bridge/changes"
		if len(args) > 0 {
			path += "?skill=" + url.QueryEscape(args[0])
		}
		var all admin.Changes
		if err := api.ask(cmd.Context(), http.MethodGet, path, nil, &all); err != nil {
			return 0, err
		}
		complainOfUnreadable(screen, &all)
		if len(args) == 0 {
			screen.Show(all, func() { showChanges(screen, &all) })
			return cli.OK, nil
		}
		return approve(cmd.Context(), screen, api, all.Changes, args)
	})
}

// approve approves the change of a skill, by its name or id, if the person or the digest after the skill says so.
func approve(ctx context.Context, screen *cli.Screen, api *adminClient, all []admin.Change, args []string) (int, error) {
	found := slices.DeleteFunc(all, func(c admin.Change) bool { return c.Name != args[0] && c.SkillID != args[0] })
	next := "see which do: " + api.command("approve")
	if len(found) == 0 {
		return 0, &adminError{fmt.Sprintf("no change of a skill %q waits for approval", args[0]), next}
	} else if len(found) > 1 {
		return 0, &adminError{fmt.Sprintf("%q is a skill of several sources: write its name", args[0]), next}
	}
	c := &found[0]
	if len(args) == 1 || !isDigest(args[1], c) {
		screen.Show(c, func() { showChange(screen, c) })
		yes, asked := false, false
		if len(args) == 1 {
			yes, asked = screen.Confirm("Approve this change?")
		} else {
			screen.Complain("%q is not the digest of the change that waits, or not 12 characters of it", args[1])
		}
		if !yes && !asked {
			screen.Advise("to approve this change: " + api.command("approve", changed(c), shortDigest(c)))
		}
		if !yes {
			fmt.Fprintln(screen.Err, "not approved")
			return cli.ProtocolError, nil
		}
	}
	var answer admin.Approval
	if err := api.ask(ctx, http.MethodPost, "/skill_bridge/approve", admin.Approval{Namespace: c.Namespace, SkillID: c.SkillID, Digest: c.Digest}, &answer); err != nil {
		return 0, err
	}
	screen.Show(c, func() { fmt.Fprintln(screen.Out, "approved") })
	return cli.OK, nil
}

// changed returns the name of a changed skill for people.
func changed(c *admin.Change) string { return cmp.Or(c.Name, c.SkillID) }

// showChanges writes all changes.
func showChanges(screen *cli.Screen, all *admin.Changes) {
	for i := range all.Changes {
		showChange(screen, &all.Changes[i])
	}
	if len(all.Changes) == 0 {
		fmt.Fprintln(screen.Out, "no change waits for approval")
	}
	if all.More > 0 {
		fmt.Fprintf(screen.Out, "and %d more changes: approve them by the names or ids of their skills\n", all.More)
	}
}

// complainOfUnreadable says which sources' changes can't be read.
func complainOfUnreadable(screen *cli.Screen, all *admin.Changes) {
	for _, u := range all.Unreadable {
		screen.Complain("the changes of %s can't be read: %s", u.Namespace, u.Error)
	}
}

// summarizeChanges writes which skills have changes, if any.
func summarizeChanges(screen *cli.Screen, all *admin.Changes) {
	complainOfUnreadable(screen, all)
	if len(all.Changes) == 0 {
		return
	}
	rows := make([][]string, len(all.Changes))
	for i := range all.Changes {
		c := &all.Changes[i]
		rows[i] = []string{changed(c), c.Since.UTC().Format("2006-01-02 15:04 MST"), strings.Join(c.Changed, ", ")}
	}
	fmt.Fprintln(screen.Out, "\nChanges that wait for approval (caddy skill-bridge approve shows them):")
	screen.Table("  ", 2, []string{"SKILL", "SINCE", "CHANGED"}, rows)
	if all.More > 0 {
		fmt.Fprintf(screen.Out, "  and %d more\n", all.More)
	}
}

// showChange writes a change: what the skill has asked for, and what it asks for now.
func showChange(screen *cli.Screen, c *admin.Change) {
	fmt.Fprintf(screen.Out, "%s (%s of %s), changed %s: %s\n", clean(changed(c)), clean(c.SkillID), clean(c.Namespace), c.Since.UTC().Format("2006-01-02 15:04 MST"), clean(strings.Join(c.Changed, ", ")))
	for _, d := range c.Differences {
		fmt.Fprintf(screen.Out, "  %s\n", clean(d.Path))
		if d.Was != "" {
			fmt.Fprintf(screen.Out, "  - %s\n", clean(d.Was))
		}
		if d.Now != "" {
			fmt.Fprintf(screen.Out, "  + %s\n", clean(d.Now))
		}
	}
	if c.More > 0 {
		fmt.Fprintf(screen.Out, "  %d differences: approve with the name or id of the skill shows them\n", c.More)
		return
	}
	fmt.Fprintf(screen.Out, "  digest %s\n", shortDigest(c))
}

// digestLength is how many characters of a digest name a change.
const digestLength = 12

// shortDigest returns the beginning of a digest with which [isDigest] works.
func shortDigest(c *admin.Change) string { return clean(c.Digest[:min(digestLength, len(c.Digest))]) }

// isDigest reports whether a text is the digest of a change, or a beginning of it that is long enough.
func isDigest(digest string, c *admin.Change) bool {
	return len(digest) >= digestLength && strings.HasPrefix(c.Digest, strings.ToLower(digest))
}

// clean returns a text of a provider without control characters, which could change what a terminal shows.
func clean(text string) string { return safetext.Escape(text, "") }
