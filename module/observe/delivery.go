package observe

import (
	"cmp"
	"time"

	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// maxPushHosts is how many hosts of webhooks have log lines of their own within a minute.
const maxPushHosts = 64

// Pushed reports a request with an event of a task to a webhook, or that nothing more is sent to it.
func (o *Observer) Pushed(a *delivery.Attempt) {
	outcome := cmp.Or(a.Outcome, webhook.Failed)
	o.metrics.pushes.WithLabelValues(string(outcome)).Inc()
	message := "a webhook did not take an event"
	switch {
	case a.Problem == "":
		message = "sent an event to a webhook"
	case a.GivenUp:
		message = "gave up a webhook: it took none of several events in a row"
	case a.Lost:
		message = "gave up an event for a webhook"
	}
	if a.Lost || a.GivenUp {
		o.metrics.pushLosses.WithLabelValues("event").Inc()
	}
	if a.GivenUp {
		o.metrics.pushLosses.WithLabelValues("webhook").Inc()
	}
	event := int64(0) // the version of the task that has it
	if a.Entry != nil {
		event = a.Entry.Version
	}
	o.delivered(a, message, outcome, zap.String("task", safetext.Field(a.Delivery.Run.ID, MaxLogged)), zap.String("webhook", safetext.Field(a.Delivery.Receiver, MaxLogged)), zap.Int64("event", event))
}

// Notified reports a request with the end of a run to a URL of its caller, or that nothing more is sent to it.
func (o *Observer) Notified(a *delivery.Attempt) {
	if a.Outcome != "" {
		o.metrics.notifications.WithLabelValues(string(a.Outcome)).Inc()
	}
	message, runID := "a caller's receiver did not take the end of a run", ""
	switch {
	case a.Problem == "":
		message = "told a caller the end of a run"
	case a.GivenUp:
		message = "gave up telling a caller the end of a run"
	}
	if a.GivenUp {
		o.metrics.notificationLosses.Inc()
	}
	if a.Entry != nil {
		runID = a.Entry.Ref.ExecutionID
	}
	o.delivered(a, message, a.Outcome, optional("principal", safetext.Field(a.Delivery.Run.Owner.Principal, MaxLogged)), optional("execution_id", safetext.Field(runID, MaxLogged)),
		zap.String("webhook_id", safetext.Field(a.Delivery.Run.ID, MaxLogged)))
}

// delivered logs a request to a URL of a caller. Callers choose the hosts, so failures are logged once a minute for each host, and for a bounded
// number of hosts.
func (o *Observer) delivered(a *delivery.Attempt, message string, outcome webhook.Outcome, about ...zap.Field) {
	log, dropped, skill := o.logger.Debug, 0, ""
	if a.Problem != "" {
		var due, full bool
		if dropped, due, full = o.pushes.due("", message+"\n"+a.Host, time.Now()); due && !full {
			log = o.logger.Warn
		}
	}
	if a.Entry != nil {
		skill = a.Entry.Skill
	}
	log(message, append(about,
		zap.String("host", safetext.Field(a.Host, MaxLogged)),
		optional("outcome", string(outcome)),
		optional("problem", safetext.Field(a.Problem, MaxLoggedError)),
		zap.Int("status", a.Status),
		optional("skill", safetext.Field(skill, MaxLogged)),
		zap.Int("try", a.Try),
		zap.Duration("duration", a.Duration),
		zap.Duration("retry", a.Retry),
		repeated(dropped))...)
}
