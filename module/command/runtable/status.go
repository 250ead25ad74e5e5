package runtable

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/admin"
	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
)

// Stores writes which databases there are, and what is wrong with them.
func Stores(s *cli.Screen, stores []admin.Store) {
	for _, d := range stores {
		fmt.Fprintf(s.Out, "\nDatabase (store): %s: %s\n", d.Place, d.State)
		if d.Error != "" {
			fmt.Fprintf(s.Out, "  %s\n  %s\n", d.Error, d.Advice)
		}
	}
}

// Notifications writes how many webhooks of callers wait for events, and at which hosts most of them are.
func Notifications(s *cli.Screen, n *delivery.Waiting) {
	if n.Waiting == 0 {
		return
	}
	fmt.Fprintf(s.Out, "\nWebhooks of callers with events that were not delivered yet: %d\n", n.Waiting)
	var rows [][]string
	for _, r := range n.Receivers[:min(len(n.Receivers), shownReceivers)] {
		rows = append(rows, []string{r.Host, cmp.Or(r.Principal, anonymous), strconv.Itoa(r.Waiting), ago(r.Oldest), nextRequest(r.Oldest, r.Next)})
	}
	s.Table("  ", []string{"RECEIVER", "PRINCIPAL", "WAITING", "LONGEST", "NEXT REQUEST"}, rows)
}

// nextRequest says when the next request is made, for an event that waits since a time; zero: none does.
func nextRequest(since, next time.Time) string {
	if since.IsZero() {
		return ""
	}
	if left := time.Until(next).Round(time.Second); left > 0 {
		return "in " + left.String()
	}
	return "now"
}

// shownReceivers is the maximum number of receivers in a table.
const shownReceivers = 10
