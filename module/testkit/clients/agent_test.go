package clients

import (
	"net/http"
	"strings"
	"testing"

	_ "github.com/skill-bridge/caddy-skill-bridge/module"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }

// user is the principal of all clients.
const user = "ann"

// agent is a bridge with A2A and its provider.
type agent struct {
	origin   string // such as http://127.0.0.1:8080
	provider *hostile.Provider
	gate     *hostile.Gate // the runs of acme/later end when it is open
}

// startAgent runs a bridge with these skills, and with options of the handler, and further lines in the block of a2a:
//
//   - acme.echo is completed at once.
//   - acme.later is accepted and completed when the gate is open.
//   - acme.ask requires the inputs text and count.
//   - acme.fails fails.
//   - acme.reply is completed at once, and its output is a message.
func startAgent(t *testing.T, options string, lines ...string) *agent {
	t.Helper()
	p := hostile.NewProvider(t,
		hostile.Skill{ID: "acme/echo"}, hostile.Skill{ID: "acme/later"}, hostile.Skill{ID: "acme/fails"}, hostile.Skill{ID: "acme/reply"},
		hostile.Skill{ID: "acme/ask", Edit: func(descriptor hostile.Object) {
			descriptor["inputs"] = []hostile.Object{
				{"name": "text", "type": "string", "description": "What to repeat.", "required": true},
				{"name": "count", "type": "number", "description": "How often.", "required": true},
			}
		}},
	)
	gate := hostile.NewGate(t)
	p.On("acme/later", hostile.Invoke, hostile.Accept(0))
	p.On("acme/later", hostile.Status, gate.Then(hostile.Usual()))
	p.On("acme/fails", hostile.Invoke, hostile.Fail("BROKEN", "It is broken."))
	c := testbed.StartCaddy(t, testbed.Site("@known header Authorization *", strings.Replace(testbed.Accounts(user), "basic_auth", "basic_auth @known", 1),
		"skill_bridge {", "\tallow_http", "\tallow_networks 127.0.0.0/8", "\tallow_anonymous", "\tprovider "+p.URL()+" {", "\t\tnamespace acme", "\t}",
		"\tpoll_interval 10ms 50ms", options, "\ta2a {\n\t\treply_message acme.reply\n\t\t"+strings.Join(lines, "\n\t\t")+"\n\t}", "}"))
	return &agent{origin: strings.TrimSuffix(c.URL, "/rpc"), provider: p, gate: gate}
}

// invocations returns the bodies of all requests that invoke a skill.
func (a *agent) invocations(skill string) (bodies []string) {
	for _, r := range a.provider.Requests(skill, hostile.Invoke) {
		bodies = append(bodies, r.Body)
	}
	return bodies
}

// withAccount sends the credentials of the user with each request.
type withAccount struct{}

func (withAccount) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.SetBasicAuth(user, testbed.Password)
	return http.DefaultTransport.RoundTrip(r)
}
