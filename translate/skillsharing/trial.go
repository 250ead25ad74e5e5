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

// WithCredentials returns a client that sends other credentials.
func (c *Client) WithCredentials(credentials credential.Credentials) *Client {
	sender := c.Sender
	sender.Credentials, sender.Secrets = credentials, nil
	return &Client{Reader: discovery.Reader{Sender: sender, Cache: c.Cache}, Anonymous: c.Anonymous, Caller: c.Caller}
}

// Try sends a single request about a skill, without retries, and returns the answer as it is, for those who judge the provider: an invocation or, if there is
// none, a request to the status or result URL of a run, by the phase.
func (c *Client) Try(ctx context.Context, s *discovery.Skill, phase run.Phase, inv *Invocation, executionID string) (*exchange.Answer, *run.Failure) {
	if e := s.Unsupported(); e != nil {
		return nil, e
	}
	method, template := http.MethodGet, s.Endpoint.StatusURL
	if phase == run.PhaseResult {
		template = s.Endpoint.ResultURL
	}
	var u *url.URL
	var body []byte
	var err error
	if inv == nil {
		u, err = document.ExpandURL(template, executionID)
	} else {
		method = s.Endpoint.Method
		u, body, _, err = c.invocation(s, inv)
	}
	if err != nil {
		return nil, &run.Failure{Kind: run.ProviderFault, Message: "The request can't be made: " + err.Error(), Phase: phase, By: run.Bridge}
	}
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
