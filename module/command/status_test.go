package command_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/command"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// TestAdminTellsBridgesApart: bridges with sources of the same namespace have separate rows, also
// a bridge of an earlier configuration.
func TestAdminTellsBridgesApart(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/broken"}, hostile.Skill{ID: "acme/echo"}, hostile.Skill{ID: "acme/slow"})
	q := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	p.On("acme/broken", hostile.Descriptor, hostile.Respond(http.StatusOK, `{"protocol":{"version":"1.0.0"},"id":"acme/broken"}`))
	gate := hostile.NewGate(t)
	p.On("acme/slow", hostile.Invoke, hostile.Accept(0))
	p.On("acme/slow", hostile.Status, gate.Then(hostile.Usual()))
	config := func(caller string) string {
		bridge := func(path, provider string) string {
			return "skill_bridge " + path + " {\n\tname " + path[1:] + "\n\tallow_http\n\tallow_networks 127.0.0.0/8\n\tprovider " + provider + " {\n\t\tnamespace acme\n\t}\n\tcaller " + caller + "\n}"
		}
		return "{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n" + testbed.Site(bridge("/rpc", p.URL()), bridge("/rpc2", q.URL()))
	}
	c := testbed.StartCaddy(t, config("first"))
	a := admin{t, "127.0.0.1:" + c.Port("ADMIN")}
	client := c.With(testbed.Fresh())
	client.Execute("acme.broken", nil)
	slow := make(chan testbed.Answer, 1)
	go func() { slow <- client.Execute("acme.slow", nil) }()
	testbed.Eventually(t, 10*time.Second, func() bool { return gate.Waiting() > 0 }, "the run is followed")

	one := a.status()
	first, firstOther := one.numbers(p.URL()), one.numbers(q.URL())
	if len(first) != 1 || len(firstOther) != 1 || first[0] == firstOther[0] {
		t.Fatalf("two bridges have the numbers %d and %d", first, firstOther)
	}
	one.mustShow(t, first[0], 3, 2, "1", 1, "ok")
	one.mustShow(t, firstOther[0], 1, 0, "-", 0, "ok")

	if err := c.Reload(config("second")); err != nil {
		t.Fatal(err)
	}
	var two *bridges
	testbed.Eventually(t, 10*time.Second, func() bool { two = a.status(); return len(two.Providers) == 3 }, "the bridge without a call is gone")
	both, secondOther := two.numbers(p.URL()), two.numbers(q.URL())
	if both[0] != first[0] || min(both[1], secondOther[0]) <= max(first[0], firstOther[0]) || both[1] == secondOther[0] {
		t.Fatalf("while a run goes on, the bridges have the numbers %d and %d, before the reload %d and %d", both, secondOther, first, firstOther)
	}
	two.mustShow(t, both[0], 3, 2, "1", 1, "ok")
	if two.Calls.Total != 1 || two.Calls.Calls[0].Bridge != first[0] || !regexp.MustCompile(fmt.Sprintf(`(?m)^  %d +acme\.slow +\S+ +run-1$`, first[0])).MatchString(two.text) {
		t.Errorf("the run is of bridge %d: %+v\n%s", first[0], two.Calls, two.text)
	}
	two.mustShow(t, both[1], 3, 2, "1", 0, "ok")
	two.mustShow(t, secondOther[0], 1, 0, "-", 0, "ok")

	gate.Open()
	if a := <-slow; a.Outcome() != "completed" {
		t.Error(a)
	}
	var three *bridges
	testbed.Eventually(t, 10*time.Second, func() bool { three = a.status(); return len(three.Providers) == 2 }, "the earlier configuration is gone")
	if last := three.numbers(p.URL()); !slices.Equal(last, both[1:]) {
		t.Errorf("the bridge has the number %d now, before %d", last, both[1:])
	}
	if err := c.Reload("{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n" + testbed.Bridge("provider "+p.URL()+" {", "namespace acme", "}")); err != nil {
		t.Fatal(err)
	}
	testbed.Eventually(t, 10*time.Second, func() bool { return len(a.status().Providers) == 1 }, "there is one bridge")
	if text := a.status().text; strings.Contains(text, "BRIDGE") || strings.Contains(text, "of bridge") {
		t.Errorf("of one bridge nobody has to know the number:\n%s", text)
	}
}

// TestStatusShowsWhatIsLeftOut: status shows skills with unusable ids, and aliases of
// skills that are not listed.
func TestStatusShowsWhatIsLeftOut(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"}, hostile.Skill{ID: "acme/echo "}, hostile.Skill{ID: "\tacme/echo"})
	c := testbed.StartCaddy(t, "{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n"+testbed.Bridge("provider "+p.URL()+" {", "namespace acme", "alias nowhere acme/eco", "}"))
	if names := c.Names(); !slices.Equal(names, []string{"acme.echo"}) {
		t.Errorf("listed: %q", names)
	}
	a := admin{t, "127.0.0.1:" + c.Port("ADMIN")}
	text := a.status().text
	for _, want := range []string{
		`(?m)^Skills of acme that are not listed: 2$`,
		`(?m)^  "acme/echo " +its id begins or ends with a space, so that it could be mistaken for another$`,
		`(?m)^  "\\tacme/echo" +its id has invisible characters`,
		`(?m)^Aliases for skills that are not listed:$`, `(?m)^  acme +nowhere +acme/eco +acme/echo$`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("%s does not match\n%s", want, text)
		}
	}
}

// TestStatusFailsInJSON: with --json, an error is JSON, too.
func TestStatusFailsInJSON(t *testing.T) {
	var out, complaint strings.Builder
	command := exec.CommandContext(t.Context(), "caddy", "skill-bridge", "status", "--address", "127.0.0.1:1", "--json")
	command.Stdout, command.Stderr = &out, &complaint
	if failed, ok := errors.AsType[*exec.ExitError](command.Run()); !ok || failed.ExitCode() != 5 {
		t.Errorf("exit status: %v", failed)
	}
	var failed struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(out.String()), &failed); err != nil || !strings.Contains(failed.Error.Message, "no admin API answers") || complaint.Len() == 0 {
		t.Errorf("%v: %s %s", err, out.String(), complaint.String())
	}
}

// TestStatusLost: a connection that breaks says nothing about who answers.
func TestStatusLost(t *testing.T) {
	for answer, want := range map[string]string{
		"": "ended before the whole answer", "HTTP/1.1 200 OK\r\n": "ended before the whole answer",
		"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{": "ended before the whole answer", "SSH-2.0-OpenSSH\r\n": "it does not speak HTTP",
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n": "its answer is not JSON",
	} {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			if c, err := l.Accept(); err == nil {
				_, readErr := c.Read(make([]byte, 4096))
				_, err = c.Write([]byte(answer))
				if err = errors.Join(readErr, err, c.Close()); err != nil {
					t.Error(err)
				}
			}
		}()
		text, err := exec.CommandContext(t.Context(), "caddy", "skill-bridge", "status", "--address", l.Addr().String()).CombinedOutput()
		if failed, ok := errors.AsType[*exec.ExitError](err); !ok || failed.ExitCode() != 5 || !strings.Contains(string(text), want) || !strings.Contains(string(text), "Next:  ") {
			t.Errorf("%q: %v: %s", answer, err, text)
		}
	}
}

// TestStatusSilent: a server that accepts and never answers is not said to speak another protocol.
func TestStatusSilent(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	address, err := caddy.ParseNetworkAddress(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := command.AskAdmin(t.Context(), address, time.Millisecond); err == nil || !strings.Contains(err.Error(), "it did not answer in time") {
		t.Errorf("error %v", err)
	}
}

// admin is the admin API of a Caddy.
type admin struct {
	*testing.T
	address string
}

// run returns the output of the command status.
func (a admin) run(flags ...string) string {
	a.Helper()
	args := append([]string{"skill-bridge", "status", "--address", a.address}, flags...)
	text, err := exec.CommandContext(a.Context(), "caddy", args...).Output()
	if err != nil {
		a.Fatal(err)
	}
	return string(text)
}

// bridges is the status of all bridges.
type bridges struct {
	Providers []struct {
		Bridge int    `json:"bridge"`
		URL    string `json:"url"`
	} `json:"providers"`
	Calls struct {
		Total int `json:"total"`
		Calls []struct {
			Bridge int `json:"bridge"`
		} `json:"calls"`
	} `json:"calls"`

	text string // for people
}

func (a admin) status() *bridges {
	a.Helper()
	b := bridges{text: a.run()}
	if err := json.Unmarshal([]byte(a.run("--json")), &b); err != nil {
		a.Fatal(err)
	}
	return &b
}

// numbers returns the numbers of the bridges that have a source with this URL.
func (b *bridges) numbers(url string) (numbers []int) {
	for _, p := range b.Providers {
		if p.URL == url {
			numbers = append(numbers, p.Bridge)
		}
	}
	return numbers
}

// mustShow requires that the source acme of a bridge has a row with these numbers.
func (b *bridges) mustShow(t *testing.T, bridge, skills, read int, faulty string, calls int, health string) {
	t.Helper()
	row := fmt.Sprintf(`(?m)^%d +acme +provider +%s +%d +%d +%s +%d +0`, bridge, health, skills, read, faulty, calls)
	fault := fmt.Sprintf(`(?m)^  %d +acme\.broken +VALIDATION_ERROR`, bridge)
	if !regexp.MustCompile(row).MatchString(b.text) || !strings.HasPrefix(b.text, "BRIDGE ") ||
		!strings.Contains(b.text, "Skills that were not read yet may have faults.") ||
		regexp.MustCompile(fault).MatchString(b.text) != (faulty == "1") {
		t.Errorf("%s does not match, or there is no or a wrong fault, or no word of unread skills, in\n%s", row, b.text)
	}
}
