package skillbridge

import (
	"bytes"
	"encoding/json" // Caddy's admin API is made with it
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
)

const adminHelp = `
It asks the admin API of the running Caddy, at --address, or at the address that
the configuration file --config names, or at localhost:2019.

Exit status: 0 done, 1 wrong usage, no request was made, 5 Caddy did not answer or
refused, or the result could not be written.`

// adminFlags say where the admin API is.
type adminFlags struct{ address, config, adapter string }

func (f *adminFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.address, "address", "", "Address of the admin API, if it is not the one of the configuration")
	cmd.Flags().StringVarP(&f.config, "config", "c", "", "Configuration file that names the address")
	cmd.Flags().StringVarP(&f.adapter, "adapter", "a", "", "Adapter of the configuration file")
}

// api finds out where the admin API is. An error is one of usage.
func (f *adminFlags) api() (*adminClient, error) {
	if f.adapter != "" && f.config == "" {
		return nil, errors.New("--adapter is about the file that --config names, which is missing")
	}
	// Reading a configuration is logged, which is no news for who has named it.
	if _, err := caddy.ProvisionContext(&caddy.Config{Logging: new(reach).logging()}); err != nil {
		return nil, err
	}
	address, err := caddycmd.DetermineAdminAPIAddress(f.address, nil, f.config, f.adapter)
	if err != nil {
		return nil, err
	}
	a, err := caddy.ParseNetworkAddress(address)
	if err != nil || !a.IsUnixNetwork() && !a.IsFdNetwork() && (a.PortRangeSize() != 1 || a.StartPort == 0) {
		return nil, fmt.Errorf("%q is not the address of an admin API, such as localhost:2019", address)
	}
	words := []string{"caddy", "skill-bridge", "status"}
	for _, flag := range [][2]string{{"--address", f.address}, {"--config", f.config}, {"--adapter", f.adapter}} {
		if flag[1] != "" {
			words = append(words, flag[:]...)
		}
	}
	return &adminClient{address, cli.ShellCommand(words...)}, nil
}

// adminClient asks a running Caddy.
type adminClient struct {
	address string
	status  string // the command that shows its sources
}

// adminError is why there is no answer, and what to do about it.
type adminError struct{ message, next string }

func (e *adminError) Error() string { return e.message }

// ask sends a request.
func (a *adminClient) ask(method, path string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	resp, err := caddycmd.AdminAPIRequest(a.address, method, path, http.Header{"Content-Type": {"application/json"}}, bytes.NewReader(text))
	if err != nil {
		return a.explain(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(answer); err != nil {
		return a.notAdmin("what it answers is not JSON")
	}
	return nil
}

// refusedRequest is how [caddycmd.AdminAPIRequest] tells of an HTTP status: all that
// it returns is text.
var refusedRequest = regexp.MustCompile(`(?s)^caddy responded with error: (HTTP (\d+)): (.*)$`)

// explain says what an error of [caddycmd.AdminAPIRequest] means.
func (a *adminClient) explain(err error) *adminError {
	text := err.Error()
	if refused := refusedRequest.FindStringSubmatch(text); refused != nil {
		var said struct {
			Error string `json:"error"`
		}
		if json.Unmarshal([]byte(refused[3]), &said) != nil || said.Error == "" {
			return a.notAdmin(refused[1])
		}
		e := &adminError{message: said.Error}
		if refused[2] == "404" {
			e.next = "see which sources and skills there are: " + a.status
		}
		return e
	}
	if strings.HasSuffix(text, "EOF") || strings.Contains(text, "malformed HTTP") || strings.Contains(text, "connection reset") {
		return a.notAdmin("it does not speak HTTP")
	}
	reason := text[strings.LastIndex(text, ": ")+1:]
	return &adminError{
		fmt.Sprintf("no admin API answers at %s:%s", a.address, reason),
		"is Caddy running, and its admin API there? --address or --config says where; with «admin off» there is none",
	}
}

func (a *adminClient) notAdmin(reason string) *adminError {
	return &adminError{
		fmt.Sprintf("what listens on %s is not the admin API of a Caddy that has skill_bridge (%s)", a.address, reason),
		"say with --address or --config where the admin API is; a site has another port",
	}
}

// complain says why there is no answer, and what to do about it.
func complain(s *cli.Screen, err error, asJSON bool) int {
	next := ""
	if e, ok := errors.AsType[*adminError](err); ok {
		next = e.next
	}
	return s.Unread(err, next, asJSON)
}

// statusOf is all that the admin API shows.
type statusOf struct {
	Providers []ProviderStatus `json:"providers"`
	SkillsStatus
	Runs RunsStatus `json:"runs"`
}

func statusCommand() *cobra.Command {
	var f adminFlags
	var asJSON bool
	cmd := &cobra.Command{
		ValidArgsFunction: cobra.NoFileCompletions,
		Use:               "status",
		Short:             "Shows the providers, skills and calls in progress of the running bridge",
		Long: "Shows each provider with its health and circuit breakers, how many of its skills have\nbeen read, those that have a fault, and the calls in progress. Skills that were not\nread yet may have faults, too: it reads none. Where there are several\nbridges (handlers, those of an earlier configuration included while they have calls),\neach has a number. With --json, shows all that the admin API knows:\n{\"providers\", \"skills\", \"unavailable\", \"left_out\",\n\"missing_aliases\", \"runs\"}, or {\"error\": {\"message\"}} where Caddy did not answer.\n" +
			adminHelp,
		Example: `  caddy skill-bridge status
  caddy skill-bridge status --address localhost:2020 --json
  caddy skill-bridge status --config /etc/caddy/Caddyfile`,
		Args: arguments(0, 0),
		RunE: exits(func(_ *cobra.Command, screen *cli.Screen, _ []string) (int, error) {
			api, err := f.api()
			if err != nil {
				return 0, err
			}
			return showStatus(screen, api, asJSON), nil
		}),
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write JSON")
	return cmd
}

func showStatus(screen *cli.Screen, api *adminClient, asJSON bool) int {
	var all statusOf
	for _, part := range []struct {
		path string
		to   any
	}{{"/skill_bridge/skills", &all.SkillsStatus}, {"/skill_bridge/providers", &all.Providers}, {"/skill_bridge/runs", &all.Runs}} {
		if err := api.ask(http.MethodGet, part.path, nil, part.to); err != nil {
			return complain(screen, err, asJSON)
		}
	}
	if asJSON {
		screen.JSON(all)
		return cli.OK
	}
	all.show(screen)
	return cli.OK
}

// byBridge writes a table whose rows begin with the number of a bridge, which is left
// out where there is only one.
func (all *statusOf) byBridge(s *cli.Screen, indent string, header []string, rows [][]string) {
	header = append([]string{"BRIDGE"}, header...)
	if !all.several() {
		header = header[1:]
		for i := range rows {
			rows[i] = rows[i][1:]
		}
	}
	s.Table(indent, header, rows)
}

// several reports whether there are several bridges.
func (all *statusOf) several() bool {
	return slices.ContainsFunc(all.Providers, func(p ProviderStatus) bool { return p.Bridge != all.Providers[0].Bridge })
}

func (all *statusOf) show(s *cli.Screen) {
	rows := make([][]string, len(all.Providers))
	counts := all.counts()
	for i, p := range all.Providers {
		trouble := ""
		if t := p.LastTrouble; t != nil {
			trouble = fmt.Sprintf("%s ago, %s: ", time.Since(t.At).Round(time.Second), t.Phase)
			if t.Error != "" {
				trouble += t.Error
			} else {
				trouble += "HTTP " + strconv.Itoa(t.HTTPStatus)
			}
		}
		open := 0
		for _, b := range p.CircuitBreakers {
			if b.State == "open" {
				open++
			}
		}
		n, health, faulty := counts[sourceOf{p.Bridge, p.Namespace}], p.Health, "-" // nothing is known
		if health == "unknown" {
			health = "not asked yet"
		}
		if n.read > 0 {
			faulty = strconv.Itoa(n.faulty)
		}
		rows[i] = []string{
			strconv.Itoa(p.Bridge), p.Namespace, p.Kind, health, strconv.Itoa(n.skills), strconv.Itoa(n.read), faulty,
			strconv.FormatInt(p.CallsInProgress, 10), strconv.Itoa(open), trouble,
		}
	}
	all.byBridge(s, "", []string{"SOURCE", "KIND", "HEALTH", "SKILLS", "READ", "FAULTY", "CALLS", "OPEN BREAKERS", "LAST TROUBLE"}, rows)
	all.showUnread(s, counts)
	all.showFaults(s)
	if all.Runs.Total == 0 {
		return
	}
	rows = make([][]string, len(all.Runs.Runs))
	for i, r := range all.Runs.Runs {
		rows[i] = []string{strconv.Itoa(r.Bridge), r.Name, time.Since(r.Arrived).Round(time.Millisecond).String(), r.ExecutionID, r.Principal}
	}
	fmt.Fprintf(s.Out, "\n%d calls in progress:\n", all.Runs.Total)
	all.byBridge(s, "  ", []string{"SKILL", "SINCE", "RUN", "PRINCIPAL"}, rows)
}

// sourceOf names a source: several bridges may have the same one.
type sourceOf struct {
	bridge    int
	namespace string
}

// skillCounts says how many skills a source has, of how many the descriptor was
// read, and how many of these can't be used.
type skillCounts struct{ skills, read, faulty int }

func (all *statusOf) counts() map[sourceOf]skillCounts {
	counts := map[sourceOf]skillCounts{}
	for _, skill := range all.Skills {
		source := sourceOf{skill.Bridge, skill.Namespace}
		n := counts[source]
		n.skills++
		if skill.Descriptor != "not_cached" || skill.Fault != nil {
			n.read++
		}
		if skill.Fault != nil {
			n.faulty++
		}
		counts[source] = n
	}
	return counts
}

// showUnread says how many skills were not read yet, since no call needed them: that no
// fault is known of them does not mean that they have none.
func (all *statusOf) showUnread(s *cli.Screen, counts map[sourceOf]skillCounts) {
	unread := map[int]int{}
	for source, n := range counts {
		unread[source.bridge] += n.skills - n.read
	}
	var told []string
	for _, bridge := range slices.Sorted(maps.Keys(unread)) {
		switch n := unread[bridge]; {
		case n == 0:
		case all.several():
			told = append(told, fmt.Sprintf("%d of bridge %d", n, bridge))
		default:
			told = append(told, strconv.Itoa(n))
		}
	}
	if len(told) == 0 {
		return
	}
	fmt.Fprintf(s.Out, "\nSkills that were not read yet, so that nothing is known of their faults: %s. The bridge reads one for a call,\n"+
		"or for the page (browse). To read one without the bridge: caddy skill-bridge describe <provider-url> <skill>\n", strings.Join(told, ", "))
}

func (all *statusOf) showFaults(s *cli.Screen) {
	var rows [][]string
	for _, u := range all.Unavailable {
		rows = append(rows, []string{strconv.Itoa(u.Bridge), u.Namespace, u.Fault.Code, u.Fault.Message})
	}
	for _, skill := range all.Skills {
		if skill.Fault != nil {
			rows = append(rows, []string{strconv.Itoa(skill.Bridge), skill.Name, skill.Fault.Code, skill.Fault.Message})
		}
	}
	if len(rows) > 0 {
		fmt.Fprintln(s.Out, "\nWhat can't be used:")
		all.byBridge(s, "  ", []string{"NAME", "CODE", "MESSAGE"}, rows)
	}
	for _, l := range all.LeftOut {
		of := l.Namespace
		if all.several() {
			of += fmt.Sprintf(" (bridge %d)", l.Bridge)
		}
		fmt.Fprintf(s.Out, "\nSkills of %s that are left out: %d\n", of, l.Count)
		var rows [][]string
		for _, entry := range l.Entries[:min(len(l.Entries), shownLeftOut)] {
			rows = append(rows, []string{entry.ID, entry.Path, entry.Message})
		}
		s.Table("  ", []string{"ID", "AT", "MESSAGE"}, rows)
		if more := l.Count - len(rows); more > 0 {
			fmt.Fprintf(s.Out, "  and %d more; --json shows up to 100\n", more)
		}
	}
	if len(all.MissingAliases) == 0 {
		return
	}
	fmt.Fprintln(s.Out, "\nAliases for skills that are not listed:")
	rows = nil
	for _, a := range all.MissingAliases {
		rows = append(rows, []string{strconv.Itoa(a.Bridge), a.Namespace, a.Alias, a.SkillID, strings.Join(a.Near, ", ")})
	}
	all.byBridge(s, "  ", []string{"SOURCE", "ALIAS", "SKILL ID", "PERHAPS"}, rows)
}

// shownLeftOut is how many entries of one registry a person is shown.
const shownLeftOut = 20

func purgeCommand() *cobra.Command {
	var f adminFlags
	var all bool
	cmd := &cobra.Command{
		ValidArgsFunction: cobra.NoFileCompletions,
		Use:               "purge --all | <namespace> [<skill-id>]",
		Short:             "Makes the running bridge forget documents",
		Long: "Makes the running bridge forget the documents of all sources (--all), those of one,\nor one descriptor, so that the next call reads them anew.\n" +
			adminHelp,
		Example: `  caddy skill-bridge purge --all
  caddy skill-bridge purge acme
  caddy skill-bridge purge acme acme/weather`,
		Args: arguments(0, 2),
		RunE: exits(func(_ *cobra.Command, screen *cli.Screen, args []string) (int, error) {
			if all == (len(args) > 0) {
				return 0, errors.New("say what is to be forgotten: a namespace, a namespace and a skill's id, or --all")
			}
			var wanted PurgeRequest
			if len(args) > 0 {
				wanted.Namespace = args[0]
			}
			if len(args) > 1 {
				wanted.SkillID = args[1]
			}
			api, err := f.api()
			if err != nil {
				return 0, err
			}
			return purge(screen, api, wanted), nil
		}),
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "The documents of all sources")
	return cmd
}

func purge(screen *cli.Screen, api *adminClient, wanted PurgeRequest) int {
	var answer PurgeAnswer
	if err := api.ask(http.MethodPost, "/skill_bridge/purge", wanted, &answer); err != nil {
		return complain(screen, err, false)
	}
	what := "all documents"
	if wanted.SkillID != "" {
		what = "the descriptor of " + wanted.SkillID
	}
	for _, namespace := range answer.Purged {
		fmt.Fprintf(screen.Out, "%s: %s forgotten\n", namespace, what)
	}
	return cli.OK
}
