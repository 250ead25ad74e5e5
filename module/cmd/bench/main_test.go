package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/skill-bridge/caddy-skill-bridge/module"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/provider"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/servers"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/wire"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
)

// The test's binary is also Caddy and the upstream, so that the test builds no programs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "upstream":
			main()
			return
		case "run":
			caddycmd.Main()
			return
		}
	}
	os.Exit(m.Run())
}

// program returns arguments with the test's binary as Caddy, and the temporary folder for all files.
func program(t *testing.T, args ...string) (full []string, dir string) {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err = os.MkdirTemp("", "test-") // t.TempDir is too long: a socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil { // PostgreSQL has another user than root
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	return append([]string{"-short", "-caddy", binary}, args...), dir
}

// checkNothingLeft checks that no file and no process is left.
func checkNothingLeft(t *testing.T, dir string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) > 0 {
		t.Errorf("%v stayed behind", files)
	}
	threads, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(threads) == 0 {
		t.Fatalf("/proc has no threads of this process: %v", err)
	}
	for _, thread := range threads {
		if pids, _ := os.ReadFile(thread); len(pids) > 0 {
			t.Errorf("processes %s stayed behind", pids)
		}
	}
}

// A section that needs little time. The others are Long tests, because each takes seconds also in short.
func TestShortRun(t *testing.T) {
	shortRun(t, "garbage", "## What rarer garbage collections bring", "| GOGC 200 |")
}

// Each section writes a part of the report. The tests run the quick sections.
func TestSections(t *testing.T) {
	longtest.Need(t, longtest.Long)
	shortRun(t, "closed,async,watched,allocations,polling",
		"## Summary", "## Throughput and processor time", "| 64 KiB, 128 connections |", "| respond | upstream alone |",
		"## What a poll costs", "| each poll |", "## What it costs to watch", "| bridge, log and traces, all sampled |", "## Allocations", "## Polling: how late", "| ratio to back-off: delay / polls |", "## Polling over HTTP", "| adaptive | SDK waiter, by get_run |")
}

// The sections of descriptors as people publish them, and of large numbers.
func TestPublished(t *testing.T) {
	longtest.Need(t, longtest.Long)
	parts := []string{
		"## Skills as people publish them", "| to a poll |", "## HTTPS with HTTP/2", typical.name + "; HTTPS, HTTP/2 |",
		"| Time of all pages of 1,000 skills, ms |", "| Time of the page for browsers, 1,000 skills, ms |", "| Time of a page of 50 of 500 skills, 10 providers, ms |", "## Many runs at once", "| 64 |",
	}
	for _, s := range publishedShapes {
		parts = append(parts, "| "+s.name+" |")
	}
	shortRun(t, "published,https,catalog,atonce", parts...)
}

// The section of peers, without those that would be downloaded.
func TestPeers(t *testing.T) {
	longtest.Need(t, longtest.Long)
	t.Setenv("GOPROXY", "off")
	t.Setenv("npm_config_cache", t.TempDir())
	shortRun(t, "peers", "## What others make of one call", "| bridge: SendMessage (A2A) |", "| reverse_proxy |", "nginx with a script", "jrpc2 (Go)",
		peers[5].name+" (can't be installed)")
}

// shortRun runs sections, and checks that the report has some parts.
func shortRun(t *testing.T, sections string, parts ...string) {
	t.Helper()
	args, dir := program(t, "-only", sections, "-o", filepath.Join(t.TempDir(), "found.md"))
	if err := run(t.Context(), args, io.Discard, t.Output()); err != nil {
		t.Fatal(err)
	}
	checkNothingLeft(t, dir)
	text, err := os.ReadFile(args[len(args)-1])
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range parts {
		if !strings.Contains(string(text), part) {
			t.Errorf("the report has no %q", part)
		}
	}
	if t.Failed() {
		t.Logf("%s", text)
	}
}

// raceDetector reports whether the test's binary, and so Caddy, needs memory for the race detector.
var raceDetector bool

// The section of pending runs, with few of them. A call that waits over HTTP/1.1 takes some 25 KB of heap and 19 KB of stack, of which a stack that
// had to grow once more would take 16 KB.
func TestPending(t *testing.T) {
	longtest.Need(t, longtest.Long)
	args, dir := program(t, "-only", "pending")
	var found strings.Builder
	if err := run(t.Context(), args, &found, t.Output()); err != nil {
		t.Fatal(err)
	}
	checkNothingLeft(t, dir)
	_, row, _ := strings.Cut(found.String(), "| bridge, HTTP/1.1 | 1,000 |")
	var resident, heap, stack, goroutines float64
	_, err := fmt.Sscanf(row, "%f | %f | %f | %f", &resident, &heap, &stack, &goroutines)
	// The goroutines of a call are two. Each further one is half of a connection for polls, of which as many as 512 stay open.
	if each := heap + stack - 8*(goroutines-2); err != nil || each > 56 && !raceDetector {
		t.Errorf("a call that waits takes %.1f KB of heap and stack, want at most 56: %v; %.60s", each, err, row)
	}
	for _, part := range []string{"| reverse_proxy, HTTP/1.1 | 1,000 |", "| bridge, HTTP/2 | 210 |", "| reverse_proxy, HTTP/2 | 210 |"} {
		if !strings.Contains(found.String(), part) {
			t.Errorf("the report has no %q:\n%s", part, found.String())
		}
	}
}

// The section of open streams, with few of them.
func TestStreams(t *testing.T) {
	longtest.Need(t, longtest.Long)
	args, dir := program(t, "-only", "streams")
	var found strings.Builder
	if err := run(t.Context(), args, &found, t.Output()); err != nil {
		t.Fatal(err)
	}
	checkNothingLeft(t, dir)
	for _, f := range pendingStreams {
		for _, version := range []string{"HTTP/1.1", "HTTP/2"} {
			if part := "| " + f.name + ", " + version + " | 20 |"; !strings.Contains(found.String(), part) {
				t.Errorf("the report has no %q:\n%s", part, found.String())
			}
		}
	}
}

// onWrite calls a function on each Write.
type onWrite func()

func (f onWrite) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

// The section of databases, with few runs.
func TestLedger(t *testing.T) {
	longtest.Need(t, longtest.Long)
	shortRun(t, "ledger", "## Runs in a database", "| size of 1,000 kept runs, MB |", "| processor time of execute_skill with a key, ratio to that |",
		"| an end at one instance reaches another one after, ms, the slowest of 3 |")
}

// An interrupt stops everything.
func TestInterrupt(t *testing.T) {
	args, dir := program(t, "-only", "closed")
	ctx, cancel := context.WithCancel(t.Context())
	err := run(ctx, args, io.Discard, onWrite(cancel)) // the first message follows after everything was started
	if err == nil || !strings.HasPrefix(err.Error(), "interrupted in closed: ") {
		t.Errorf("an interrupted run ended with: %v", err)
	}
	checkNothingLeft(t, dir)
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ args, want string }{
		{"-only open,shut", "-only shut: there are closed, published, https, async, watched, garbage, a2a, mcp, peers, catalog, open, atonce, pending, streams, ledger, idle, allocations, polling"},
		{"-duration 1ms", "-duration is at least a second"},
		{"more", `unexpected argument "more"`},
	} {
		if _, err := parse(strings.Fields(tc.args), io.Discard); err == nil || err.Error() != tc.want {
			t.Errorf("bench %s: %v, want %s", tc.args, err, tc.want)
		}
	}
	o, err := parse([]string{"-short"}, io.Discard)
	if err != nil || len(o.only) != len(sections) || o.duration != time.Second {
		t.Errorf("bench -short: %+v, %v", o, err)
	}
}

// The error of a Caddy that does not start has its output.
func TestCaddyThatDoesNotStart(t *testing.T) {
	caddy := filepath.Join(t.TempDir(), "caddy")
	args, dir := program(t, "-only", "allocations")
	if err := os.WriteFile(caddy, []byte("#!/bin/sh\necho no such directive >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	err := run(t.Context(), append(args, "-caddy", caddy), io.Discard, io.Discard)
	if err == nil || err.Error() != "allocations: starting Caddy: it ended at once: no such directive" {
		t.Errorf("got %v", err)
	}
	checkNothingLeft(t, dir)
}

// A wrong answer ends a run.
func TestWrongAnswers(t *testing.T) {
	t.Parallel()
	const completed = `{"jsonrpc":"2.0","id":"req-000042","result":{"status":"completed","run_id":"r","summary":"s","output":`
	for _, tc := range []struct {
		name, path, answer string
		status             int
		want               string // empty: the answer is correct
	}{
		{"the bridge's", servers.BridgePath, completed + provider.Output + "}}", http.StatusOK, ""},
		{"the provider's", servers.ProxyPath, provider.NowAnswer, http.StatusOK, ""},
		{"the provider's, by the bridge", servers.BridgePath, provider.NowAnswer, http.StatusOK, "the target: a wrong answer: " + provider.NowAnswer[:10]},
		{"another output", servers.BridgePath, completed + `{"location":"Paris"}}}`, http.StatusOK, "the target: a wrong answer: "},
		{"a warning", servers.BridgePath, completed + provider.Output + `,"warnings":[{}]}}`, http.StatusOK, "the target: a wrong answer: "},
		{"another id", servers.BridgePath, strings.Replace(completed, "req-000042", "1", 1) + provider.Output + "}}", http.StatusOK, "the target: a wrong answer: "},
		{"more than the provider's", servers.ProxyPath, provider.NowAnswer + " ", http.StatusOK, "the target: a wrong answer: "},
		{"another status", servers.ProxyPath, provider.NowAnswer, http.StatusAccepted, "the target: HTTP 202: "},
		{"nothing", servers.ProxyPath, "", http.StatusOK, "the target: a wrong answer: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tc.status)
				fmt.Fprint(w, tc.answer)
			}))
			defer server.Close()
			to := &target{"the target", server.Listener.Addr().String(), tc.path, provider.Now, nil}
			l, err := newLoad(to, to.request(300), to.check, 1)
			if err == nil {
				l.close()
			}
			if (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// Answers that become wrong later end a run, too.
func TestWrongAnswerUnderLoad(t *testing.T) {
	t.Parallel()
	p := provider.New("http://example.com", 0)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go p.Serve(listener)
	to := &target{"the target", listener.Addr().String(), servers.ProxyPath, provider.Now, []int{os.Getpid()}}
	l, err := newLoad(to, to.request(300), to.check, openConnections)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	l.request = wire.Request(http.MethodGet, l.address, "/counts", nil)
	const want = "the target: a wrong answer: {"
	if _, err := l.run(time.Second); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("under load: %v, want %s", err, want)
	}
	if _, err := l.pace(time.Second); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("at a constant rate: %v, want %s", err, want)
	}
}
