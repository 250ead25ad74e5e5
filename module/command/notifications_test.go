package command_test

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
)

// TestWaitingNotifications: the operator sees the ends of runs that a receiver does not take, with its host and the caller, in the status.
func TestWaitingNotifications(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3000")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(receiver.Close)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	c := testbed.StartCaddy(t, "{\n\tadmin 127.0.0.1:{$ADMIN}\n\tstorage file_system "+t.TempDir()+"\n}\n"+testbed.Site("skill_bridge /rpc {\n\tallow_http\n\tallow_networks 127.0.0.0/8\n\tprincipal {http.request.header.X-User}\n\tprovider "+
		p.URL()+" {\n\t\tnamespace acme\n\t}\n\twebhooks {\n\t\tallow_http\n\t\tallow_networks 127.0.0.1\n\t\tallow_ports any\n\t}\n}"))
	status := func(flags ...string) string {
		text, err := exec.CommandContext(t.Context(), "caddy", append([]string{"skill-bridge", "status", "--address", "127.0.0.1:" + c.Port("ADMIN")}, flags...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if text := status(); strings.Contains(text, "Webhooks") {
		t.Errorf("without call-backs: %s", text)
	}
	notify := testbed.Param("notify", hostile.Object{"url": receiver.URL + "/secret-path", "token": "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"})
	for _, user := range []string{"ada", "ada", "bob"} {
		if a := c.With(testbed.Header("X-User", user), notify).Execute("acme.echo", nil); a.Outcome() != "completed" {
			t.Fatal(a)
		}
	}
	var all struct {
		Notifications delivery.Waiting `json:"notifications"`
	}
	var text string
	testbed.Eventually(t, 20*time.Second, func() bool {
		text = status("--json")
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			t.Fatal(err)
		}
		r := all.Notifications.Receivers
		return len(r) == 2 && r[0].Waiting == 2 && !r[0].Next.IsZero() && !r[1].Next.IsZero()
	}, "the call-backs wait")
	host := strings.TrimPrefix(receiver.URL, "http://")
	if n := all.Notifications; n.Waiting != 3 || n.Oldest.IsZero() || n.Receivers[0].Host != host || n.Receivers[0].Principal != "ada" || n.Receivers[1].Principal != "bob" ||
		time.Until(n.Receivers[0].Next) < 30*time.Minute || strings.Contains(text, "secret-path") {
		t.Error(text)
	}
	shown, err := exec.CommandContext(t.Context(), "caddy", "skill-bridge", "runs", "--address", "127.0.0.1:"+c.Port("ADMIN"), "--principal", "bob", "--json").Output()
	id := regexp.MustCompile(`"id":"([^"]+)"`).FindSubmatch(shown)
	if err != nil || id == nil {
		t.Fatalf("%s, %v", shown, err)
	}
	shown, err = exec.CommandContext(t.Context(), "caddy", "skill-bridge", "runs", "--address", "127.0.0.1:"+c.Port("ADMIN"), string(id[1])).Output()
	if err != nil || !regexp.MustCompile(`(?m)^\S+ +`+regexp.QuoteMeta(host)+` +for \d+s +in \S+ +1$`).Match(shown) || strings.Contains(string(shown), "secret-path") {
		t.Errorf("%s, %v", shown, err)
	}
	text = status()
	for _, want := range []string{"events that were not delivered yet: 3", host, "ada", "bob", "in 5"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
}
