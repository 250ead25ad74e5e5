package main

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/provider"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/servers"
)

// toolRequest returns a request of MCP 2026-07-28 with the same arguments as call, in its shortest form; for an empty skill, one for the
// first page of tools.
func toolRequest(address, skill string) []byte {
	method, params, name := "tools/list", "", ""
	if skill != "" {
		method, params, name = "tools/call", `"name":"bench_`+skill+`","arguments":{"location":"Tokyo","days":5},`, "Mcp-Name: bench_"+skill+"\r\n"
	}
	body := `{"jsonrpc":"2.0","id":"req-000042","method":"` + method + `","params":{` + params +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	return []byte("POST " + servers.ToolsPath + " HTTP/1.1\r\nHost: " + address + "\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n" +
		"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: " + method + "\r\n" + name + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}

// checkTools checks the body of an answer of MCP.
func checkTools(skill string, answer []byte) error {
	ok := bytes.Contains(answer, []byte(`"structuredContent":`+provider.Output))
	if skill == "" {
		ok = bytes.Count(answer, []byte(`"inputSchema":`)) == pageOfTools
	}
	if !ok {
		return fmt.Errorf("a wrong answer: %.300s", answer)
	}
	return nil
}

// pageOfTools is the number of tools on a page.
const pageOfTools = 100

// measureTools compares tools/call with execute_skill. Each has a process of its own.
func measureTools(b *bench) values {
	u := b.StartUpstream()
	targets := make([]*target, 2)
	for i, t := range []struct{ name, path string }{{"execute_skill", servers.BridgePath}, {"tools/call", servers.ToolsPath}} {
		c := b.StartCaddy(u.ProtocolsSite())
		targets[i] = &target{t.name, c.Addresses["site"], t.path, provider.Now, []int{c.Pid()}}
	}
	loads := b.loads(targets, bodies[0].size, 32)
	b.say("mcp")
	b.compare(loads, b.slice())
	b.report.goal("Processor time of tools/call (MCP), ratio to execute_skill", "≤ 1.3", b.ratio(loads[1], loads[0], slice.cost).Format("%.2f"))
	listTools(b)
	return nil // as for A2A
}

// listTools measures the time of a page of tools of a large catalog.
func listTools(b *bench) {
	many := either(b, 500, 9990)
	u := b.StartUpstream("-skills", strconv.Itoa(many))
	c := b.StartCaddy(u.ProtocolsSite())
	l := b.load(&target{"tools/list", c.Addresses["site"], servers.ToolsPath, "", []int{c.Pid()}}, 0, 1)
	b.compare([]*load{l}, b.slice())
	b.report.goal("Time of a page of "+number(float64(many))+" tools (MCP), ms", "≤ 5", fmt.Sprintf("%.2f", 1000/l.all().rate()))
}
