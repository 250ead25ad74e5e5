package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/provider"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/servers"
)

// message returns a SendMessage of A2A 1.0 with the same arguments as call, in its shortest form.
func message(skill string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":"req-000042","method":"SendMessage","params":{"message":{"messageId":"req-000042","role":"ROLE_USER",` +
		`"parts":[{"data":{"location":"Tokyo","days":5}}],"metadata":{"skillId":"bench.` + skill + `"}}}}`)
}

// measureAgent compares a blocking SendMessage with execute_skill. Each has a process of its own.
func measureAgent(b *bench) values {
	u := b.StartUpstream()
	targets := make([]*target, 3)
	for i, t := range []struct {
		name, path string
		store      string // in place of a database in memory
	}{
		{"execute_skill", servers.BridgePath, "store memory"},
		{"SendMessage", servers.AgentPath, "store memory"},
		{"SendMessage, SQLite on disk", servers.AgentPath, "store sqlite " + filepath.Join(b.Dir, "agent.db")},
	} {
		s := u.ProtocolsSite()
		s.Lines = strings.Replace(s.Lines, "store memory", t.store, 1)
		c := b.StartCaddy(s)
		targets[i] = &target{t.name, c.Addresses["site"], t.path, provider.Now, []int{c.Pid()}}
	}
	loads := b.loads(targets, bodies[0].size, 32)
	b.say("a2a")
	b.compare(loads, b.slice())
	t := table{header: []string{"", "calls/s", "processor time, µs/call", "ratio"}}
	for i, l := range loads {
		all := l.all()
		ratio := b.ratio(l, loads[0], slice.cost).Format("%.2f")
		t.add(l.name, number(all.rate()), fmt.Sprintf("%.1f", all.cost()*1e6), ratio)
		if i == 1 {
			b.report.goal("Processor time of SendMessage (A2A), ratio to execute_skill", "≤ 1.6", ratio)
		}
		l.close()
	}
	return values{"table": t.String()}
}
