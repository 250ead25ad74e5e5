package main

import (
	"bytes"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/provider"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/servers"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/wire"
)

// peers are the servers, by the argument of the program that starts them.
var peers = []struct {
	name, argument, path string
	script               bool // for Node
}{
	{"jrpc2 (Go)", "jrpc2", servers.BridgePath, false},
	{"MCP: official Go SDK", "go-sdk", servers.ToolsPath, false},
	{"MCP: mcp-go (Go)", "mcp-go", servers.ToolsPath, false},
	{"MCP: official TypeScript SDK, v2 (Node)", "mcp-2", servers.ToolsPath, true},
	{"MCP: official TypeScript SDK, v1 (Node)", "mcp-1", servers.ToolsPath, true},
	{"A2A: official JavaScript SDK (Node)", "a2a-js", servers.AgentPath, true},
}

// peerRequest returns a request for a peer, which is that for the bridge where the peer understands it.
func peerRequest(argument string, t *target) []byte {
	request := t.request(bodies[0].size)
	switch argument {
	case "mcp-1": // speaks earlier versions of MCP
		body := []byte(`{"jsonrpc":"2.0","id":"req-000042","method":"tools/call","params":{"name":"bench_now","arguments":{"location":"Tokyo","days":5}}}`)
		request = withField(wire.Request(http.MethodPost, t.address, t.path, body), "Accept: application/json, text/event-stream\r\nMcp-Protocol-Version: 2025-11-25")
	case "a2a-js": // expects the version
		request = withField(request, "A2A-Version: 1.0")
	}
	return request
}

// withField adds a header field to a request.
func withField(request []byte, field string) []byte {
	return bytes.Replace(request, []byte("\r\n\r\n"), []byte("\r\n"+field+"\r\n\r\n"), 1)
}

// measurePeers compares the bridge with what other libraries and nginx make of a call for which the provider gets one request. Each has
// processes of its own.
func measurePeers(b *bench) values {
	u := b.StartUpstream()
	var loads, references []*load // a reference gets the same request
	open := func(t *target, request []byte, reference int) {
		output := []byte(provider.Output)
		l := b.loadOf(t, request, func(answer []byte) error {
			if !bytes.Contains(answer, output) {
				return fmt.Errorf("a wrong answer: %.300s", answer)
			}
			return nil
		}, 32)
		loads = append(loads, l)
		references = append(references, loads[reference])
	}
	byPath := map[string]int{servers.BridgePath: 0, servers.ToolsPath: 1, servers.AgentPath: 2}
	for i, t := range []struct{ name, path string }{{"bridge: execute_skill", servers.BridgePath}, {"bridge: tools/call (MCP)", servers.ToolsPath}, {"bridge: SendMessage (A2A)", servers.AgentPath}} {
		s := u.ProtocolsSite()
		c := b.StartCaddy(s)
		to := &target{t.name, c.Addresses["site"], t.path, provider.Now, []int{c.Pid()}}
		open(to, to.request(bodies[0].size), i)
	}
	c := b.StartCaddy(u.ProxySite("proxy", servers.ProxyPath, "1.1"))
	proxy := &target{"reverse_proxy", c.Addresses["proxy"], servers.ProxyPath, provider.Now, []int{c.Pid()}}
	open(proxy, proxy.request(bodies[0].size), 0)

	var missing []string
	folder := b.PeersFolder()
	nginx := func(name, path, module string, address string, pids []int) {
		if address == "" {
			missing = append(missing, name+" ("+module+" is not installed)")
			return
		}
		to := &target{name, address, path, provider.Now, pids}
		open(to, to.request(bodies[0].size), 0)
	}
	address, pids := b.StartNginx(u)
	nginx("nginx, proxy only", servers.ProxyPath, "nginx", address, pids)
	address, pids = b.StartScriptedNginx(u, folder)
	nginx("nginx with a script", servers.BridgePath, "njs", address, pids)
	program, errGo := b.BuildPeers(folder)
	scripts, errNode := b.InstallPeers(folder, b.short)
	for _, err := range []error{errGo, errNode} {
		if err != nil {
			b.say("peers that are left out: %v", err)
		}
	}
	for _, p := range peers {
		file, args, err := program, []string{p.argument}, errGo
		if p.script {
			file, args, err = "node", []string{filepath.Join(scripts, "peers.mjs"), p.argument}, errNode
		}
		if err != nil {
			missing = append(missing, p.name+" (can't be installed)")
			continue
		}
		process, addresses := b.StartServer(p.name, file, append(args, "http://"+u.Address+servers.ProxyPath)...)
		to := &target{p.name, addresses[0], p.path, provider.Now, []int{process.Pid()}}
		open(to, peerRequest(p.argument, to), byPath[p.path])
	}
	b.say("peers")
	b.compare(loads, b.slice())
	t := table{header: []string{"", "calls/s", "processor time, µs/call", "ratio to the bridge's"}}
	for i, l := range loads {
		all := l.all()
		ratio := b.ratio(l, references[i], slice.cost).Format("%.2f")
		t.add(l.name, number(all.rate()), fmt.Sprintf("%.1f", all.cost()*1e6), ratio)
		if l.name == peers[1].name {
			b.report.goal("Processor time of tools/call of a server of the Go SDK, ratio to the bridge's", "≥ 10", ratio)
		}
	}
	return values{"table": t.String(), "missing": strings.Join(missing, ", ")}
}
