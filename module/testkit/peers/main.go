// Command peers is a server of JSON-RPC over HTTP that is made with another library, for comparison with the bridge. For each call, it sends
// a POST to a URL and answers with the output, as the bridge does for a skill. The first line of its output is its address.
// It runs until the end of its standard input. What is made with JavaScript is in peers.mjs.
//
// This is a module of its own, so that the bridge's go.mod does not require the libraries.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/creachadair/jrpc2"
	jrpc2handler "github.com/creachadair/jrpc2/handler"
	"github.com/creachadair/jrpc2/jhttp"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// servers make the servers, by library.
var servers = map[string]func(*provider) http.Handler{"go-sdk": goSDK, "mcp-go": mcpGo, "jrpc2": jRPC2}

func main() {
	if len(os.Args) != 3 || servers[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: peers go-sdk|mcp-go|jrpc2 <url>")
		os.Exit(2)
	}
	if err := run(servers[os.Args[1]](newProvider(os.Args[2])), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// timeout is that of each request.
const timeout = time.Minute

func run(handler http.Handler, stdin io.Reader, stdout io.Writer) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		served := &http.Server{Handler: handler, ReadHeaderTimeout: timeout}
		_ = served.Serve(listener) // it serves until the process exits
	}()
	if _, err := fmt.Fprintln(stdout, listener.Addr()); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, stdin)
	return err
}

// The name and the description of the tool of servers of MCP.
const (
	toolName        = "bench_now"
	toolDescription = "Does something."
)

// goSDK is a server of MCP with the Go SDK.
func goSDK(p *provider) http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "peers", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: toolName, Description: toolDescription}, func(ctx context.Context, _ *mcp.CallToolRequest, in inputs) (*mcp.CallToolResult, any, error) {
		output, err := p.call(ctx, in)
		return nil, output, err
	})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
}

// mcpGo is a server of MCP with mcp-go.
func mcpGo(p *provider) http.Handler {
	server := mcpgoserver.NewMCPServer("peers", "1", mcpgoserver.WithInputSchemaValidation())
	tool := mcpgo.NewTool(toolName, mcpgo.WithDescription(toolDescription), mcpgo.WithInputSchema[inputs]())
	server.AddTool(tool, mcpgo.NewTypedToolHandler(func(ctx context.Context, _ mcpgo.CallToolRequest, in inputs) (*mcpgo.CallToolResult, error) {
		output, err := p.call(ctx, in)
		if err != nil {
			return nil, err
		}
		return mcpgo.NewToolResultStructured(output, string(output)), nil
	}))
	return mcpgoserver.NewStreamableHTTPServer(server, mcpgoserver.WithStateLess(true))
}

// jRPC2 is a server of JSON-RPC with jrpc2, with the method and the params of the bridge.
func jRPC2(p *provider) http.Handler {
	type params struct {
		Name string `json:"name"`
		Args inputs `json:"args"`
	}
	type result struct {
		Status string          `json:"status"`
		Output json.RawMessage `json:"output"`
	}
	methods := jrpc2handler.Map{"execute_skill": jrpc2handler.New(func(ctx context.Context, in params) (result, error) {
		output, err := p.call(ctx, in.Args)
		return result{"completed", output}, err
	})}
	const calls = 512 // at once; the default is the number of processors
	return jhttp.NewBridge(methods, &jhttp.BridgeOptions{Server: &jrpc2.ServerOptions{Concurrency: calls}})
}

// provider is a skill's endpoint.
type provider struct {
	url    string
	client *http.Client
}

func newProvider(url string) *provider {
	return &provider{url, &http.Client{Timeout: timeout, Transport: &http.Transport{MaxIdleConnsPerHost: 512}}}
}

// inputs are the arguments of the tool.
type inputs struct {
	Location string `json:"location"       jsonschema:"A city."`
	Days     int    `json:"days,omitempty" jsonschema:"How many days to look ahead."`
}

// call runs the skill, and returns its output.
func (p *provider) call(ctx context.Context, in inputs) (json.RawMessage, error) {
	body, err := json.Marshal(map[string]any{"inputs": in})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body)) //nolint:gosec // the URL is an argument
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := p.client.Do(request) //nolint:gosec // the URL is an argument
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer struct {
		Status string          `json:"status"`
		Output json.RawMessage `json:"output"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Status != "completed" {
		return nil, errors.New("the run is " + answer.Status)
	}
	return answer.Output, nil
}
