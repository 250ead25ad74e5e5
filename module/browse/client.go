package browse

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/module/setup"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
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
	server := setup.Server{Name: "skills", URL: endpoint, Program: "/usr/local/bin/caddy"}
	switch {
	case hasPassword:
		server.Authorization, server.Flag, server.Variable, server.Value = "Basic <Base64 of user:password>", "--basic-env", "BRIDGE_LOGIN", "<user>:<password>"
	case needsToken:
		server.Authorization, server.Flag, server.Variable, server.Value = "<credentials>", "--bearer-env", "BRIDGE_TOKEN", "<token>"
	}
	clients := make([]Client, len(setup.Clients))
	for i := range clients {
		c := &setup.Clients[i]
		clients[i] = Client{c.Name, strings.TrimPrefix(c.File, "~config/Claude/"), c.Config(&server)}
	}
	return MCP{endpoint, clients}
}

// Agent says where the bridge serves A2A.
type Agent interface {
	// URL returns the URL of the endpoint for all skills, as the client of a request sees it; empty: it can't be known.
	URL(r *http.Request) string
	// CurlOptions returns the options with which curl authenticates, with placeholders for the secrets; nil: none are needed.
	CurlOptions() []string
	// Version returns the newest version of A2A that is served, such as "1.0".
	Version() string
}

// A2A is how to reach a skill by A2A.
type A2A struct {
	// Endpoint and Card are URLs: for messages to the skill, and of its agent card. Card is empty for a private skill.
	Endpoint, Card string
	// Command is a shell command that sends a message.
	Command string
}

// messages are requests that send a message with data, by version. DATA stands for the data.
var messages = map[string]string{
	"1.0": `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"data":DATA}]}}}`,
	"0.3": `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m1","role":"user","parts":[{"kind":"data","data":DATA}]}}}`,
	"0.1": `{"jsonrpc":"2.0","id":1,"method":"tasks/send","params":{"id":"choose-a-secret-id","message":{"role":"user","parts":[{"type":"data","data":DATA}]}}}`,
}

// agentOf returns how to reach a skill by A2A; the zero value: A2A is not served.
func (m *pageMaker) agentOf(d *translate.Description) A2A {
	if m.agent == "" || plain(d.Name, maxShownName) != d.Name {
		return A2A{}
	}
	message, known := messages[m.agentVersion]
	if !known {
		return A2A{}
	}
	var a A2A
	a.Endpoint = plain(m.agent+"/"+url.PathEscape(d.Name), maxShownLink)
	if !d.Hidden {
		a.Card = plain(a.Endpoint+"/.well-known/agent-card.json", maxShownLink)
	}
	words := []string{"curl", quoted(a.Endpoint)}
	for _, option := range m.curlOptions {
		if !strings.HasPrefix(option, "-") {
			option = quoted(option)
		}
		words = append(words, option)
	}
	words = append(words, "-H 'Content-Type: application/json'")
	if m.agentVersion != "0.1" { // the first draft has no such header
		words = append(words, "-H 'A2A-Version: "+m.agentVersion+"'")
	}
	body := strings.ReplaceAll(message, "DATA", sample(d))
	command := strings.Join(append(words, "-d", quoted(shellSafe.Replace(body))), " ")
	a.Command = plain(command, len(command))
	return a
}
