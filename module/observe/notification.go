package observe

import (
	"time"

	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// Notification is one request with the end of a run to a URL that its caller has chosen.
type Notification struct {
	// ID is that of the call-back, Caller the principal of the run, and RunID the provider's id of it.
	ID, Caller, Skill, RunID string

	Host     string
	Try      int    // from 1; without an Outcome: the requests before
	Outcome  string // delivered, refused, blocked or failed; empty: nothing was sent
	Status   int    // of HTTP; 0: there was no answer
	Problem  string // empty: it was delivered
	Duration time.Duration
	Retry    time.Duration // until the next request; 0: there is none
	GivenUp  bool
}

// Report reports a request with the end of a run: to the metrics, and to the log. Callers choose the hosts, so failures are logged
// once a minute for each host, and for a bounded number of hosts.
func (n *Notification) Report(o *Observer) {
	if n.Outcome != "" {
		o.metrics.notifications.WithLabelValues(n.Outcome).Inc()
	}
	if n.GivenUp {
		o.metrics.notificationLosses.Inc()
	}
	log := o.logger.Debug
	message, dropped := "told a caller the end of a run", 0
	if n.Problem != "" {
		message = "a caller's receiver did not take the end of a run"
		line := "notify\n" + n.Host
		if n.GivenUp {
			message, line = "gave up telling a caller the end of a run", "not notified\n"+n.Host
		}
		var due bool
		if dropped, due = o.pushes.due(line, time.Now()); due {
			log = o.logger.Warn
		}
	}
	log(message,
		zap.String("host", safetext.Field(n.Host, MaxLogged)),
		optional("outcome", n.Outcome),
		optional("problem", safetext.Field(n.Problem, MaxLoggedError)),
		zap.Int("status", n.Status),
		optional("principal", safetext.Field(n.Caller, MaxLogged)), optional("execution_id", safetext.Field(n.RunID, MaxLogged)),
		optional("skill", safetext.Field(n.Skill, MaxLogged)),
		zap.String("webhook_id", safetext.Field(n.ID, MaxLogged)),
		zap.Int("try", n.Try),
		zap.Duration("duration", n.Duration),
		zap.Duration("retry", n.Retry),
		repeated(dropped))
}
