package command

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skill-bridge/caddy-skill-bridge/module/admin"
	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
)

func grantsCommand() *cobra.Command {
	var principal string
	var revoke bool
	cmd := adminCommand(&cobra.Command{
		Use:   "grants [--principal <principal> [--revoke]]",
		Short: "Shows the accounts that users have connected to the running bridge, or ends those of one",
		Long: `Lists the accounts that users have connected at providers with "credentials oauth2_user": whose they are, what they have consented to, and since when; no
tokens. With --revoke, ends all of a principal: their tokens are revoked at the authorization servers and deleted. The principal's next call is answered with
the link where to connect an account. An account that can't be decrypted was stored with another seal_key: its user has to connect again. With --json, writes what the admin API returns: {"connected", "grants", "unread"}, with --revoke those that have ended,
or {"error": {"message"}}.` + adminHelp,
		Example: `  caddy skill-bridge grants
  caddy skill-bridge grants --principal alice --json
  caddy skill-bridge grants --principal alice --revoke`,
		Args: arguments(0, 0),
	}, nil, func(cmd *cobra.Command, screen *cli.Screen, api *adminClient, _ []string) (int, error) {
		if revoke && principal == "" {
			return 0, errors.New("--revoke needs --principal: it ends the accounts of one user")
		}
		method, path, body := http.MethodPost, "/skill_bridge/revoke", any(admin.RevokeRequest{Principal: principal})
		if !revoke {
			method, path, body = http.MethodGet, "/skill_bridge/grants?principal="+url.QueryEscape(principal), nil
		}
		var answer admin.Grants
		if err := api.ask(cmd.Context(), method, path, body, &answer); err != nil {
			return 0, err
		}
		if !revoke {
			screen.Show(answer, func() { showGrants(screen, &answer) })
			return statusOf(answer.Unread), nil
		}
		screen.Show(answer, func() {
			for _, g := range answer.Grants {
				how := map[bool]string{true: "; its tokens can't be decrypted, so that they were deleted, but not revoked"}[g.Unreadable]
				fmt.Fprintf(screen.Out, "%s: the account of %s is no longer connected%s\n", clean(cmp.Or(g.Namespace, "?")), clean(g.Owner), how)
			}
			if len(answer.Grants) == 0 {
				fmt.Fprintln(screen.Out, "this principal has connected no account")
			}
		})
		return cli.OK, nil
	})
	cmd.Flags().StringVar(&principal, "principal", "", "Only this principal")
	cmd.Flags().BoolVar(&revoke, "revoke", false, "End them")
	return cmd
}

func showGrants(s *cli.Screen, all *admin.Grants) {
	rows := make([][]string, len(all.Grants))
	for i, g := range all.Grants {
		since, ends := ago(g.Consented)+" ago", ""
		switch {
		case g.Unreadable:
			since, ends = "?", "can't be decrypted"
		case !g.Renewable:
			ends = "with its token"
		}
		rows[i] = []string{cmp.Or(g.Owner, "?"), cmp.Or(g.Namespace, "?"), since, g.Used.UTC().Format("2006-01-02"), ends, strings.Join(g.Scopes, " ")}
	}
	s.Table("", 5, []string{"PRINCIPAL", "SOURCE", "CONNECTED", "LAST USED", "ENDS", "SCOPES"}, rows)
	summarizeGrants(s, all)
}

// summarizeGrants writes how many accounts are connected, if users can connect any.
func summarizeGrants(s *cli.Screen, all *admin.Grants) {
	counts := make([]string, 0, len(all.Connected))
	for _, namespace := range slices.Sorted(maps.Keys(all.Connected)) {
		counts = append(counts, fmt.Sprintf("%d at %s", all.Connected[namespace], namespace))
	}
	if len(counts) > 0 {
		fmt.Fprintln(s.Out, "\nAccounts that users have connected: "+strings.Join(counts, ", "))
	}
	for _, u := range all.Unread {
		fmt.Fprintf(s.Out, "\nAccounts that users have connected: not known of %s: %s\n", u.Place, u.Error)
	}
}
