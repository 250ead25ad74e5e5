package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// object is a JSON object.
type object = map[string]any

// taskClient sends requests of the extension for tasks, which the SDK does not know, over a connection of the SDK.
type taskClient struct {
	t          *testing.T
	connection mcp.Connection
	last       int // id
}

// withTaskHeader adds the header field for tasks, which the SDK does not know.
type withTaskHeader struct{ id string }

func (h *withTaskHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Mcp-Name") == "" && h.id != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Mcp-Name", h.id)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// send sends a request and returns its result, or the code of its error.
func (c *taskClient) send(method string, params object) (result object, fault int64) {
	c.t.Helper()
	params["_meta"] = object{
		"io.modelcontextprotocol/protocolVersion":    modern,
		"io.modelcontextprotocol/clientCapabilities": object{"extensions": object{"io.modelcontextprotocol/tasks": object{}}},
	}
	text, err := json.Marshal(params)
	if err != nil {
		c.t.Fatal(err)
	}
	c.last++
	id, err := jsonrpc.MakeID(fmt.Sprint("task ", c.last))
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	if err := c.connection.Write(ctx, &jsonrpc.Request{ID: id, Method: method, Params: text}); err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
	for {
		message, err := c.connection.Read(ctx)
		if err != nil {
			c.t.Fatalf("%s: %v", method, err)
		}
		answer, ok := message.(*jsonrpc.Response)
		if !ok {
			continue // a notification
		}
		if answer.ID != id {
			c.t.Fatalf("%s: an answer to %v", method, answer.ID)
		}
		if answer.Error != nil {
			return nil, code(answer.Error)
		}
		if err := json.Unmarshal(answer.Result, &result); err != nil {
			c.t.Fatal(err)
		}
		return result, 0
	}
}

func TestTasks(t *testing.T) {
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			s := startServer(t)
			if w.version != modern {
				t.Skip("there are no tasks")
			}
			gate := s.hold(t)
			transport := s.transport(t, w)
			header := new(withTaskHeader)
			if overHTTP, ok := transport.(*mcp.StreamableClientTransport); ok {
				overHTTP.HTTPClient = &http.Client{Transport: header}
			}
			connection, err := transport.Connect(context.WithoutCancel(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := connection.Close(); err != nil {
					t.Error(err)
				}
			}()
			c := &taskClient{t: t, connection: connection}
			start := func() string {
				t.Helper()
				header.id = ""
				task, _ := c.send("tools/call", object{"name": "acme_later", "arguments": object{"call": "one"}})
				id, _ := task["taskId"].(string)
				if task["resultType"] != "task" || task["status"] != "working" || id == "" || task["pollIntervalMs"] == nil {
					t.Fatalf("the call is answered with %v", task)
				}
				header.id = id
				return id
			}
			canceled := start()
			if got, code := c.send("tasks/cancel", object{"taskId": canceled}); code != 0 || got["resultType"] != "complete" {
				t.Errorf("the cancellation: %v, code %d", got, code)
			}
			if got, _ := c.send("tasks/get", object{"taskId": canceled}); got["status"] != "cancelled" {
				t.Errorf("a canceled task: %v", got)
			}
			id := start()
			if got, _ := c.send("tasks/get", object{"taskId": id}); got["status"] != "working" || got["taskId"] != id {
				t.Errorf("a task: %v", got)
			}
			gate.Open()
			var got object
			for deadline := time.Now().Add(time.Minute); got["status"] != "completed"; {
				if time.Now().After(deadline) {
					t.Fatalf("the task does not end: %v", got)
				}
				got, _ = c.send("tasks/get", object{"taskId": id})
			}
			result, _ := got["result"].(object)
			output, _ := result["structuredContent"].(object)
			if output["call"] != "one" {
				t.Errorf("the result of the task: %v", result)
			}
			header.id = "none"
			if _, code := c.send("tasks/get", object{"taskId": "none"}); code != jsonrpc.CodeInvalidParams {
				t.Errorf("an unknown task has the code %d", code)
			}
		})
	}
}
