package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/provider"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/wire"
)

// peersFolder has servers that are made with other libraries, as a module of its own and a package of npm.
const peersFolder = "module/internal/peers"

// peers are the servers, by the argument of the program that starts them.
var peers = []struct {
	name, argument, path string
	script               bool // for Node
}{
	{"jrpc2 (Go)", "jrpc2", bridgePath, false},
	{"MCP: official Go SDK", "go-sdk", toolsPath, false},
	{"MCP: mcp-go (Go)", "mcp-go", toolsPath, false},
	{"MCP: official TypeScript SDK, v2 (Node)", "mcp-2", toolsPath, true},
	{"MCP: official TypeScript SDK, v1 (Node)", "mcp-1", toolsPath, true},
	{"A2A: official JavaScript SDK (Node)", "a2a-js", agentPath, true},
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
	u := b.startUpstream()
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
	byPath := map[string]int{bridgePath: 0, toolsPath: 1, agentPath: 2}
	for i, t := range []struct{ name, path string }{{"bridge: execute_skill", bridgePath}, {"bridge: tools/call (MCP)", toolsPath}, {"bridge: SendMessage (A2A)", agentPath}} {
		s := u.protocolsSite()
		s.lines = strings.Replace(s.lines, "\na2a\n", "\na2a {\ntasks {\nstore memory\n}\n}\n", 1) // as that of Node
		c := b.startCaddy(s)
		to := &target{t.name, c.addresses["site"], t.path, provider.Now, []int{c.pid()}}
		open(to, to.request(bodies[0].size), i)
	}
	c := b.startCaddy(u.proxySite("proxy", proxyPath, "1.1"))
	proxy := &target{"reverse_proxy", c.addresses["proxy"], proxyPath, provider.Now, []int{c.pid()}}
	open(proxy, proxy.request(bodies[0].size), 0)

	var missing []string
	folder := filepath.Join(b.moduleFolder(), filepath.FromSlash(peersFolder))
	nginx := func(name, path, module string, address string, pids []int) {
		if address == "" {
			missing = append(missing, name+" ("+module+" is not installed)")
			return
		}
		to := &target{name, address, path, provider.Now, pids}
		open(to, to.request(bodies[0].size), 0)
	}
	address, pids := b.startNginx(u)
	nginx("nginx, proxy only", proxyPath, "nginx", address, pids)
	address, pids = b.startScriptedNginx(u, folder)
	nginx("nginx with a script", bridgePath, "njs", address, pids)
	program, scripts := b.buildPeers(folder), b.installPeers(folder)
	for _, p := range peers {
		file, args := program, []string{p.argument}
		if p.script {
			file, args = "node", []string{filepath.Join(scripts, "peers.mjs"), p.argument}
		}
		if file == "" || p.script && scripts == "" {
			missing = append(missing, p.name+" (can't be installed)")
			continue
		}
		process, addresses := b.startServer(p.name, file, append(args, "http://"+u.address+proxyPath)...)
		to := &target{p.name, addresses[0], p.path, provider.Now, []int{process.pid()}}
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

// moduleFolder returns the folder of the bridge's module.
func (b *bench) moduleFolder() string {
	const bridge = "github.com/skill-bridge/caddy-skill-bridge"
	return strings.TrimSpace(string(must(exec.CommandContext(b.ctx, "go", "list", "-m", "-f", "{{.Dir}}", bridge).Output())))
}

// buildPeers builds the program with the servers of Go. Its name is empty if their modules can't be had.
func (b *bench) buildPeers(folder string) string {
	file := filepath.Join(b.dir, "peers")
	if text, err := exec.CommandContext(b.ctx, "go", "build", "-C", folder, "-o", file, ".").CombinedOutput(); err != nil {
		b.say("the servers of Go can't be built: %v\n%s", err, text)
		return ""
	}
	return file
}

// installPeers installs the packages of the servers of Node. The folder is empty if they can't be had. A short run downloads nothing.
func (b *bench) installPeers(folder string) string {
	to := must(os.MkdirTemp(b.dir, "npm-"))
	for _, name := range []string{"package.json", "peers.mjs"} {
		check(os.WriteFile(filepath.Join(to, name), must(os.ReadFile(filepath.Join(folder, name))), 0o600))
	}
	args := append([]string{"install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", to}, either(b, []string{"--offline"}, nil)...)
	if text, err := exec.CommandContext(b.ctx, "npm", args...).CombinedOutput(); err != nil {
		b.say("the packages of npm can't be installed: %v\n%s", err, text)
		return ""
	}
	return to
}
