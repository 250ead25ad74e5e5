package stdio_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/stdio"
)

// requireLines requires that an output has only messages, one on each line.
func requireLines(t *testing.T, out []byte) {
	t.Helper()
	if len(out) > 0 && out[len(out)-1] != '\n' {
		t.Fatalf("half a line: %q", out)
	}
	for line := range bytes.Lines(out) {
		if line := bytes.TrimSuffix(line, []byte("\n")); !jsontext.Value(line).IsValid(jsontext.AllowDuplicateNames(true)) || bytes.ContainsAny(line, "\r\n") || line[0] != '{' && line[0] != ' ' {
			t.Fatalf("no message: %q", line)
		}
	}
}

// FuzzLines reads any input: each line is one message, with at most one answer, however it is split into reads.
func FuzzLines(f *testing.F) {
	for _, seed := range []string{
		request(1, "ping") + "\n", "{\r\n\n", "\ufeff[]\n{", strings.Repeat("x", 200), `{"id":1,"id":2,"method":"a","params":[]}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}` + "\n",
		`{"id":"\ud83d\ude00","method":"tools/call","params":{"name":"\n","_meta":{"io.modelcontextprotocol/protocolVersion":"é"}}}` + "\n",
	} {
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, in []byte, bytewise bool) {
		const longest = 150
		var reader io.Reader = bytes.NewReader(in)
		if bytewise {
			reader = iotest.OneByteReader(reader)
		}
		var seen [][]byte
		var out bytes.Buffer
		turn := make(chan struct{}, 1) // requests one at a time, so that they have an order
		err := stdio.Serve(t.Context(), reader, &out, func(r *http.Request) (*http.Response, error) {
			turn <- struct{}{}
			defer func() { <-turn }()
			body, err := io.ReadAll(r.Body)
			seen = append(seen, body)
			return &http.Response{StatusCode: http.StatusAccepted, Body: http.NoBody, Header: http.Header{}}, err
		}, stdio.Options{URL: "http://localhost/mcp", MaxMessage: longest})
		if err != nil {
			t.Fatal(err)
		}
		requireLines(t, out.Bytes())
		lines := 0
		for line := range bytes.Lines(in) {
			line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
			if len(bytes.Trim(line, " \t\r")) > 0 || len(line) > longest {
				lines++
			}
		}
		for _, body := range seen {
			if len(body) > longest || !bytes.Contains(in, body) || bytes.Contains(body, []byte("\n")) {
				t.Fatalf("the request %q", body)
			}
		}
		if answers := bytes.Count(out.Bytes(), []byte("\n")); answers > lines || len(seen) > lines {
			t.Fatalf("%d lines, %d requests, %d answers", lines, len(seen), answers)
		}
	})
}

// FuzzAnswers reads any answer: the output has messages only, and the last is the answer to the request.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{}}`, "data: {\"jsonrpc\":\"2.0\",\ndata: \"result\":1}\n\n", "data: {\"method\":\"a\"}\r\n\r\n: c\n\ndata", `{"id":1,"id":"\"","error":[],"result":1}`, "[]", "",
	} {
		f.Add(uint8(0), []byte(seed))
		f.Add(uint8(1), []byte(seed))
	}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		statuses := []int{200, 200, 202, 302, 401, 404, 500}
		header := http.Header{"Content-Type": {"application/json"}}
		if kind%2 == 1 {
			header.Set("Content-Type", "text/event-stream")
		}
		var out bytes.Buffer
		began := time.Now()
		err := stdio.Serve(t.Context(), strings.NewReader(`{"jsonrpc":"2.0","id":"\u0061","method":"initialize"}`+"\n"), &out, func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: statuses[int(kind)%len(statuses)], Header: header, Body: io.NopCloser(bytes.NewReader(body))}, nil
		}, stdio.Options{URL: "http://localhost/mcp"})
		if err != nil || time.Since(began) > time.Second {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
		requireLines(t, out.Bytes())
		last := out.Bytes()[bytes.LastIndexByte(bytes.TrimSuffix(out.Bytes(), []byte("\n")), '\n')+1:]
		id := 0
		decoder := jsontext.NewDecoder(bytes.NewReader(last), jsontext.AllowDuplicateNames(true))
		_, _ = decoder.ReadToken()
		for decoder.PeekKind() == '"' {
			name, _ := decoder.ReadToken()
			isID := name.String() == "id"
			value, _ := decoder.ReadValue()
			if isID && string(value) == `"\u0061"` {
				id++
			}
		}
		if id != 1 {
			t.Fatalf("the last line does not answer the request: %q", last)
		}
	})
}
