package command_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rogpeppe/go-internal/testscript"

	_ "github.com/skill-bridge/caddy-skill-bridge/module"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"caddy": caddycmd.Main}) }

type object = hostile.Object

// newProvider publishes the skills that the scripts use.
func newProvider(t *testing.T) *hostile.Provider {
	t.Helper()
	p := hostile.NewProvider(t,
		hostile.Skill{ID: "acme/echo"},
		hostile.Skill{ID: "acme/types", Version: "2.1.0", Edit: func(d object) {
			input := func(name, kind string) object {
				return object{"name": name, "type": kind, "description": "Some " + kind + ".", "required": false}
			}
			nullable := input("nullable", "string")
			nullable["schema"] = object{"type": []string{"null", "string"}}
			count := input("count", "integer")
			count["default"] = 3
			text := input("text", "string")
			text["required"] = true
			d["inputs"] = []object{text, count, input("on", "boolean"), input("list", "array"), input("map", "object"), nullable}
		}},
		hostile.Skill{ID: "acme/slow"}, hostile.Skill{ID: "acme/elsewhere"}, hostile.Skill{ID: "acme/failing"},
		hostile.Skill{ID: "acme/never"}, hostile.Skill{ID: "acme/silent"}, hostile.Skill{ID: "acme/closed"},
		hostile.Skill{ID: "acme/locked", Auth: hostile.APIKey("X-Key"), Access: "private"},
		hostile.Skill{ID: "acme/oauth", Auth: hostile.OAuth2("https://login.example.com/token")},
		hostile.Skill{ID: "acme/broken", Edit: func(d object) {
			delete(d, "version")
			d["endpoint"].(object)["url"] = "ftp://example.com/"
		}},
		hostile.Skill{ID: "acme/future", Edit: func(d object) { d["protocol"] = object{"version": "2.0.0"} }},
		hostile.Skill{ID: "acme/loud", EditEntry: func(e object) { e["description"] = "red \x1b[31m alert\a" }},
		hostile.Skill{ID: "acme/port", Endpoint: "http://127.0.0.1:9/"},
		hostile.Skill{ID: "acme/unread"}, hostile.Skill{ID: "acme/timeouts"}, hostile.Skill{ID: "acme/gone"},
		hostile.Skill{ID: "acme/shy"}, hostile.Skill{ID: "acme/retired"},
		hostile.Skill{ID: "acme/afar", Auth: hostile.APIKey("X-Key"), Endpoint: "http://localhost:9/"},
		hostile.Skill{ID: "acme/word", Edit: func(d object) {
			d["inputs"] = []object{{"name": "text", "type": "string", "description": "A word.", "required": true, "schema": object{"minLength": 1}}}
		}},
	)
	p.On("acme/gone", hostile.Descriptor, hostile.Respond(http.StatusNotFound, ""))
	p.On("acme/retired", hostile.Invoke, hostile.Respond(http.StatusNotFound, ""))
	p.On("acme/shy", hostile.Invoke, hostile.Problem(http.StatusUnauthorized, "AUTH_REQUIRED", "Who are you?"))
	p.On("", hostile.Index, func(x *hostile.Exchange) {
		if key := x.Request.Header.Get("X-Api-Key"); key != "" && key != "open sesame" {
			hostile.Problem(http.StatusUnauthorized, "AUTH_REQUIRED", "A key is needed.")(x)
			return
		}
		hostile.Usual()(x)
	})
	p.On("acme/types", hostile.Invoke, func(x *hostile.Exchange) {
		var body struct {
			Inputs jsontext.Value `json:"inputs"`
		}
		if err := json.Unmarshal([]byte(x.Request.Body), &body); err != nil {
			t.Error(err)
		}
		hostile.Complete(body.Inputs)(x)
	})
	p.On("acme/slow", hostile.Invoke, hostile.Accept(1))
	p.On("acme/elsewhere", hostile.Invoke, func(x *hostile.Exchange) {
		x.JSON(http.StatusOK, x.Body("completed", object{"execution_id": "run-there"}))
	})
	p.On("acme/elsewhere", hostile.Result, hostile.Complete("from the result URL"))
	p.On("acme/failing", hostile.Invoke, hostile.AcceptFailing(0))
	p.On("acme/never", hostile.Invoke, hostile.Accept(1_000_000))
	p.On("acme/silent", hostile.Invoke, hostile.Hang())
	p.On("acme/unread", hostile.Descriptor, hostile.Respond(http.StatusNotFound, "")) // or as the script says
	p.On("acme/timeouts", hostile.Invoke, func(x *hostile.Exchange) {
		var body struct {
			Context struct {
				Timeout jsontext.Value `json:"timeout_ms"`
			} `json:"context"`
		}
		if err := json.Unmarshal([]byte(x.Request.Body), &body); err != nil {
			t.Error(err)
		}
		hostile.Complete(body.Context.Timeout)(x)
	})
	p.On("acme/closed", hostile.Invoke, hostile.Problem(http.StatusForbidden, "PERMISSION_DENIED", "Not for you."))
	p.On("acme/locked", hostile.Invoke, func(x *hostile.Exchange) {
		if x.Request.Header.Get("X-Key") != "open sesame" {
			hostile.Problem(http.StatusUnauthorized, "AUTH_REQUIRED", "A key is needed.")(x)
			return
		}
		hostile.Complete("unlocked")(x)
	})
	return p
}

func TestScripts(t *testing.T) {
	type provider struct{}
	testscript.Run(t, testscript.Params{
		Dir:                 "../../testdata/scripts",
		RequireExplicitExec: true,
		Condition: func(c string) (bool, error) {
			if c != longtest.Long.String() {
				return false, fmt.Errorf("there is no condition %q", c)
			}
			return longtest.Runs(longtest.Long), nil
		},
		Setup: func(e *testscript.Env) error {
			p := newProvider(t) // per script, because scripts count the runs
			e.Values[provider{}] = p
			e.Setenv("PROVIDER", p.URL())
			empty := hostile.NewProvider(t)
			empty.On("", hostile.Index, hostile.Respond(http.StatusOK, "", "Content-Type", "application/json"))
			e.Setenv("EMPTY", empty.URL())
			e.Setenv("DOCUMENTS", p.URL()+"/descriptors/acme%2F")
			e.Setenv("PORT", testbed.FreePort(t))
			e.Setenv("ADMIN", testbed.FreePort(t))
			e.Setenv("KEY", "open sesame")
			e.Setenv("WRONG_KEY", "abracadabra")
			e.Setenv("XDG_DATA_HOME", e.WorkDir)
			e.Setenv("XDG_CONFIG_HOME", e.WorkDir)
			e.Setenv("GORACE", os.Getenv("GORACE"))
			faults := `{"skills":[` + strings.Repeat("{},", 99) + `{}]}`
			return os.WriteFile(filepath.Join(e.WorkDir, "faults.json"), []byte(faults), 0o600)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "asks": asks, "await": await,
			"hang": func(ts *testscript.TestScript, _ bool, args []string) { // from now on, the provider does not answer requests for the descriptor of a skill
				ts.Value(provider{}).(*hostile.Provider).On(args[0], hostile.Descriptor, hostile.Hang())
			},
			"execute": func(_ *testscript.TestScript, _ bool, args []string) { // calls a skill over JSON-RPC, as an agent does
				testbed.NewClient(t, "http://"+args[0]+"/rpc").Execute(args[1], nil)
			},
			"keyed": func(_ *testscript.TestScript, _ bool, args []string) { // executes a skill with an idempotency key, as a user, and does not wait for its end
				c := testbed.NewClient(t, "http://"+args[0]+"/rpc").With(testbed.Header("X-User", args[1]), testbed.Header("Idempotency-Key", `"canary `+args[3]+`"`))
				c.With(testbed.Param("wait_ms", 0)).Execute(args[2], object{"text": "canary"})
			},
		},
	})
}

// exits runs caddy skill-bridge with the arguments after the first, which is the exit status that
// it requires.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec("caddy", append([]string{"skill-bridge"}, args[1:]...)...)
	status := 0
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		status = failed.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(status) != args[0] {
		ts.Fatalf("exit status %d, want %s", status, args[0])
	}
}

// asks is exits with the provider's URL inserted after the command's name.
func asks(ts *testscript.TestScript, neg bool, args []string) {
	words := []string{args[0], args[1], "--allow-http", "--allow-networks=127.0.0.1", ts.Getenv("PROVIDER")}
	exits(ts, neg, append(words, args[2:]...))
}

// await waits until a program listens on a port.
func await(ts *testscript.TestScript, _ bool, args []string) {
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", "127.0.0.1:"+args[0]); err == nil {
			_ = c.Close() // nothing was sent
			return
		} else if time.Now().After(deadline) {
			ts.Fatalf("%v", err)
		}
	}
}

// TestInterrupt interrupts commands that would never end.
func TestInterrupt(t *testing.T) {
	p := newProvider(t)
	polled := func() bool { return p.Count("acme/never", hostile.Status) > 0 }
	for _, tc := range []struct {
		name   string
		signal syscall.Signal
		args   []string
		until  func() bool
		out    string
		err    string
	}{
		{
			"call", syscall.SIGINT,
			[]string{"call", "@", "acme.never"},
			polled, "",
			"accepted run-1\ninterrupted; the run continues. Follow it with\n" +
				"  caddy skill-bridge follow --allow-http --allow-networks 127.0.0.1 " + p.URL() + " 127.0.0.1.acme.never run-1\n",
		},
		{
			"as JSON", syscall.SIGTERM,
			[]string{"call", "--json", "@", "acme.never"},
			func() bool { return p.Count("acme/never", hostile.Invoke) > 1 && polled() },
			`"execution_id":"run-2"`, "acme.never run-2\n",
		},
		{
			"follow", syscall.SIGTERM,
			[]string{"follow", "@", "acme/never", "run-1"},
			polled, "",
			"following run-1\ninterrupted; the run continues.",
		},
		{
			"before it is accepted", syscall.SIGINT,
			[]string{"call", "@", "acme.silent"},
			func() bool { return p.Hanging() > 0 }, "",
			"interrupted before there was an answer; the skill may have been executed\n",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := p.Count("acme/never", hostile.Status)
			args := []string{"skill-bridge", tc.args[0], "--allow-http", "--allow-networks=127.0.0.1"}
			for _, a := range tc.args[1:] {
				args = append(args, strings.Replace(a, "@", p.URL(), 1))
			}
			command := exec.CommandContext(t.Context(), "caddy", args...)
			var out, errs strings.Builder
			command.Stdout = &out
			stderr, err := command.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(stderr)
			if !strings.HasPrefix(tc.name, "before") { // the line appears after the signal handler was set and the run is known
				first, err := lines.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				errs.WriteString(first)
			}
			testbed.Eventually(t, time.Minute, func() bool {
				return tc.until() && (strings.HasPrefix(tc.name, "before") || p.Count("acme/never", hostile.Status) > before)
			}, "the provider is asked")
			if err := command.Process.Signal(tc.signal); err != nil {
				t.Fatal(err)
			}
			_, _ = lines.WriteTo(&errs) // until the process ends
			failed, ok := errors.AsType[*exec.ExitError](command.Wait())
			if !ok || failed.ExitCode() != 130 {
				t.Errorf("%v, want exit status 130", failed)
			}
			if !strings.Contains(errs.String(), tc.err) || !strings.Contains(out.String(), tc.out) ||
				tc.out == "" && out.Len() > 0 || strings.Contains(out.String(), `"error"`) {
				t.Errorf("said %q and %q, want %q and %q", errs.String(), out.String(), tc.err, tc.out)
			}
		})
	}
}

// TestInterruptReading interrupts validate while it waits for a document that does not
// end.
func TestInterruptReading(t *testing.T) {
	fifo := hostile.Pipe(t)
	for _, tc := range []struct {
		name, from string
		signal     syscall.Signal
	}{
		{"standard input", "-", syscall.SIGINT},
		{"standard input, SIGTERM", "-", syscall.SIGTERM},
		{"FIFO", fifo, syscall.SIGINT},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // ends the command if the interrupt does not
			defer cancel()
			command := exec.CommandContext(ctx, "caddy", "skill-bridge", "validate", tc.from)
			var out, errs strings.Builder
			command.Stdout, command.Stderr = &out, &errs
			stdin, err := command.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			if tc.from == fifo { // opening it blocks until the command has opened it
				file, err := os.OpenFile(fifo, os.O_WRONLY, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer file.Close()
			} else if _, err := stdin.Write(make([]byte, 1<<20)); err != nil { // more than a pipe buffers, so the command reads
				t.Fatal(err)
			}
			if err := command.Process.Signal(tc.signal); err != nil {
				t.Fatal(err)
			}
			failed, ok := errors.AsType[*exec.ExitError](command.Wait())
			if !ok || failed.ExitCode() != 130 || out.Len() > 0 || errs.String() != "interrupted\n" {
				t.Errorf("%v, %q and %q, want exit status 130", failed, &out, &errs)
			}
		})
	}
}

// TestClosedPipe: a command whose output is closed ends without an error message.
func TestClosedPipe(t *testing.T) {
	p := newProvider(t)
	for name, args := range map[string][]string{
		"a table": {"list"}, "JSON": {"list", "--json"},
	} {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := read.Close(); err != nil {
			t.Fatal(err)
		}
		command := exec.CommandContext(t.Context(), "caddy", slices.Concat([]string{"skill-bridge"}, args, []string{"--allow-http", "--allow-networks=127.0.0.1", p.URL()})...)
		var errs strings.Builder
		command.Stdout, command.Stderr = write, &errs
		failed, ok := errors.AsType[*exec.ExitError](command.Run())
		if !ok || failed.Sys().(syscall.WaitStatus).Signal() != syscall.SIGPIPE || errs.Len() > 0 {
			t.Errorf("%s: %v, %q", name, failed, &errs)
		}
		if err := write.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestServeTaken starts bridges on ports that are in use.
func TestServeTaken(t *testing.T) {
	for _, tc := range []struct{ taken, listen string }{
		{"127.0.0.1:", "localhost:"},
		{"[::1]:", "localhost:"}, // clients may use either
		{"127.0.0.1:", ":"},
		{":", "127.0.0.1:"},
	} {
		l, err := net.Listen("tcp", tc.taken+"0")
		if err != nil {
			t.Logf("%s: %v", tc.taken, err) // there is no IPv6 here
			continue
		}
		listen := tc.listen + strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
		serveTaken(t, listen)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// serveTaken starts a bridge on a port that is in use, and requires that it fails.
func serveTaken(t *testing.T, listen string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // ends a bridge that starts
	defer cancel()
	command := exec.CommandContext(ctx, "caddy", "skill-bridge", "--provider", "https://skills.example.com", "--listen", listen)
	var out, errs strings.Builder
	command.Stdout, command.Stderr = &out, &errs
	failed, ok := errors.AsType[*exec.ExitError](command.Run())
	if !ok || failed.ExitCode() != 1 || out.Len() > 0 ||
		!strings.HasPrefix(errs.String(), "Error: "+listen+" is in use") || !strings.Contains(errs.String(), "\nNext:  stop that program, or use another port, such as --listen ") {
		t.Errorf("--listen %s: %v, %q and %q", listen, failed, &out, &errs)
	}
}

// TestServe runs a bridge without a config file, calls a skill, and stops it.
func TestServe(t *testing.T) {
	p := newProvider(t)
	port := testbed.UnusedPort(t)
	command := exec.CommandContext(t.Context(), "caddy", "skill-bridge", "--provider", p.URL(), "--allow-http", "--allow-networks", "127.0.0.1",
		"--listen", "127.0.0.1:"+port, "--path", "/agents", "--api-key-env", "KEY", "--debug")
	folder := t.TempDir()
	command.Env = append(os.Environ(), "KEY=open sesame", "XDG_DATA_HOME="+folder, "XDG_CONFIG_HOME="+folder)
	var log strings.Builder
	command.Stderr = &log
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	endpoint, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if want := "http://127.0.0.1:" + port + "/agents\n"; endpoint != want {
		t.Fatalf("the endpoint is %q, want %q", endpoint, want)
	}
	endpoint = strings.TrimSpace(endpoint)
	const request = `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"acme/locked"}}`
	for _, tc := range []struct {
		url, host, want string
		status          int
	}{
		{endpoint, "localhost:" + port, `"output":"unlocked"`, http.StatusOK},
		{endpoint, "127.0.0.1:" + port, `"output":"unlocked"`, http.StatusOK},
		{endpoint, "rebound.example.com", "", http.StatusNotFound},
		{strings.Replace(endpoint, "/agents", "/rpc", 1), "localhost", "", http.StatusNotFound},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, tc.url, strings.NewReader(request))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = tc.host
		r.Header.Set("Content-Type", "application/json")
		w, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := bufio.NewReader(w.Body).ReadString('\n')
		_ = w.Body.Close()
		if w.StatusCode != tc.status || !strings.Contains(body, tc.want) {
			t.Errorf("%s as %s: %d %s (%v)", tc.url, tc.host, w.StatusCode, body, err)
		}
	}
	serveTaken(t, "127.0.0.1:"+port) // Caddy shares ports between its processes
	sameNames(t, p, endpoint)
	http.DefaultClient.CloseIdleConnections()
	if err := command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		t.Errorf("stopping: %v", err)
	}
	if strings.Contains(log.String(), "open sesame") || !strings.Contains(log.String(), "bridge ready") {
		t.Errorf("the log has the key or lacks the start: %s", fmt.Sprintf("%.2000s", log.String()))
	}
}

// sameNames requires that the command list and a bridge list the same names, and that both
// accept them.
func sameNames(t *testing.T, p *hostile.Provider, endpoint string) {
	t.Helper()
	run := func(command string, further ...string) []byte {
		args := append([]string{"skill-bridge", command, "--allow-http", "--allow-networks=127.0.0.1", p.URL()}, further...)
		text, err := exec.CommandContext(t.Context(), "caddy", args...).Output()
		if err != nil {
			t.Errorf("%s %v: %v", command, further, err)
		}
		return text
	}
	var listing struct {
		Skills []struct {
			Name string `json:"name"`
		} `json:"skills"`
	}
	if err := json.Unmarshal(run("list", "--json"), &listing); err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, skill := range listing.Skills {
		listed = append(listed, skill.Name)
	}
	client := testbed.NewClient(t, endpoint)
	if names := client.Names(); !slices.Equal(names, listed) {
		t.Errorf("list has %v, the bridge %v", listed, names)
	}
	const echo = "127.0.0.1.acme.echo"
	if a := client.Execute(echo, nil); a.Status != http.StatusOK || a.Code != 0 {
		t.Errorf("%s: %+v", echo, a)
	}
	run("call", echo)
	run("describe", echo)
}
