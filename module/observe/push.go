package observe

import (
	"time"

	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// Push is one request with an event of a task to a webhook, which a client has set.
type Push struct {
	Task, Skill, Webhook string // their ids, and the skill's name
	Host                 string
	Event                uint64 // the number of the version of the task that has it
	Try                  int    // from 1
	Outcome              string // delivered, refused, blocked or failed
	Status               int    // of HTTP; 0: there was no answer
	Problem              string // empty: it was delivered
	Duration             time.Duration
	Retry                time.Duration // until the next request for the event; 0: there is none
	Lost                 bool          // the event was given up
	GivenUp              bool          // the webhook was given up
}

// maxPushHosts is how many hosts of webhooks have log lines of their own within a minute.
const maxPushHosts = 64

// Pushed reports a request to a webhook: to the metrics, and to the log. Clients choose the hosts, so failures are logged once a minute
// for each host, and for a bounded number of hosts.
func (o *Observer) Pushed(p *Push) {
	o.metrics.pushes.WithLabelValues(p.Outcome).Inc()
	if p.Lost {
		o.metrics.pushLosses.WithLabelValues("event").Inc()
	}
	if p.GivenUp {
		o.metrics.pushLosses.WithLabelValues("webhook").Inc()
	}
	log := o.logger.Debug
	message, dropped := "sent an event to a webhook", 0
	if p.Problem != "" {
		message = "a webhook did not take an event"
		line := p.Host
		switch {
		case p.GivenUp:
			message, line = "gave up a webhook: it took none of several events in a row", "given up\n"+p.Host
		case p.Lost:
			message, line = "gave up an event for a webhook", "lost\n"+p.Host
		}
		var due bool
		if dropped, due = o.pushes.due(line, time.Now()); due {
			log = o.logger.Warn
		}
	}
	log(message,
		zap.String("host", safetext.Field(p.Host, MaxLogged)),
		zap.String("outcome", p.Outcome),
		optional("problem", safetext.Field(p.Problem, MaxLoggedError)),
		zap.Int("status", p.Status),
		zap.String("task", safetext.Field(p.Task, MaxLogged)),
		optional("skill", safetext.Field(p.Skill, MaxLogged)),
		zap.String("webhook", safetext.Field(p.Webhook, MaxLogged)),
		zap.Uint64("event", p.Event),
		zap.Int("try", p.Try),
		zap.Duration("duration", p.Duration),
		zap.Duration("retry", p.Retry),
		repeated(dropped))
}
