package stdio_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/stdio"
)

// TestRequests: requests are those of Streamable HTTP, in both eras.
func TestRequests(t *testing.T) {
	encoded := func(text string) string {
		return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(text)) + "?="
	}
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
	const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`
	for _, tc := range []struct {
		name     string
		messages []string
		want     map[string]string // of the last message
	}{
		{"legacy, before initialize", []string{request(1, "ping")}, map[string]string{}},
		{"initialize again", []string{initialize, initialize}, map[string]string{}},
		{"legacy", []string{initialize, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`}, map[string]string{"Mcp-Protocol-Version": "2025-06-18"}},
		{"a legacy notification", []string{initialize, `{"jsonrpc":"2.0","method":"notifications/initialized"}`}, map[string]string{"Mcp-Protocol-Version": "2025-06-18"}},
		{"modern", []string{`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + meta + `}}`}, map[string]string{
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover",
		}},
		{"modern, after initialize", []string{initialize, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `}}`}, map[string]string{
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list",
		}},
		{"a tool", []string{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"acme_weather",` + meta + `}}`}, map[string]string{
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "acme_weather",
		}},
		{"a resource", []string{`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{` + meta + `,"name":"x","uri":"skill://a/SKILL.md"}}`}, map[string]string{
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "resources/read", "Mcp-Name": "skill://a/SKILL.md",
		}},
		{"a task", []string{`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{` + meta + `,"taskId":"t"}}`}, map[string]string{
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tasks/get", "Mcp-Name": "t",
		}},
		{"no name", []string{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7,"":"x",` + meta + `}}`}, map[string]string{
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call",
		}},
		{"an encoded name", []string{`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"h\u00f6r zu\n",` + meta + `}}`}, map[string]string{
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "prompts/get", "Mcp-Name": encoded("hör zu\n"),
		}},
		{"a name with spaces", []string{`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":" a b",` + meta + `}}`}, map[string]string{
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "prompts/get", "Mcp-Name": encoded(" a b"),
		}},
		{"a name that looks encoded", []string{`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"=?base64?YQ==?=",` + meta + `}}`}, map[string]string{
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "prompts/get", "Mcp-Name": encoded("=?base64?YQ==?="),
		}},
		{"an empty name", []string{`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"",` + meta + `}}`}, map[string]string{
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "prompts/get", "Mcp-Name": encoded(""),
		}},
		{"a version that no header can have", []string{`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"a\r\nX: y"}}}`}, map[string]string{
			"Mcp-Method": "ping",
		}},
		{"a version that is no text", []string{`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":1}}}`}, map[string]string{
			"Mcp-Method": "ping",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var header http.Header
				var body, method string
				do := stdio.InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					text, _ := io.ReadAll(r.Body)
					header, body, method = r.Header, string(text), r.Method
					if strings.Contains(body, `"initialize"`) {
						_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18"}}`)
						return
					}
					w.WriteHeader(http.StatusAccepted)
				}))
				c := start(t, do, stdio.Options{}).reads()
				for _, m := range tc.messages {
					c.send(m)
					synctest.Wait()
				}
				c.end()
				synctest.Wait()
				if last := tc.messages[len(tc.messages)-1]; body != last || method != http.MethodPost {
					t.Errorf("%s %s", method, body)
				}
				if header.Get("Content-Type") != "application/json" || header.Get("Accept") != "application/json, text/event-stream" {
					t.Errorf("%v", header)
				}
				for _, name := range []string{"Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"} {
					want, wanted := tc.want[name]
					if values := header.Values(name); len(values) > 0 != wanted || wanted && values[0] != want {
						t.Errorf("%s is %q, want %q", name, values, want)
					}
				}
			})
		})
	}
}

// TestHeaderParams: calls repeat the arguments in header fields for which the last list of tools demands it.
func TestHeaderParams(t *testing.T) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `}}`
	const schema = `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"x-mcp-header":"N"},"bad":{"x-mcp-header":"a:b\r\n"},"plain":{},"in":{"properties":{"deep":{"x-mcp-header":"Deep"}}}}}`
	const arguments = `{"in":{"deep":true},"n":1.50,"plain":"x","bad":"x","region":"Köln"}`
	call := func(name, arguments string) string {
		return `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"arguments":` + arguments + `,"name":"` + name + `",` + meta + `}}`
	}
	for _, tc := range []struct {
		name, listed string // the result of tools/list
		messages     []string
		want         map[string]string
	}{
		{"all kinds", `{"tools":[{"name":"b","inputSchema":{}},{"name":"a","inputSchema":` + schema + `}]}`, []string{list, call("a", arguments)}, map[string]string{
			"Mcp-Param-Region": "=?base64?S8O2bG4=?=", "Mcp-Param-N": "1.50", "Mcp-Param-Deep": "true",
		}},
		{"some", `{"tools":[{"name":"a","inputSchema":` + schema + `}]}`, []string{list, call("a", `{"region":"eu"}`)}, map[string]string{"Mcp-Param-Region": "eu"}},
		{"another tool", `{"tools":[{"name":"a","inputSchema":` + schema + `}]}`, []string{list, call("b", arguments)}, nil},
		{"not listed yet", `{"tools":[{"name":"a","inputSchema":` + schema + `}]}`, []string{call("a", arguments)}, nil},
		{"no object", `{"tools":[{"name":"a","inputSchema":` + schema + `}]}`, []string{list, call("a", `["x"]`)}, nil},
		{"no list", `{"tools":{"x-mcp-header":1}}`, []string{list, call("a", arguments)}, nil},
		{"not any more", "", []string{list, list, call("a", arguments)}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lists := 0
				var header http.Header
				c := start(t, answers(func(r *http.Request, m rpc) string {
					header = r.Header
					switch lists++; {
					case m.Method != "tools/list":
						return "1"
					case tc.listed != "":
						return tc.listed
					case lists == 1:
						return `{"tools":[{"name":"a","inputSchema":` + schema + `}]}`
					}
					return `{"tools":[{"name":"a","inputSchema":{}}]}`
				}), stdio.Options{}).reads()
				for _, m := range tc.messages {
					c.send(m)
					synctest.Wait()
				}
				c.end()
				got := map[string]string{}
				for name, values := range header {
					if strings.HasPrefix(name, "Mcp-Param-") {
						got[name] = strings.Join(values, ", ")
					}
				}
				if !maps.Equal(got, tc.want) {
					t.Errorf("the fields are %v, want %v", got, tc.want)
				}
			})
		})
	}
}

// TestUnlistedParams: a call that is refused, since the client has not listed the tool, is sent again with the fields of the lists.
func TestUnlistedParams(t *testing.T) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
	const tool = `{"tools":[{"name":"a","inputSchema":{"properties":{"region":{"x-mcp-header":"Region"}}}}]}`
	for _, tc := range []struct {
		name   string
		lists  []string // the results of tools/list
		accept string   // a call is refused unless its field has this value
		want   string   // a part of the answer
		calls  int
	}{
		{"on the first page", []string{tool}, "eu", `"result":"called"`, 2},
		{"on another page", []string{`{"tools":[{"name":"b"}],"nextCursor":"2"}`, tool}, "eu", `"result":"called"`, 2},
		{"still refused", []string{tool}, "us", `-32020`, 2},
		{"no field", []string{`{"tools":[{"name":"a","inputSchema":{}}]}`}, "eu", `-32020`, 1},
		{"not listed", []string{`{"tools":[]}`}, "eu", `-32020`, 1},
		{"no list", []string{`7`}, "eu", `-32020`, 1},
		{"endless", nil, "eu", `-32020`, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lists, calls := 0, 0
				c := start(t, stdio.InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					body, _ := io.ReadAll(r.Body)
					switch listed := bytes.Contains(body, []byte("tools/list")); {
					case listed && r.Header.Get("Mcp-Method") != "tools/list" || bytes.Contains(body, []byte(`"cursor"`)) != (listed && lists > 0):
						t.Errorf("%v: %s", r.Header, body)
					case listed && tc.lists == nil:
						lists++
						fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":{"tools":[],"nextCursor":"%d"}}`, lists)
					case listed:
						lists++
						fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":%s}`, tc.lists[lists-1])
					case r.Header.Get("Mcp-Param-Region") == tc.accept:
						calls++
						fmt.Fprint(w, `{"jsonrpc":"2.0","id":9,"result":"called"}`)
					default:
						calls++
						w.WriteHeader(http.StatusBadRequest)
						fmt.Fprint(w, `{"jsonrpc":"2.0","id":9,"error":{"code":-32020,"message":"HeaderMismatch"}}`)
					}
				})), stdio.Options{}).reads()
				c.send(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"arguments":{"region":"eu"},"name":"a",` + meta + `}}`)
				if answer := c.read(); !strings.Contains(answer, tc.want) || !strings.Contains(answer, `"id":9`) || calls != tc.calls || lists > 200 {
					t.Errorf("%d calls, %d lists: %s", calls, lists, answer)
				}
				if rest := c.end(); len(rest) > 0 {
					t.Errorf("more than one answer: %q", rest)
				}
			})
		})
	}
}
