package fronts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/agentskills"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// AgentSkills serves the skills in the Agent Skills format.
type AgentSkills struct {
	// The URL of the endpoint of the Skills Protocol, as agents see it. The files tell agents to call it, so set it where clients can send
	// any Host. Default: scheme and host of the request, and the path of the endpoint. Example: `https://agents.example.com/rpc`.
	URL string `json:"url,omitempty"`
}

// indexOfSkills is the path of the index below the host.
const indexOfSkills = "/.well-known/agent-skills/index.json"

// Read reads the option agent_skills.
func (a *AgentSkills) Read(r *options.Reader) error {
	if err := r.NoArgs(); err != nil {
		return err
	}
	return r.Block("agent_skills", "agent_skills", r.Of(a, nil))
}

// check checks the options.
func (a *AgentSkills) check(c *options.Checker, m *Mounts) {
	if a.URL != "" && agentskills.CheckURL(a.URL) != nil {
		c.Check("agent_skills.url", fmt.Errorf("url %q is not the URL of an endpoint, such as https://agents.example.com/rpc: http or https, without user, query, escapes and fragment", a.URL))
	}
	if m.Any() && m.RPC == nil {
		c.Check("agent_skills", errors.New("agent_skills needs the Skills Protocol, which its files tell agents to use: add rpc"))
	}
}

// SkillFiles serve the index and the files of the Agent Skills format.
type SkillFiles struct {
	site *agentskills.Site
	path string // of the endpoint of the Skills Protocol
}

// Serve returns the files for the skills of a handler with mounts.
func (a *AgentSkills) Serve(s *Setup, m *Mounts) *SkillFiles {
	site := agentskills.NewSite(s.Bridge)
	site.URL, site.RequirePrincipal, site.Refused, site.Panicked = a.URL, s.RequirePrincipal, s.Refused, s.Observer.Panicked
	site.LeftOut = func(ctx context.Context, source string, n int) {
		s.Observer.Notice(ctx, &exchange.Notice{
			Level: slog.LevelWarn, Source: source,
			Message: "agent_skills leaves skills out: there are more than 10,000, their files have more than 32 MiB, or they can't be read in time",
			Attrs:   []slog.Attr{slog.Int("at_least", n)},
		})
	}
	return &SkillFiles{site, cmp.Or(m.RPC.path(), "/")}
}

// Serves reports whether a request is for the index or a file.
func (*SkillFiles) Serves(r *http.Request) bool { return agentskills.Serves(r.URL.Path) }

// Serve answers a request that is for the index or a file.
func (f *SkillFiles) Serve(ctx context.Context, w http.ResponseWriter, r *http.Request, caller run.Caller) {
	f.site.Serve(ctx, w, r, caller, urlOf(r, f.path))
}

type endpointKey struct{}

// Context returns a context for [SkillFiles.Page] in the answer to a request.
func (f *SkillFiles) Context(ctx context.Context, r *http.Request) context.Context {
	return context.WithValue(ctx, endpointKey{}, func() string { return urlOf(r, f.path) })
}

// Page returns the SKILL.md of a skill, as its file is.
func (f *SkillFiles) Page(ctx context.Context, d *translate.Description) (string, error) {
	url := ""
	if urlOf, ok := ctx.Value(endpointKey{}).(func() string); ok {
		url = urlOf()
	}
	return f.site.Page(ctx, d, url)
}
