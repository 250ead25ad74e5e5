package testbed

import (
	"encoding/json" // for the names of package runtime
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/prometheus/procfs"
)

// The environment variables that make a test binary a Caddy.
const (
	asCaddy   = "TESTBED_CADDY"
	openFiles = "TESTBED_OPEN_FILES" // how many it may have open
)

// Main is a TestMain that runs the tests, or Caddy in a process that
// [StartProcess] started.
func Main(m interface{ Run() int }) {
	if os.Getenv(asCaddy) == "" {
		os.Exit(m.Run())
	}
	if text := os.Getenv(openFiles); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err == nil {
			err = limitOpenFiles(n)
		}
		if err != nil {
			panic(err)
		}
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the tests' process ends
		os.Exit(3)
	}()
	caddycmd.Main()
	os.Exit(0)
}

// Limits bound a process.
type Limits struct {
	OpenFiles int      // 0: as many as this process may have
	Env       []string // for example GOMEMLIMIT=100MiB
}

// A Process is a Caddy in a process of its own.
type Process struct {
	server
	command *exec.Cmd
	file    string
	exited  chan struct{}
}

// StartProcess runs a Caddyfile in a process of its own until the test ends, and
// returns when {$PORT} is listened on. It has an admin API at {$ADMIN}, logs
// everything, in JSON, stores things in a temporary folder, and keeps its
// certificate authorities out of what this machine trusts: the Caddyfile has no
// global options but those given here, each as one or more lines.
func StartProcess(tb testing.TB, limits Limits, caddyfile string, options ...string) *Process {
	tb.Helper()
	if runtime.GOOS == "windows" && limits.OpenFiles > 0 {
		tb.Skip("the open files of a process can't be limited here")
	}
	folder := tb.TempDir()
	p := &Process{
		server: server{Log: newLog(tb), tb: tb, ports: ports{}},
		exited: make(chan struct{}), file: filepath.Join(folder, "Caddyfile"),
	}
	p.write(caddyfile, options)
	program, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	p.command = exec.Command(program, "run", "--config", p.file, "--adapter", "caddyfile")
	p.command.Env = append(os.Environ(), asCaddy+"=1", "HOME="+folder,
		"XDG_DATA_HOME="+folder, "XDG_CONFIG_HOME="+folder, "GOCOVERDIR="+folder)
	if limits.OpenFiles > 0 {
		p.command.Env = append(p.command.Env, openFiles+"="+strconv.Itoa(limits.OpenFiles))
	}
	p.command.Env = append(p.command.Env, limits.Env...)
	p.command.Stderr = p.Log
	// The process ends itself when its input does, as it does when this one dies.
	stdin, err := p.command.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		_ = p.command.Wait() // the state has it
	}()
	tb.Cleanup(sync.OnceFunc(func() {
		_ = p.command.Process.Kill() // it may have ended
		<-p.exited
		_ = stdin.Close() // nothing can be done about it
	}))
	p.Client = NewClient(tb, "http://"+loopback+":"+p.ports.fill(tb, "{$PORT}")+"/rpc")
	p.awaitListener()
	return p
}

func (p *Process) write(caddyfile string, options []string) {
	p.tb.Helper()
	text := "{\n\tadmin " + loopback + ":{$ADMIN}\n\tpersist_config off\n\tskip_install_trust\n\tlog {\n\t\tlevel DEBUG\n\t\tformat json\n\t}\n" +
		indent("\t", options) + "}\n" + caddyfile
	if err := os.WriteFile(p.file, []byte(p.ports.fill(p.tb, text)), 0o600); err != nil {
		p.tb.Fatal(err)
	}
}

// awaitListener waits until the port is listened on.
func (p *Process) awaitListener() {
	p.tb.Helper()
	address := net.JoinHostPort(loopback, p.Port("PORT"))
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if c, err := net.DialTimeout("tcp", address, time.Second); err == nil {
			_ = c.Close() // nothing was sent
			return
		}
		select {
		case <-p.exited:
			p.tb.Fatalf("Caddy ended: %v\n%s", p.command.ProcessState, p.Log.Text())
		case <-time.After(20 * time.Millisecond):
		}
	}
	p.tb.Fatalf("nothing listens on %s\n%s", address, p.Log.Text())
}

// PID is the process's id.
func (p *Process) PID() int { return p.command.Process.Pid }

// Reload runs another Caddyfile, in which the words stand for the same ports,
// with global options as in [StartProcess], and waits until the old one listens no
// more. On an error the old one goes on.
func (p *Process) Reload(caddyfile string, options ...string) error {
	p.tb.Helper()
	p.write(caddyfile, options)
	text, err := os.ReadFile(p.file)
	if err != nil {
		return err
	}
	a := p.With(Fresh(), Header("Content-Type", "text/caddyfile")).Send(http.MethodPost, p.Admin()+"/load", string(text))
	if a.Err == nil && a.Status != http.StatusOK {
		return errors.New(strings.TrimSpace(string(a.Body)))
	}
	if a.Err != nil {
		return a.Err
	}
	p.ports.settle(p.tb)
	return nil
}

// Signal sends a signal. The test is skipped where processes take none.
func (p *Process) Signal(s os.Signal) {
	p.tb.Helper()
	if runtime.GOOS == "windows" {
		p.tb.Skip("processes take no signals here")
	}
	if err := p.command.Process.Signal(s); err != nil {
		p.tb.Errorf("sending %v: %v", s, err)
	}
}

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Wait waits for the process to end and returns its exit status, or -1 for a
// signal. It fails the test if that takes longer.
func (p *Process) Wait(atMost time.Duration) int {
	p.tb.Helper()
	select {
	case <-p.exited:
		return p.command.ProcessState.ExitCode()
	case <-time.After(atMost):
		p.tb.Fatalf("Caddy did not end within %s\n%s", atMost, p.Log.Text())
		return -1
	}
}

// RSS is the memory that the process occupies, in bytes.
func (p *Process) RSS() int64 {
	p.tb.Helper()
	return int64(measure(p.tb, p.PID(), procfs.Proc.NewStatus).VmRSS) //nolint:gosec // fits
}

// InUse is how many bytes of its heap and stacks the process uses after all garbage was collected.
func (p *Process) InUse() int64 {
	p.tb.Helper()
	var variables struct {
		Memory runtime.MemStats `json:"memstats"`
	}
	p.Send(http.MethodGet, p.Admin()+"/debug/pprof/heap?gc=1", "")
	a := p.Send(http.MethodGet, p.Admin()+"/debug/vars", "")
	if err := json.Unmarshal(a.Body, &variables); err != nil {
		p.tb.Fatalf("no figures of memory: %v, %v", err, a)
	}
	return int64(variables.Memory.HeapAlloc + variables.Memory.StackInuse) //nolint:gosec // fits
}

// CPU is the processor time that the process has used.
func (p *Process) CPU() time.Duration {
	p.tb.Helper()
	return CPU(p.tb, p.PID())
}

// OpenFiles is how many files the process has open.
func (p *Process) OpenFiles() int {
	p.tb.Helper()
	return measure(p.tb, p.PID(), procfs.Proc.FileDescriptorsLen)
}
