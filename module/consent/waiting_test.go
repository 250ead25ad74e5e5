package consent_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// TestWaitingAtTwoInstances: calls and tasks that wait for an account go on when the user has connected it, whichever of two instances has the page.
func TestWaitingAtTwoInstances(t *testing.T) {
	t.Parallel()
	atTwoInstances(t, func(b *bed) []string { return []string{"a2a", "mcp", source(b.provider, "acme", b.login)} },
		func(t *testing.T, b *bed, at [2]*testbed.Process) { //nolint:thelper // it is the test
			first, second, p := at[0], at[1], b.provider
			ada := b.browser(t, "ada")
			user := testbed.Header("X-User", "ada")

			var streams []*testbed.Stream
			for _, instance := range []*testbed.Process{first, second} {
				params, _ := testbed.Message("acme.book", false)
				stream := instance.Agent(user).Stream("SendStreamingMessage", params)
				for _, want := range []string{"task SUBMITTED", "AUTH_REQUIRED"} {
					e, _ := stream.Next(time.Minute)
					if e.String() != want {
						t.Fatalf("%s, want %s: %s", e, want, e.Text)
					}
					if want == "AUTH_REQUIRED" && !strings.Contains(e.Text, "/connect/acme?scopes=") {
						t.Errorf("%s", e.Text)
					}
				}
				streams = append(streams, stream)
			}
			const question = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"acme_book","arguments":{},MORE"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
				`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"url":{}}}}}}`
			ask := func(instance *testbed.Process, more string) testbed.Answer {
				c := instance.With(user, testbed.Header("MCP-Protocol-Version", "2026-07-28"), testbed.Header("Mcp-Method", "tools/call"), testbed.Header("Mcp-Name", "acme_book"))
				return c.Send(http.MethodPost, "http://127.0.0.1:"+instance.Port("PORT")+"/mcp", strings.Replace(question, "MORE", more, 1))
			}
			asked := string(ask(first, "").Body)
			_, state, _ := strings.Cut(asked, `"requestState":"`)
			state, _, _ = strings.Cut(state, `"`)
			if !strings.Contains(asked, `"resultType":"input_required"`) || state == "" {
				t.Fatal(asked)
			}
			var group sync.WaitGroup
			for _, instance := range []*testbed.Process{first, second} { // the second one opens what the first one has sealed
				group.Go(func() {
					a := ask(instance, `"requestState":"`+state+`","inputResponses":{"connect":{"action":"accept"}},`)
					if !strings.Contains(string(a.Body), `"resultType":"complete"`) || strings.Contains(string(a.Body), "isError") {
						t.Errorf("%s", a.Body)
					}
				})
			}
			<-time.After(time.Second)
			if n := p.Count("book", hostile.Invoke); n != 0 {
				t.Errorf("%d requests before the user has consented", n)
			}
			connected := time.Now()
			ada.connect()
			group.Wait()
			for _, stream := range streams {
				// Of the versions that another instance makes in short time, a stream may miss some.
				if got := strings.TrimPrefix(strings.Join(stream.Rest(time.Minute), ", "), "WORKING, "); got != "artifact, COMPLETED" {
					t.Error(got)
				}
			}
			if took := time.Since(connected); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
			if n := p.Count("book", hostile.Invoke); n != 4 {
				t.Errorf("%d requests, want 4", n)
			}
		})
}
