package command_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// Shells complete the names of skills, from the provider, the bridge or the Caddy that the line names, and values of flags and arguments.
func TestCompletion(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"}, hostile.Skill{ID: "acme/other"}, hostile.Skill{ID: "acme/$(id)"})
	b := testbed.StartCaddy(t, "{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n"+testbed.Site("skill_bridge /rpc {\nprovider "+p.URL()+" {\nnamespace b\n}\nallow_http\nallow_networks 127.0.0.1\n}"))
	api := "--address=127.0.0.1:" + b.Port("ADMIN")
	bridge := "http://127.0.0.1:" + b.Port("PORT") + "/rpc"
	allowed := []string{"--allow-http", "--allow-networks=127.0.0.1", "--namespace=n"}
	for _, c := range []struct {
		line []string
		want string
	}{
		{append(append([]string{"call"}, allowed...), p.URL(), ""), "n.acme.echo n.acme.other"},
		{append(append([]string{"describe"}, allowed...), p.URL(), "n.acme.o"), "n.acme.other"},
		{[]string{"describe", "--bridge", bridge, ""}, "b.acme.echo b.acme.other"},
		{[]string{"call", "--bridge", bridge, "b.acme.echo", ""}, ""},
		{[]string{"call", "--bridge", "http://127.0.0.1:1/rpc", ""}, ""},
		{[]string{"call", ""}, ""},
		{[]string{"list", p.URL(), ""}, ""},
		{[]string{"add-client", "cu"}, "cursor"},
		{[]string{"init", "--callers", ""}, "anyone keys"},
		{[]string{"purge", api, ""}, "b"},
		{[]string{"purge", api, "c"}, ""},
		{[]string{"purge", api, "b", ""}, "acme/echo acme/other"},
		{[]string{"purge", api, "b", "acme/o"}, "acme/other"},
		{[]string{"purge", "--address=127.0.0.1:1", ""}, ""},
		{[]string{"approve", api, ""}, ""},
		{[]string{"status", api, ""}, ""},
		{[]string{"runs", "--front", ""}, "skills_protocol a2a publish"},
	} {
		cmd := exec.CommandContext(t.Context(), "caddy", append([]string{"__complete", "skill-bridge"}, c.line...)...)
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		var names []string
		for line := range strings.Lines(string(out)) {
			if name, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); !strings.HasPrefix(name, ":") {
				names = append(names, name)
			}
		}
		if got := strings.Join(names, " "); err != nil || got != c.want || !strings.Contains(errs.String(), "ShellCompDirectiveNoFileComp") || strings.Contains(errs.String(), "Error:") {
			t.Errorf("%q: %q (%v), want %q; %s", c.line, got, err, c.want, &errs)
		}
	}
}
