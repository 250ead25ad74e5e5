package main

import (
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
	targets := make([]*target, 2)
	for i, t := range []struct{ name, path string }{{"execute_skill", servers.BridgePath}, {"SendMessage", servers.AgentPath}} {
		c := b.StartCaddy(u.ProtocolsSite())
		targets[i] = &target{t.name, c.Addresses["site"], t.path, provider.Now, []int{c.Pid()}}
	}
	loads := b.loads(targets, bodies[0].size, 32)
	b.say("a2a")
	b.compare(loads, b.slice())
	b.report.goal("Processor time of SendMessage (A2A), ratio to execute_skill", "≤ 1.6", b.ratio(loads[1], loads[0], slice.cost).Format("%.2f"))
	return nil // the section of other programs has the figures
}
