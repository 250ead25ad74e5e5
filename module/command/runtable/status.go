package runtable

import (
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

// Notifications writes how many ends of runs callers were not told yet, and to which hosts most of them go.
func Notifications(s *cli.Screen, n *delivery.Waiting) {
	if n.Waiting == 0 {
		return
	}
	fmt.Fprintf(s.Out, "\nEnds of runs that callers were not told yet (notify): %d\n", n.Waiting)
	var rows [][]string
	for _, r := range n.Receivers[:min(len(n.Receivers), shownReceivers)] {
		next := "now"
		if left := time.Until(r.Next).Round(time.Second); !r.Next.IsZero() && left > 0 {
			next = "in " + left.String()
		}
		rows = append(rows, []string{r.Host, r.Principal, strconv.Itoa(r.Waiting), time.Since(r.Oldest).Round(time.Second).String(), next})
	}
	s.Table("  ", []string{"RECEIVER", "PRINCIPAL", "WAITING", "LONGEST", "NEXT REQUEST"}, rows)
}

// shownReceivers is the maximum number of receivers in a table.
const shownReceivers = 10
