package faults_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// R68: what open streams and runs in the background take in memory, beside calls of execute_skill that wait: 100 of each, 5,000
// in the slow form, whose log has the figures.
func TestR68OpenStreams(t *testing.T) {
	open := 100
	if longtest.Runs(longtest.Minutes) {
		open = 5000
	}
	versions := []string{"HTTP/2"}
	if longtest.Runs(longtest.Long) {
		versions = []string{"HTTP/1.1", "HTTP/2"}
	}
	for _, version := range versions {
		for _, kind := range []string{"execute_skill", "stream of a message", "run in the background", "stream of one task"} {
			t.Run(version+" "+kind, func(t *testing.T) {
				p, _ := later(t)
				p.On("acme/later", hostile.Status, hostile.State("running"))
				c := testbed.StartProcess(t, testbed.Limits{}, strings.Replace(strings.Replace(withAgents(p), "\trpc\n", "\trpc\n\tkeep 24h 20000 20000\n", 1), polling, "", 1), "servers {\n\t\tprotocols h1 h2c\n\t}")
				p.Lean()
				c.Log.Lean()
				ann := agentOf(c.Client, "ann")
				task := ann.Invoke("acme.later", true).Task().ID
				testbed.Eventually(t, patience, func() bool { return ann.GetTask(task).Task().State() == "WORKING" }, "the run was accepted")
				used, resident := c.InUse(), c.RSS()
				var own *http.Transport
				for i := range open {
					if i%200 == 0 { // that many streams of HTTP/2 share a connection
						own = &http.Transport{Protocols: new(http.Protocols)}
						own.Protocols.SetHTTP1(version == "HTTP/1.1")
						own.Protocols.SetUnencryptedHTTP2(version == "HTTP/2")
						t.Cleanup(own.CloseIdleConnections)
					}
					client := ann.With()
					client.HTTP = &http.Client{Transport: own}
					switch kind {
					case "execute_skill":
						client.URL = c.URL
						go client.Execute("acme.later", nil)
					case "stream of a message":
						params, _ := testbed.Message("acme.later", false)
						client.Stream("SendStreamingMessage", params)
					case "run in the background":
						client.Invoke("acme.later", true)
					case "stream of one task":
						client.Stream("SubscribeToTask", hostile.Object{"id": task})
					}
				}
				if kind != "stream of one task" {
					testbed.Eventually(t, 2*patience, func() bool { return p.Runs() == open+1 }, "the runs are accepted")
				}
				each, grown := (c.InUse()-used)/int64(open), (c.RSS()-resident)/int64(open)
				t.Logf("%d: heap and stacks of each %d KB, resident %d KB", open, each/1000, grown/1000)
				if each > 120_000 {
					t.Errorf("%d bytes of heap and stacks for each", each)
				}
				c.Signal(os.Kill) // else it would wait for the runs
			})
		}
	}
}
