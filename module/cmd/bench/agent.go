package main

import (
	"fmt"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/provider"
)

// agentPath is the path of the A2A endpoint in sites with all protocols.
const agentPath = "/a2a"

// protocolsSite returns a site, named site, with each protocol of the bridge at its own path.
func (u *upstream) protocolsSite(options ...string) site {
	s := u.bridgeSite("site", options...)
	s.lines = "skill_bridge {\nrpc\na2a\nmcp\n" + s.lines[len("skill_bridge "+bridgePath+" {\n"):]
	return s
}

// message returns a SendMessage of A2A 1.0 with the same arguments as call, in its shortest form.
func message(skill string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":"req-000042","method":"SendMessage","params":{"message":{"messageId":"req-000042","role":"ROLE_USER",` +
		`"parts":[{"data":{"location":"Tokyo","days":5}}],"metadata":{"skillId":"bench.` + skill + `"}}}}`)
}

// measureAgent compares a blocking SendMessage with execute_skill. Each has a process of its own.
func measureAgent(b *bench) values {
	u := b.startUpstream()
	targets := make([]*target, 3)
	for i, t := range []struct {
		name, path string
		options    []string
	}{
		{"execute_skill", bridgePath, nil},
		{"SendMessage", agentPath, nil},
		{"SendMessage, tasks in memory only", agentPath, []string{"a2a {\ntasks {\nstore memory\n}\n}"}},
	} {
		s := u.protocolsSite()
		if t.options != nil {
			s.lines = "skill_bridge {\n" + t.options[0] + s.lines[len("skill_bridge {\nrpc\na2a\nmcp"):]
		}
		c := b.startCaddy(s)
		targets[i] = &target{t.name, c.addresses["site"], t.path, provider.Now, []int{c.pid()}}
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
