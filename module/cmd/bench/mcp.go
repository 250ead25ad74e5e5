package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/provider"
)

// toolsPath is the path of the MCP endpoint in sites with all protocols.
const toolsPath = "/mcp"

// toolRequest returns a request of MCP 2026-07-28 with the same arguments as call, in its shortest form; for an empty skill, one for the
// first page of tools.
func toolRequest(address, skill string) []byte {
	method, params, name := "tools/list", "", ""
	if skill != "" {
		method, params, name = "tools/call", `"name":"bench_`+skill+`","arguments":{"location":"Tokyo","days":5},`, "Mcp-Name: bench_"+skill+"\r\n"
	}
	body := `{"jsonrpc":"2.0","id":"req-000042","method":"` + method + `","params":{` + params +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	return []byte("POST " + toolsPath + " HTTP/1.1\r\nHost: " + address + "\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n" +
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

// toolServer is the server of the Go SDK, as a package of its own module.
const toolServer = "module/internal/clients"

// buildToolServer builds a server of MCP that is made with the Go SDK. file is empty if the SDK can't be had.
func buildToolServer(b *bench) (file string) {
	const bridge = "github.com/skill-bridge/caddy-skill-bridge"
	root := must(exec.CommandContext(b.ctx, "go", "list", "-m", "-f", "{{.Dir}}", bridge).Output())
	folder := filepath.Join(strings.TrimSpace(string(root)), toolServer)
	file = filepath.Join(b.dir, "toolserver")
	if text, err := exec.CommandContext(b.ctx, "go", "build", "-C", folder, "-o", file, "./toolserver").CombinedOutput(); err != nil {
		b.say("the server of the Go SDK can't be built: %v\n%s", err, text)
		return ""
	}
	return file
}

// startToolServer starts a server of MCP that sends the same requests to the provider as the bridge.
func (b *bench) startToolServer(file string, u *upstream) (address string, pid int) {
	r, w := io.Pipe()
	p := b.start(nil, w, "the server of the Go SDK", file, "http://"+u.address+proxyPath)
	go func() {
		<-p.ended
		w.CloseWithError(errors.New("it ended at once: " + p.errors.String()))
	}()
	address, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		check(fmt.Errorf("starting the server of the Go SDK: %w", err))
	}
	return strings.TrimSpace(address), p.pid()
}

// measureTools compares tools/call with execute_skill, and with a server of the Go SDK. Each has a process of its own.
func measureTools(b *bench) values {
	u := b.startUpstream()
	var targets []*target
	for _, t := range []struct{ name, path string }{{"execute_skill", bridgePath}, {"tools/call", toolsPath}} {
		c := b.startCaddy(u.protocolsSite())
		targets = append(targets, &target{t.name, c.addresses["site"], t.path, provider.Now, []int{c.pid()}})
	}
	if file := buildToolServer(b); file != "" {
		address, pid := b.startToolServer(file, u)
		targets = append(targets, &target{"tools/call, server of the Go SDK", address, toolsPath, provider.Now, []int{pid}})
	}
	loads := b.loads(targets, bodies[0].size, 32)
	b.say("mcp")
	b.compare(loads, b.slice())
	t := table{header: []string{"", "calls/s", "processor time, µs/call", "ratio to execute_skill", "ratio to tools/call"}}
	for i, l := range loads {
		all := l.all()
		ratio := b.ratio(l, loads[1], slice.cost).Format("%.1f")
		t.add(l.name, number(all.rate()), fmt.Sprintf("%.1f", all.cost()*1e6), b.ratio(l, loads[0], slice.cost).Format("%.2f"), ratio)
		if i > 1 {
			b.report.goal("Processor time of tools/call of a server of the Go SDK, ratio to the bridge's", "≥ 10", ratio)
		}
	}
	b.report.goal("Processor time of tools/call (MCP), ratio to execute_skill", "≤ 1.3", b.ratio(loads[1], loads[0], slice.cost).Format("%.2f"))
	return values{"table": t.String(), "list": listTools(b)}
}

// listTools measures the time of a page of tools of a large catalog.
func listTools(b *bench) string {
	many := either(b, 500, 9990) // the maximum of an index is 10,000 skills, of which some are other skills
	u := b.startUpstream("-skills", strconv.Itoa(many))
	c := b.startCaddy(u.protocolsSite())
	l := b.load(&target{"tools/list", c.addresses["site"], toolsPath, "", []int{c.pid()}}, 0, 1)
	b.compare([]*load{l}, b.slice())
	all := l.all()
	t := table{header: []string{"", "ms/page", "processor time, ms/page"}}
	t.add(fmt.Sprintf("100 of %s tools", number(float64(many))), fmt.Sprintf("%.2f", 1000/all.rate()), fmt.Sprintf("%.2f", all.cost()*1e3))
	b.report.goal("Time of a page of "+number(float64(many))+" tools (MCP), ms", "≤ 5", fmt.Sprintf("%.2f", 1000/all.rate()))
	return t.String()
}
