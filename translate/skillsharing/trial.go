package skillsharing

import (
	"context"
	"net/http"
	"net/url"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Attempts sends single requests about a skill, without retries, and returns the answers as they are, for those who judge the provider.
type Attempts struct {
	Client *Client
	Skill  *discovery.Skill
}

// With returns attempts that send other credentials.
func (a Attempts) With(credentials credential.Credentials) Attempts {
	c := a.Client
	sender := c.Sender
	sender.Credentials, sender.Secrets = credentials, nil
	return Attempts{
		&Client{Reader: discovery.Reader{Sender: sender, Cache: c.Cache}, Anonymous: c.Anonymous, Caller: c.Caller},
		a.Skill,
	}
}

// Invoke sends an invocation.
func (a Attempts) Invoke(ctx context.Context, inv *Invocation) (*exchange.Answer, *run.Failure) {
	if e := a.Skill.Unsupported(); e != nil {
		return nil, e
	}
	u, body, _, err := a.Client.invocation(a.Skill, inv)
	if err != nil {
		return nil, &run.Failure{Kind: run.InvalidArguments, Message: "The inputs can't be sent: " + err.Error(), Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedNo}
	}
	return a.send(ctx, run.PhaseInvoke, a.Skill.Endpoint.Method, u, body)
}

// Follow sends a request to the status or result URL of a run, by the phase.
func (a Attempts) Follow(ctx context.Context, phase run.Phase, executionID string) (*exchange.Answer, *run.Failure) {
	template := a.Skill.Endpoint.StatusURL
	if phase == run.PhaseResult {
		template = a.Skill.Endpoint.ResultURL
	}
	u, err := document.ExpandURL(template, executionID)
	if err != nil {
		return nil, &run.Failure{Kind: run.ProviderFault, Message: "The URL of the run can't be made: " + err.Error(), Phase: phase, By: run.Bridge, Executed: run.ExecutedYes}
	}
	return a.send(ctx, phase, http.MethodGet, u, nil)
}

func (a Attempts) send(ctx context.Context, phase run.Phase, method string, u *url.URL, body []byte) (*exchange.Answer, *run.Failure) {
	c, s := a.Client, a.Skill
	req, failure := c.skillRequest(ctx, s, phase, method, u, body, "")
	if failure != nil {
		return nil, c.finish(s, failure)
	}
	answer, err := c.Send(phase, req)
	if err != nil {
		return nil, c.finish(s, c.Unreachable(err, phase, u, ""))
	}
	return answer, nil
}
