package fronts

import "github.com/skill-bridge/caddy-skill-bridge/translate/callbacks"

// WaitingNotifications returns the ends of runs in this process that callers were not told yet.
func WaitingNotifications() *callbacks.Waiting {
	all := &callbacks.Waiting{Receivers: []callbacks.Receiver{}}
	for runs := range keptRunsPool.All() {
		all.Add(runs.deliverer.Waiting())
	}
	return all
}
