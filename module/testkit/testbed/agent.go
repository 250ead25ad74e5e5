package testbed

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Agent returns a client of A2A 1.0 at /a2a of the same server.
func (c *Client) Agent(options ...Option) *Client {
	agent := c.With(append([]Option{Header("A2A-Version", "1.0")}, options...)...)
	agent.URL = strings.TrimSuffix(c.URL, "/rpc") + "/a2a"
	return agent
}

// A Task is a task of A2A 1.0.
type Task struct {
	ID      string `json:"id"`
	Context string `json:"contextId"`
	Status  struct {
		State   string `json:"state"`
		Message struct {
			Parts []struct {
				Text string         `json:"text"`
				Data jsontext.Value `json:"data"`
			} `json:"parts"`
		} `json:"message"`
		Timestamp time.Time `json:"timestamp"`
	} `json:"status"`
	Artifacts []struct {
		Parts []struct {
			Text string         `json:"text"`
			Data jsontext.Value `json:"data"`
		} `json:"parts"`
	} `json:"artifacts"`
	History  []jsontext.Value          `json:"history"`
	Metadata map[string]jsontext.Value `json:"metadata"`
}

// State returns the state without its prefix, such as WORKING.
func (t Task) State() string { return strings.TrimPrefix(t.Status.State, "TASK_STATE_") }

// Executed returns what the status says about the execution of the skill.
func (t Task) Executed() string {
	for _, part := range t.Status.Message.Parts {
		var data struct {
			Executed string `json:"executed"`
		}
		if json.Unmarshal(part.Data, &data) == nil && data.Executed != "" {
			return data.Executed
		}
	}
	return ""
}

// Task decodes the result of SendMessage, GetTask or CancelTask of A2A 1.0.
func (a Answer) Task() Task {
	var sent struct {
		Task *Task `json:"task"`
	}
	var t Task
	if json.Unmarshal(a.Result, &sent) == nil && sent.Task != nil {
		return *sent.Task
	}
	_ = json.Unmarshal(a.Result, &t) // missing members fail the test later
	return t
}

// A Page is a result of ListTasks.
type Page struct {
	Tasks []Task `json:"tasks"`
	Next  string `json:"nextPageToken"`
	Total int    `json:"totalSize"`
}

// Page decodes the result of ListTasks.
func (a Answer) Page() Page {
	var p Page
	_ = json.Unmarshal(a.Result, &p) // missing members fail the test later
	return p
}

// Message returns params of SendMessage that invoke a skill with a new call id. With immediately, the answer does not wait for the
// end of the run.
func Message(skill string, immediately bool) (params map[string]any, call string) {
	call = NewCall()
	return object{
		"message": object{
			"messageId": call, "role": "ROLE_USER",
			"parts": []object{{"data": object{"skill": skill, "input": object{"call": call}}}},
		},
		"configuration": object{"returnImmediately": immediately},
	}, call
}

// Invoke calls SendMessage with a new call id, which the answer has.
func (c *Client) Invoke(skill string, immediately bool) Answer {
	params, call := Message(skill, immediately)
	a := c.Call("SendMessage", params)
	a.Call = call
	return a
}

// GetTask calls GetTask.
func (c *Client) GetTask(id string) Answer { return c.Call("GetTask", object{"id": id}) }

// Stream is a stream of events.
type Stream struct {
	Response *http.Response // its body is read by Next
	tb       testing.TB
	lines    *bufio.Reader
	events   chan [2]string // id and data of each event
	end      context.CancelFunc
	err      error // once events is closed
}

// Stream calls a method that streams, and returns when the header has arrived. The end of the test closes the stream.
func (c *Client) Stream(method string, params any) *Stream {
	c.tb.Helper()
	s, body := c.stream(method, params)
	go s.read(body)
	return s
}

// Unread is [Client.Stream] of a client that reads nothing.
func (c *Client) Unread(method string, params any) *Stream {
	c.tb.Helper()
	s, _ := c.stream(method, params)
	return s
}

func (c *Client) stream(method string, params any) (*Stream, io.ReadCloser) {
	c.tb.Helper()
	body, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		c.tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(c.ctx)
	c.tb.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		c.tb.Fatal(err)
	}
	r.Header = c.header.Clone()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	response, err := c.HTTP.Do(r)
	if err != nil {
		c.tb.Fatal(err)
	}
	s := &Stream{Response: response, tb: c.tb, lines: bufio.NewReader(response.Body), events: make(chan [2]string, 1024), end: cancel}
	return s, response.Body
}

// read reads events until the stream ends.
func (s *Stream) read(body io.ReadCloser) {
	defer close(s.events)
	defer body.Close()
	var id string
	var data []string
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			s.err = err
			return
		}
		line = strings.TrimRight(line, "\r\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case name == "id":
			id = value
		case name == "data":
			data = append(data, value)
		case line == "" && data != nil:
			s.events <- [2]string{id, strings.Join(data, "\n")}
			id, data = "", nil
		}
	}
}

// Close ends the stream.
func (s *Stream) Close() { s.end() }

// An Event is an event of a stream of A2A 1.0, 0.3 or 0.1.
type Event struct {
	ID   string // of the event; empty: none
	Text string // the data
	Task *Task
	// State is the one of the event, without its prefix; empty: it has none.
	State    string
	Final    bool           // in 0.3 and 0.1
	Artifact jsontext.Value // nil: none
}

// String returns a short form: the state, or "artifact".
func (e Event) String() string {
	switch {
	case e.Artifact != nil:
		return "artifact"
	case e.Task != nil:
		return "task " + e.State
	case e.State == "":
		return e.Text
	case e.Final:
		return e.State + " final"
	}
	return e.State
}

// Next waits for the next event. ok is false at the end of the stream.
func (s *Stream) Next(atMost time.Duration) (e Event, ok bool) {
	s.tb.Helper()
	select {
	case event, open := <-s.events:
		if !open {
			return e, false
		}
		return parseEvent(event[0], event[1]), true
	case <-time.After(atMost):
		s.tb.Errorf("no event within %s", atMost)
		return e, false
	}
}

func parseEvent(id, text string) Event {
	e := Event{ID: id, Text: text}
	var answer struct {
		Result struct {
			Task         *Task `json:"task"`
			StatusUpdate *Task `json:"statusUpdate"`
			Update       *struct {
				Artifact jsontext.Value `json:"artifact"`
			} `json:"artifactUpdate"`
			// 0.3 and 0.1
			Kind     string         `json:"kind"`
			Final    bool           `json:"final"`
			Artifact jsontext.Value `json:"artifact"`
		} `json:"result"`
	}
	var bare struct {
		Result *Task `json:"result"`
	}
	if json.Unmarshal([]byte(text), &answer) != nil || json.Unmarshal([]byte(text), &bare) != nil || bare.Result == nil {
		return e
	}
	switch r := answer.Result; {
	case r.Task != nil:
		e.Task, e.State = r.Task, r.Task.State()
	case r.Kind == "task":
		e.Task, e.State = bare.Result, bare.Result.State()
	case r.StatusUpdate != nil:
		e.State = r.StatusUpdate.State()
	case r.Update != nil:
		e.Artifact = r.Update.Artifact
	default:
		e.State, e.Final, e.Artifact = bare.Result.State(), r.Final, r.Artifact
	}
	return e
}

// Rest returns the short forms of the events until the end of the stream.
func (s *Stream) Rest(atMost time.Duration) []string {
	s.tb.Helper()
	var all []string
	for {
		e, ok := s.Next(atMost)
		if !ok {
			return all
		}
		all = append(all, e.String())
	}
}

// Broken reports whether the connection of a stream was broken, after [Stream.Next] has told the end.
func (s *Stream) Broken() bool { return !errors.Is(s.err, io.EOF) }
