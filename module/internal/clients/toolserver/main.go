// Command toolserver is a server of MCP that is made with the Go SDK, for comparison with the bridge. It has one tool, which sends a
// POST to the URL in the only argument and answers with the output, as the bridge does for a skill. The first line of its
// output is its address. It runs until the end of its standard input.
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

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: toolserver <url>")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "toolserver:", err)
		os.Exit(1)
	}
}

// timeout is that of each request.
const timeout = time.Minute

func run(url string, stdin io.Reader, stdout io.Writer) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "toolserver", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "bench_now", Description: "Does something."}, newProvider(url).call)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
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

// call runs the tool.
func (p *provider) call(ctx context.Context, _ *mcp.CallToolRequest, in inputs) (*mcp.CallToolResult, any, error) {
	body, err := json.Marshal(map[string]any{"inputs": in})
	if err != nil {
		return nil, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := p.client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	var answer struct {
		Status string          `json:"status"`
		Output json.RawMessage `json:"output"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, nil, err
	}
	if answer.Status != "completed" {
		return nil, nil, errors.New("the run is " + answer.Status)
	}
	return nil, answer.Output, nil
}
