package skillbridge

import (
	"bytes"
	"encoding/json" // Caddy's admin API is made with it
	"errors"
	"fmt"
	"net/http"
	"os"
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

Exit status: 0 done, 1 wrong usage, nobody was asked, 5 Caddy did not answer or
refused.`

// adminFlags say where the admin API is.
type adminFlags struct{ address, config, adapter string }

func (f *adminFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.address, "address", "", "Address of the admin API, if it is not the one of the configuration")
	cmd.Flags().StringVarP(&f.config, "config", "c", "", "Configuration file that names the address")
	cmd.Flags().StringVarP(&f.adapter, "adapter", "a", "", "Adapter of the configuration file")
}

// api finds out where the admin API is. An error is one of usage.
func (f *adminFlags) api() (adminAddress, error) {
	if f.adapter != "" && f.config == "" {
		return "", errors.New("--adapter is about the file that --config names, which is missing")
	}
	address, err := caddycmd.DetermineAdminAPIAddress(f.address, nil, f.config, f.adapter)
	if err != nil {
		return "", err
	}
	a, err := caddy.ParseNetworkAddress(address)
	if err != nil || !a.IsUnixNetwork() && !a.IsFdNetwork() && (a.PortRangeSize() != 1 || a.StartPort == 0) {
		return "", fmt.Errorf("%q is not the address of an admin API, such as localhost:2019", address)
	}
	return adminAddress(address), nil
}

// adminAddress is that of a running Caddy, by its address.
type adminAddress string

// ask sends a request.
func (a adminAddress) ask(method, path string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	resp, err := caddycmd.AdminAPIRequest(string(a), method, path, http.Header{"Content-Type": {"application/json"}}, bytes.NewReader(text))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(answer)
}

// complain tells why there is no answer, and what to do about it.
func complain(s *cli.Screen, err error) int {
	s.Complain("%v", err)
	if strings.Contains(err.Error(), "HTTP 404") {
		s.Advise("see which bridges and sources there are: caddy skill-bridge status, with the same flags")
	} else {
		s.Advise("is Caddy running, and its admin API there? --address or --config says where; with «admin off» there is none")
	}
	return cli.ProtocolError
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
		Long: "Shows each provider with its health and circuit breakers, the skills that have a\nfault, and the calls in progress. With --json, shows all that the admin API knows:\n{\"providers\", \"skills\", \"unavailable\", \"runs\"}.\n" +
			adminHelp,
		Example: `  caddy skill-bridge status
  caddy skill-bridge status --address localhost:2020 --json
  caddy skill-bridge status --config /etc/caddy/Caddyfile`,
		Args: arguments(0, 0),
		RunE: exits(func(*cobra.Command, []string) (int, error) {
			api, err := f.api()
			if err != nil {
				return 0, err
			}
			return showStatus(api, asJSON), nil
		}),
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write JSON")
	return cmd
}

func showStatus(api adminAddress, asJSON bool) int {
	screen := cli.NewScreen(os.Stdout, os.Stderr)
	var all statusOf
	for _, part := range []struct {
		path string
		to   any
	}{{"/skill_bridge/providers", &all.Providers}, {"/skill_bridge/skills", &all.SkillsStatus}, {"/skill_bridge/runs", &all.Runs}} {
		if err := api.ask(http.MethodGet, part.path, nil, part.to); err != nil {
			return complain(screen, err)
		}
	}
	if asJSON {
		screen.JSON(all)
		return cli.OK
	}
	all.show(screen)
	return cli.OK
}

func (all *statusOf) show(s *cli.Screen) {
	rows := make([][]string, len(all.Providers))
	counts := map[string][2]int{} // skills and faults, by namespace
	for _, skill := range all.Skills {
		n := counts[skill.Namespace]
		n[0]++
		if skill.Fault != nil {
			n[1]++
		}
		counts[skill.Namespace] = n
	}
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
		n := counts[p.Namespace]
		rows[i] = []string{p.Namespace, p.Kind, p.Health, strconv.Itoa(n[0]), strconv.Itoa(n[1]), strconv.FormatInt(p.CallsInProgress, 10), strconv.Itoa(open), trouble}
	}
	s.Table("", []string{"SOURCE", "KIND", "HEALTH", "SKILLS", "FAULTY", "CALLS", "OPEN BREAKERS", "LAST TROUBLE"}, rows)
	all.showFaults(s)
	if all.Runs.Total == 0 {
		return
	}
	rows = make([][]string, len(all.Runs.Runs))
	for i, r := range all.Runs.Runs {
		rows[i] = []string{r.Name, time.Since(r.Arrived).Round(time.Millisecond).String(), r.ExecutionID, r.Principal}
	}
	fmt.Fprintf(s.Out, "\n%d calls in progress:\n", all.Runs.Total)
	s.Table("  ", []string{"SKILL", "SINCE", "RUN", "PRINCIPAL"}, rows)
}

func (all *statusOf) showFaults(s *cli.Screen) {
	var rows [][]string
	for _, u := range all.Unavailable {
		rows = append(rows, []string{u.Namespace, u.Fault.Code, u.Fault.Message})
	}
	for _, skill := range all.Skills {
		if skill.Fault != nil {
			rows = append(rows, []string{skill.Name, skill.Fault.Code, skill.Fault.Message})
		}
	}
	if len(rows) > 0 {
		fmt.Fprintln(s.Out, "\nWhat can't be used:")
		s.Table("  ", []string{"NAME", "CODE", "MESSAGE"}, rows)
	}
}

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
		RunE: exits(func(_ *cobra.Command, args []string) (int, error) {
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
			return purge(api, wanted), nil
		}),
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "The documents of all sources")
	return cmd
}

func purge(api adminAddress, wanted PurgeRequest) int {
	screen := cli.NewScreen(os.Stdout, os.Stderr)
	var answer PurgeAnswer
	if err := api.ask(http.MethodPost, "/skill_bridge/purge", wanted, &answer); err != nil {
		return complain(screen, err)
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
