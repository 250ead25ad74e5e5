package faults_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// later returns a provider whose runs end when a gate is opened.
func later(t *testing.T) (*hostile.Provider, *hostile.Gate) {
	t.Helper()
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/later"}, hostile.Skill{ID: "acme/now"})
	gate := hostile.NewGate(t)
	p.On("acme/later", hostile.Invoke, hostile.Accept(0))
	p.On("acme/later", hostile.Status, gate.Then(hostile.Usual()))
	return p, gate
}

// unclear are params of SendMessage that choose no skill.
func unclear() hostile.Object {
	return hostile.Object{"message": hostile.Object{"messageId": "m", "role": "ROLE_USER", "parts": []hostile.Object{{"text": "hello"}}}}
}

// R61: a reload with other settings neither ends a stream nor loses or doubles one of its events, and streams of the new
// configuration have them, too.
func TestR61StreamsOverReloads(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]string{"in a file": "sqlite", "in memory": "memory"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, gate := later(t)
			config := func(lines ...string) string {
				return strings.Replace(withAgents(p, lines...), "\trpc\n", "\trpc\n\tstore "+store+"\n", 1)
			}
			c := testbed.StartProcess(t, testbed.Limits{}, config())
			ann := agentOf(unpooled(c.Client), "ann")
			params, call := testbed.Message("acme.later", false)
			sent := ann.Stream("SendStreamingMessage", params)
			first, _ := sent.Next(patience)
			if e, _ := sent.Next(patience); first.Task == nil || e.String() != "WORKING" {
				t.Fatalf("the stream begins with %s, %s", first, e)
			}
			id := first.Task.ID
			var streams []*testbed.Stream
			subscribe := func() {
				s := ann.Stream("SubscribeToTask", hostile.Object{"id": id})
				if e, _ := s.Next(patience); e.String() != "task WORKING" {
					t.Errorf("the first event is %s", e)
				}
				streams = append(streams, s)
			}
			subscribe()
			for _, lines := range [][]string{{"organization acme"}, {"description another"}, {"cancel abandon"}, {}} {
				if err := c.Reload(config(lines...)); err != nil {
					t.Fatal(err)
				}
				subscribe()
			}
			waiting := begin(func() testbed.Answer {
				again := unclear()
				again["message"].(hostile.Object)["taskId"] = id
				return ann.Call("SendMessage", again)
			})
			gate.Open()
			want := []string{"artifact", "COMPLETED"}
			for i, s := range append(streams, sent) {
				if got := s.Rest(patience); !slices.Equal(got, want) || s.Broken() {
					t.Errorf("stream %d: %q, broken %t", i, got, s.Broken())
				}
			}
			if a := receive(t, waiting); a.Task().State() != "COMPLETED" && a.Code != -32004 { // it may have ended already
				t.Errorf("a message to the task: %s", a)
			}
			if n := p.Posts(call); n != 1 {
				t.Errorf("%d invocations", n)
			}
			checkNoPanic(t, c.Log)
		})
	}
}

// R61: a reload that changes how tasks are kept changes nothing for the runs and streams of the old configuration, and the
// new one has the tasks, too.
func TestR61ReloadOfTasks(t *testing.T) {
	t.Parallel()
	p, gate := later(t)
	c := testbed.StartProcess(t, testbed.Limits{}, withAgents(p))
	ann := agentOf(unpooled(c.Client), "ann")
	begun := ann.Invoke("acme.later", true)
	id := begun.Task().ID
	testbed.Eventually(t, patience, func() bool { return ann.GetTask(id).Task().State() == "WORKING" }, "the run was accepted")
	streams := []*testbed.Stream{ann.Stream("SubscribeToTask", hostile.Object{"id": id})}
	if err := c.Reload(strings.Replace(withAgents(p), "\trpc\n", "\trpc\n\tkeep 12h 500\n", 1)); err != nil {
		t.Fatal(err)
	}
	streams = append(streams, ann.Stream("SubscribeToTask", hostile.Object{"id": id}))
	for _, s := range streams {
		if e, _ := s.Next(patience); e.String() != "task WORKING" {
			t.Errorf("the first event is %s", e)
		}
	}
	gate.Open()
	for i, s := range streams {
		if got := s.Rest(patience); !slices.Equal(got, []string{"artifact", "COMPLETED"}) {
			t.Errorf("stream %d: %q", i, got)
		}
	}
	if a := ann.GetTask(id); a.Task().State() != "COMPLETED" || len(a.Task().Artifacts) != 1 {
		t.Error(a)
	}
	checkOnce(t, p, begun)
}

// R62: a stop answers streams and waiting calls in time, and stores their tasks.
func TestR62Stop(t *testing.T) {
	t.Parallel()
	longtest.Need(t, longtest.Long)
	p, gate := later(t)
	silent := hostile.Skill{ID: "acme/silent"}
	p.Publish(silent)
	p.On("acme/silent", hostile.Invoke, hostile.Hang())
	folder := t.TempDir()
	c := testbed.StartProcess(t, testbed.Limits{}, withAgents(p), storage(folder), "grace_period 3s")
	ann := agentOf(unpooled(c.Client), "ann")
	asked := ann.Call("SendMessage", unclear()).Task()
	var streams []*testbed.Stream
	for _, skill := range []string{"acme.later", "acme.silent"} {
		params, _ := testbed.Message(skill, false)
		streams = append(streams, ann.Stream("SendStreamingMessage", params))
	}
	streams = append(streams, ann.Stream("SubscribeToTask", hostile.Object{"id": asked.ID}))
	ids := make([]string, len(streams))
	for i, s := range streams {
		e, _ := s.Next(patience)
		if e.Task == nil {
			t.Fatalf("the first event is %s", e)
		}
		ids[i] = e.Task.ID
	}
	waiting := begin(func() testbed.Answer { return ann.Invoke("acme.later", false) })
	background := ann.Invoke("acme.later", true)
	testbed.Eventually(t, patience, func() bool { return p.Runs() == 3 && gate.Waiting() == 3 }, "the runs are under way")
	told := time.Now()
	c.Signal(syscall.SIGTERM)
	a := receive(t, waiting)
	if a.Task().State() != "WORKING" {
		t.Errorf("the waiting call: %s", a)
	}
	for i, s := range streams {
		if s.Rest(patience); s.Broken() {
			t.Errorf("stream %d is broken off", i)
		}
	}
	if code := c.Wait(patience); code != 0 {
		t.Errorf("exit status %d", code)
	}
	if took := time.Since(told); took > 10*time.Second {
		t.Errorf("the stop took %s", took)
	}
	want := map[string]string{ids[0]: "WORKING", ids[1]: "FAILED", ids[2]: "INPUT_REQUIRED", a.Task().ID: "WORKING", background.Task().ID: "WORKING"}
	next := agentOf(testbed.StartProcess(t, testbed.Limits{}, withAgents(p), storage(folder)).Client, "ann")
	for id, state := range want {
		if got := next.GetTask(id); got.Task().State() != state {
			t.Errorf("%s: %s, want %s", id, got, state)
		}
	}
	gate.Open()
	for _, id := range []string{ids[0], a.Task().ID, background.Task().ID} {
		testbed.Eventually(t, patience, func() bool { return next.GetTask(id).Task().State() == "COMPLETED" }, "the run is followed by the next process")
	}
	checkDuplicates(t, p)
	checkNoPanic(t, c.Log)
}

// R62: without a grace period, a stop waits for the runs that streams wait for, but not for clients that have been asked for inputs.
func TestR62StopWithoutGracePeriod(t *testing.T) {
	t.Parallel()
	p, gate := later(t)
	folder := t.TempDir()
	c := testbed.StartProcess(t, testbed.Limits{}, withAgents(p), storage(folder))
	ann := agentOf(unpooled(c.Client), "ann")
	asked := ann.Stream("SubscribeToTask", hostile.Object{"id": ann.Call("SendMessage", unclear()).Task().ID})
	if e, _ := asked.Next(patience); e.String() != "task INPUT_REQUIRED" {
		t.Errorf("the first event is %s", e)
	}
	params, _ := testbed.Message("acme.later", false)
	sent := ann.Stream("SendStreamingMessage", params)
	sent.Next(patience)
	if e, _ := sent.Next(patience); e.String() != "WORKING" {
		t.Fatalf("the second event is %s", e)
	}
	c.Signal(syscall.SIGTERM)
	if got := asked.Rest(patience); len(got) != 0 || asked.Broken() {
		t.Errorf("events while the process stops: %q", got)
	}
	gate.Open()
	if got := sent.Rest(patience); !slices.Equal(got, []string{"artifact", "COMPLETED"}) {
		t.Errorf("events while the process stops: %q", got)
	}
	if code := c.Wait(patience); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

// R63: several readers of a task see the same events in the same order, whatever they are and whichever of them stops reading.
func TestR63Readers(t *testing.T) {
	t.Parallel()
	readers := 20
	if longtest.Runs(longtest.Long) {
		readers = 50
	}
	p, gate := later(t)
	large := strings.Repeat("x", 4<<20)
	p.On("acme/later", hostile.Status, gate.Then(hostile.RawOutput(`"`+large+`"`)))
	c := testbed.StartProcess(t, testbed.Limits{}, withAgents(p))
	ann := agentOf(c.Client, "ann")
	id := ann.Invoke("acme.later", true).Task().ID
	testbed.Eventually(t, patience, func() bool { return ann.GetTask(id).Task().State() == "WORKING" }, "the run was accepted")
	stuck := make([]*testbed.Stream, readers)
	for i := range stuck { // they take the header, and then nothing
		stuck[i] = ann.With(testbed.Fresh()).Unread("SubscribeToTask", hostile.Object{"id": id})
	}
	var wait sync.WaitGroup
	got := make([]string, readers)
	for i := range readers {
		s := ann.Stream("SubscribeToTask", hostile.Object{"id": id})
		wait.Go(func() {
			var events []string
			for {
				e, ok := s.Next(2 * patience)
				if !ok {
					break
				}
				events = append(events, e.String(), fmt.Sprint(len(e.Text)))
			}
			got[i] = strings.Join(events, " ")
		})
	}
	for range 10 { // messages are no events, but belong to the history
		again := unclear()
		again["message"].(hostile.Object)["taskId"] = id
		again["configuration"] = hostile.Object{"returnImmediately": true}
		if a := ann.Call("SendMessage", again); a.Task().State() != "WORKING" {
			t.Errorf("a message to the task: %s", a)
		}
	}
	testbed.Eventually(t, patience, func() bool { return p.Count("acme/later", hostile.Status) > 0 }, "the run is followed")
	gate.Open()
	wait.Wait()
	for i := range got {
		if !strings.HasPrefix(got[i], "task WORKING") || !strings.Contains(got[i], "artifact 4") || !strings.Contains(got[i], "COMPLETED") || i > 0 && skipTask(got[i]) != skipTask(got[0]) {
			t.Errorf("reader %d: %.300s; reader 0: %.300s", i, got[i], got[0])
		}
	}
}

// skipTask removes the first event, which has the history so far.
func skipTask(events string) string {
	_, rest, _ := strings.Cut(events, "artifact")
	return rest
}
