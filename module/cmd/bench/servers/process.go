package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/failure"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/wire"
)

// Process is a child process.
type Process struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.Closer // the program may exit when it is closed
	errors *tail
	ended  chan struct{}
}

// start starts a program with additional environment variables. It is stopped at the end of the
// section.
func (s *Starter) start(environment []string, stdout io.Writer, name, file string, args ...string) *Process {
	p := &Process{name: name, cmd: exec.CommandContext(s.Context, file, args...), errors: new(tail), ended: make(chan struct{})}
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 5 * time.Second
	p.cmd.Stdout, p.cmd.Stderr = stdout, p.errors
	p.cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+s.Dir, "XDG_CONFIG_HOME="+s.Dir) // for Caddy's files
	p.cmd.Env = append(p.cmd.Env, environment...)
	stdin, err := p.cmd.StdinPipe()
	if err = errors.Join(err, p.cmd.Start()); err != nil {
		failure.Check(fmt.Errorf("starting %s: %w", name, err))
	}
	p.stdin = stdin
	go func() {
		_ = p.cmd.Wait() // the exit status does not matter
		close(p.ended)
	}()
	s.AtEnd(p.Stop)
	return p
}

// StartServer starts a program whose first line of output has its address, or several.
func (s *Starter) StartServer(name, file string, args ...string) (p *Process, addresses []string) {
	r, w := io.Pipe()
	p = s.start(nil, w, name, file, args...)
	go func() {
		<-p.ended
		w.CloseWithError(errors.New("it ended at once: " + p.errors.String()))
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		failure.Check(fmt.Errorf("starting %s: %w", name, err))
	}
	return p, strings.Fields(line)
}

// Stop stops the process and waits until it has exited.
func (p *Process) Stop() {
	_ = p.stdin.Close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// ready waits until the process listens on an address.
func (p *Process) ready(ctx context.Context, address string) {
	deadline := time.After(wire.Patience)
	for {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			failure.Check(c.Close())
			return
		}
		select {
		case <-ctx.Done():
			failure.Check(context.Cause(ctx))
		case <-p.ended:
			failure.Check(fmt.Errorf("starting %s: it ended at once: %s", p.name, p.errors))
		case <-deadline:
			failure.Check(fmt.Errorf("starting %s: nothing listens at %s: %s", p.name, address, p.errors))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Pid returns the id of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// tail is a writer that keeps the last bytes.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	const enough = 2 << 10
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-enough):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}

// freePorts returns n free ports of the loopback interface.
func freePorts(n int) []int {
	ports := make([]int, n)
	for i := range ports {
		l := failure.Must(net.Listen("tcp", "127.0.0.1:0"))
		defer l.Close() // after the loop, so that the ports differ
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports
}

// ProcessorTime returns the sum of the processor times of some processes, in seconds.
func ProcessorTime(pids []int) (s float64, err error) {
	for _, pid := range pids {
		threads, err := procfs.AllThreads(pid)
		if err != nil {
			return 0, err
		}
		for _, thread := range threads {
			if used, err := thread.Schedstat(); err == nil { // otherwise it has just exited
				s += float64(used.RunningNanoseconds) / 1e9
			}
		}
	}
	return s, nil
}

// ResidentMemory returns the resident memory of the process, in bytes.
func (p *Process) ResidentMemory() float64 {
	return float64(failure.Must(failure.Must(procfs.NewProc(p.Pid())).NewStatus()).VmRSS)
}

// children returns the ids of the child processes.
func (p *Process) children() (pids []int) {
	for _, other := range failure.Must(procfs.AllProcs()) {
		if stat, err := other.Stat(); err == nil && stat.PPID == p.Pid() { // otherwise it has just exited
			pids = append(pids, other.PID)
		}
	}
	return pids
}
