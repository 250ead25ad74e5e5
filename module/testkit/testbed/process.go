package testbed

import (
	"encoding/json" // for the member names of runtime.MemStats
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/prometheus/procfs"
)

// Environment variables of a test binary that runs Caddy.
const (
	asCaddy   = "TESTBED_CADDY"
	openFiles = "TESTBED_OPEN_FILES" // the limit of open files
)

// Main is a TestMain. It runs the tests, or Caddy in a process of [StartProcess].
func Main(m interface{ Run() int }) {
	if os.Getenv(asCaddy) == "" {
		_ = flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0)))) // the flag exists; tests with processes of their own mostly wait
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
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the test process
		os.Exit(3)
	}()
	caddycmd.Main()
	os.Exit(0)
}

// Limits bound a process.
type Limits struct {
	OpenFiles int      // 0: the limit of this process
	Env       []string // for example GOMEMLIMIT=100MiB
}

// A Process is Caddy in a child process.
type Process struct {
	server
	command *exec.Cmd
	file    string
	exited  chan struct{}
}

// StartProcess runs a Caddyfile in a child process until the test ends. It returns when Caddy listens
// on {$PORT}. The admin API is at {$ADMIN}, the log has all levels, in JSON, the storage is a
// temporary folder, and Caddy's certificate authorities are not added to the trust store of this
// machine. Global options have to be passed as options, not in the Caddyfile.
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
		dataHome+"="+p.dataHome(folder), "XDG_CONFIG_HOME="+folder, "GOCOVERDIR="+folder)
	if limits.OpenFiles > 0 {
		p.command.Env = append(p.command.Env, openFiles+"="+strconv.Itoa(limits.OpenFiles))
	}
	p.command.Env = append(p.command.Env, limits.Env...)
	p.command.Stderr = p.Log
	// The child process exits at the end of its input, also if this process is killed.
	stdin, err := p.command.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		_ = p.command.Wait() // ProcessState has the result
	}()
	tb.Cleanup(sync.OnceFunc(func() {
		_ = p.command.Process.Kill() // it may have exited already
		<-p.exited
		_ = stdin.Close() // the error does not matter
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

// dataHome returns the folder of the storage that the Caddyfile names, so that processes that share it share the default database, too.
func (p *Process) dataHome(otherwise string) string {
	text, err := os.ReadFile(p.file)
	if err != nil {
		p.tb.Fatal(err)
	}
	if found := storageFolder.FindSubmatch(text); found != nil {
		return string(found[1])
	}
	return otherwise
}

var storageFolder = regexp.MustCompile(`\sstorage file_system (\S+)`)

// awaitListener waits until Caddy listens on the port.
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

// PID returns the process id.
func (p *Process) PID() int { return p.command.Process.Pid }

// Reload runs another Caddyfile with the same ports, with options as in [StartProcess], and waits
// until the listeners of the old one are closed. On an error, the old one continues.
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

// Signal sends a signal. It skips the test on systems without signals.
func (p *Process) Signal(s os.Signal) {
	p.tb.Helper()
	if runtime.GOOS == "windows" {
		p.tb.Skip("processes take no signals here")
	}
	if err := p.command.Process.Signal(s); err != nil {
		p.tb.Errorf("sending %v: %v", s, err)
	}
}

// Exited returns a channel that is closed when the process has exited.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Wait waits until the process has exited, and returns its exit status, or -1 for a signal. It fails
// the test after atMost, with the stacks of all goroutines in the log.
func (p *Process) Wait(atMost time.Duration) int {
	p.tb.Helper()
	select {
	case <-p.exited:
		return p.command.ProcessState.ExitCode()
	case <-time.After(atMost):
		_ = p.command.Process.Signal(syscall.SIGABRT) // it may just have exited, or takes no signals
		select {
		case <-p.exited:
		case <-time.After(10 * time.Second):
		}
		p.tb.Fatalf("Caddy did not end within %s\n%s", atMost, p.Log.Text())
		return -1
	}
}

// RSS returns the resident memory of the process, in bytes.
func (p *Process) RSS() int64 {
	p.tb.Helper()
	return int64(measure(p.tb, p.PID(), procfs.Proc.NewStatus).VmRSS) //nolint:gosec // fits
}

// InUse returns the size of heap and stacks after a garbage collection, in bytes.
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

// CPU returns the processor time of the process.
func (p *Process) CPU() time.Duration {
	p.tb.Helper()
	return CPU(p.tb, p.PID())
}

// OpenFiles returns the number of open files of the process.
func (p *Process) OpenFiles() int {
	p.tb.Helper()
	return measure(p.tb, p.PID(), procfs.Proc.FileDescriptorsLen)
}
