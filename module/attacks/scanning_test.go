package attacks_test

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// S27: however many names agents make up, the warnings in the log are bounded, its
// lines are no longer than the bounded names make them, and nothing of them is
// kept. (One line at INFO for each call there is always; metrics have no names.)
func TestS27MadeUpNames(t *testing.T) {
	const batch = 1000
	names := 20_000
	if longtest.Runs(longtest.Minutes) {
		names = 1_000_000
	}
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/one"}, hostile.Skill{ID: "s/two"})
	p.Lean()
	c := testbed.StartCaddy(t, "{\n\tlog {\n\t\tlevel WARN\n\t}\n}\n"+testbed.Bridge("max_batch 1000", "max_request_size 8MiB", provider(p.URL(), "acme"), provider(p.URL(), "other")))
	ask := func(from, count int, pad string) {
		t.Helper()
		var b strings.Builder
		for i := range count {
			b.WriteByte(",["[min(i, 1)^1])
			n := strconv.Itoa(from + i)
			fmt.Fprintf(&b, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":{"name":%q,"path":"SKILL.md"}}`, n,
				[]string{"execute_skill", "describe_skill", "read_skill_file"}[i%3], []string{"acme.", "", "other.s.", "x/"}[i%4]+n+pad)
		}
		a := c.Post(b.String() + "]")
		if got := strings.Count(string(a.Body), "SKILL_NOT_FOUND"); got < count {
			t.Fatalf("%d of %d names were not found: %.300s", got, count, a.Body)
		}
	}
	mustComplete(t, c.Execute("acme.s.one", nil))
	ask(0, batch, "")
	heap := testbed.HeapInUse()
	for from := batch; from < names; from += batch {
		ask(from, batch, "")
	}
	ask(names, 100, strings.Repeat("x", 20_000))
	if grown := testbed.HeapInUse() - heap; grown > 16<<20 {
		t.Errorf("%d bytes are kept of %d names", grown, names)
	}
	text := c.Log.Text()
	if lines := strings.Count(text, "\n"); lines > 100 {
		t.Errorf("%d warnings: %.1000s", lines, text)
	}
	// Callers who are refused are worth a warning, but not one each.
	if err := reload(c, testbed.Bridge("require_principal", provider(p.URL(), "acme"))); err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		mustAskToAuthenticate(t, c.Execute("acme.s."+strconv.Itoa(i), nil))
	}
	if lines := c.Log.Lines("a caller was refused"); len(lines) != 1 {
		t.Errorf("%d warnings about callers who were refused", len(lines))
	}
	if err := reload(c, testbed.Bridge(provider(p.URL(), "acme"))); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		c.Execute("acme."+strings.Repeat("long", 10_000), nil)
	}
	for _, line := range c.Log.Lines("call failed") {
		if len(line) > 4000 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
}

// S39: when the name of a provider turns to a private address between two calls, a
// connection that was made before goes on to the judged address; every new one is
// judged, and refused.
func TestS39NameTurnsPrivate(t *testing.T) {
	names := hostile.NewNameServer(t)
	p := inHouse(t, hostile.Skill{ID: "s/one"}).As("skills.example.com")
	private := hostile.NewCanaryAt(t, net.JoinHostPort("127.0.0.78", p.Port()))
	names.Set("skills.example.com", hostile.Addresses(house))
	c := testbed.StartCaddy(t, bridge("allow_networks "+house, "transport http {", "\tresolvers "+names.Address(), "}", provider(p.URL(), "acme")))
	mustComplete(t, c.Execute("acme.s.one", nil))
	before := names.Questions("skills.example.com")
	if before == 0 {
		t.Fatal("the name server was not asked")
	}
	names.Set("skills.example.com", hostile.Addresses("127.0.0.78"))
	for range 5 {
		a := c.Execute("acme.s.one", nil)
		mustComplete(t, a)
		if p.Posts(a.Call) != 1 {
			t.Errorf("the call went elsewhere: %v", a)
		}
	}
	for round := range 20 {
		p.Disconnect()
		testbed.Eventually(t, 30*time.Second, func() bool { return p.Open() == 0 }, "the connections are closed")
		a := c.Execute("acme.s.one", nil)
		for a.Outcome() == "ENDPOINT_UNREACHABLE" && strings.Contains(details(t, a).Reason, "drop") { // a connection whose end was not noticed yet
			a = c.Execute("acme.s.one", nil)
		}
		mustBeRefused(t, a)
		if n := p.Posts(a.Call); n != 0 {
			t.Errorf("round %d: %d invocations", round, n)
		}
	}
	if names.Questions("skills.example.com") == 0 {
		t.Error("the name was not asked for again")
	}
	if n := private.Connections(); n != 0 {
		t.Errorf("%d connections to the private address", n)
	}
	names.Set("skills.example.com", hostile.Addresses(house))
	mustComplete(t, c.Execute("acme.s.one", nil))
}

// S41: what was downloaded is what go.sum says. That the modules shared with Caddy
// have Caddy's versions is a test of module/cmd/build; govulncheck runs in CI.
func TestS41ModulesAreWhatTheySay(t *testing.T) {
	longtest.Need(t, longtest.Minutes)
	command := exec.CommandContext(t.Context(), "go", "mod", "verify")
	command.Dir = filepath.Join("..", "..")
	if out, err := command.CombinedOutput(); err != nil || !strings.Contains(string(out), "all modules verified") {
		t.Errorf("%v: %s", err, out)
	}
}

// S42: whether something listens on a private address, refuses connections or drops
// them can't be told from the answers, nor from how long they take: no connection
// is tried.
func TestS42NoPortScanner(t *testing.T) {
	canary := hostile.NewCanaryAt(t, "127.0.0.79:0")
	targets := map[string]string{
		"open": canary.Address(), "closed": hostile.Refused(t), "filtered": hostile.BlackHole(t),
	}
	names := hostile.NewNameServer(t)
	ports := make([]string, 0, len(targets))
	p := inHouse(t)
	for state, address := range targets {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, port)
		names.Set(state+".example.com", hostile.Addresses(host))
		for kind, base := range map[string]string{"address": "http://" + address, "name": "http://" + net.JoinHostPort(state+".example.com", port)} {
			p.Publish(
				hostile.Skill{ID: state + "/" + kind + "-endpoint", Endpoint: base + "/run"},
				hostile.Skill{ID: state + "/" + kind + "-status", StatusURL: base + "/{execution_id}"},
				hostile.Skill{ID: state + "/" + kind + "-descriptor", DescriptorURL: base + "/descriptor"},
			)
		}
	}
	c := testbed.StartCaddy(t, bridge("allow_networks "+house, "allow_ports "+strings.Join(ports, " "), "transport http {", "\tresolvers "+names.Address(), "}", provider(p.URL(), "acme")))
	normal := func(state string, a testbed.Answer) string {
		host, port, _ := net.SplitHostPort(targets[state]) // it is one
		text := string(a.Body)
		for _, own := range []string{state + ".example.com:" + port, host + ":" + port, state} {
			text = strings.ReplaceAll(text, own, "TARGET")
		}
		return text
	}
	for _, kind := range []string{"address-endpoint", "address-status", "address-descriptor", "name-endpoint", "name-descriptor"} {
		answers := map[string]string{}
		for state := range targets {
			for range 10 {
				a := c.Execute("acme."+state+"."+kind, nil)
				mustBeRefused(t, a)
				if a.Took > 2*time.Second { // a dropped connection would take the dial timeout, 5 s
					t.Errorf("%s of %s took %s", state, kind, a.Took)
				}
				answers[state] = normal(state, a)
			}
		}
		if answers["open"] != answers["closed"] || answers["open"] != answers["filtered"] {
			t.Errorf("%s tells what there is: %q", kind, answers)
		}
	}
}
