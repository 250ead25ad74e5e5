package browse

import (
	"net/http"
	"strconv"
)

// Tools says where the bridge serves MCP.
type Tools interface {
	// URL returns the URL of the endpoint, as the client of a request sees it.
	URL(r *http.Request) string
	// NeedsToken reports whether a client has to be given a credential: it can't get one itself.
	NeedsToken() bool
}

// MCP is how to use the skills in clients of MCP.
type MCP struct {
	// Endpoint is a URL.
	Endpoint string
	Clients  []Client
}

// Client is a client of MCP and what its configuration file needs to have.
type Client struct{ Name, File, Config string }

// clientsOf returns how to use the skills by MCP at an endpoint; the zero value: the endpoint can't be known. A reader of the page who has
// a password is asked for it by the endpoint, too, so that clients need it.
func clientsOf(endpoint string, needsToken, hasPassword bool) MCP {
	if endpoint == "" || plain(endpoint, maxShownLink) != endpoint {
		return MCP{}
	}
	url := strconv.Quote(endpoint) // no character of it needs an escape that JSON does not have
	header, flag := "", "]"
	switch {
	case hasPassword:
		header = `, "headers": {"Authorization": "Basic <Base64 of user:password>"}`
		flag = `, "--basic-env", "BRIDGE_LOGIN"], "env": {"BRIDGE_LOGIN": "<user>:<password>"}`
	case needsToken:
		header = `, "headers": {"Authorization": "<credentials>"}`
		flag = `, "--bearer-env", "BRIDGE_TOKEN"], "env": {"BRIDGE_TOKEN": "<token>"}`
	}
	return MCP{endpoint, []Client{
		{"Claude Desktop", "claude_desktop_config.json", `{"mcpServers": {"skills": {"command": "/usr/local/bin/caddy", "args": ["skill-bridge", "mcp", "--connect", ` + url + flag + "}}}"},
		{"VS Code", ".vscode/mcp.json", `{"servers": {"skills": {"type": "http", "url": ` + url + header + "}}}"},
		{"Cursor", ".cursor/mcp.json", `{"mcpServers": {"skills": {"url": ` + url + header + "}}}"},
	}}
}
