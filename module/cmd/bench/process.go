package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
)

// process is another program that was started.
type process struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.Closer // the program may want to end with it
	errors *tail
	ended  chan struct{}
}

// start starts a program, which is stopped at the latest when the context ends.
func (b *bench) start(ctx context.Context, stdout io.Writer, name, file string, args ...string) (*process, error) {
	return b.startWith(ctx, nil, stdout, name, file, args...)
}

// startWith starts a program with something more in its environment.
func (b *bench) startWith(ctx context.Context, environment []string, stdout io.Writer, name, file string, args ...string) (*process, error) {
	p := &process{name: name, cmd: exec.CommandContext(ctx, file, args...), errors: new(tail), ended: make(chan struct{})}
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 5 * time.Second
	p.cmd.Stdout, p.cmd.Stderr = stdout, p.errors
	p.cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+b.dir, "XDG_CONFIG_HOME="+b.dir) // what Caddy writes is left nowhere else
	p.cmd.Env = append(p.cmd.Env, environment...)
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is of no interest, but that it did
		close(p.ended)
	}()
	return p, nil
}

// stop stops the program and waits for its end.
func (p *process) stop() {
	_ = p.stdin.Close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// ready waits until something listens at an address of the program.
func (p *process) ready(ctx context.Context, network, address string) error {
	deadline := time.After(patience)
	for {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.ended:
			return fmt.Errorf("starting %s: it ended at once: %s", p.name, p.errors)
		case <-deadline:
			return fmt.Errorf("starting %s: nothing listens at %s: %s", p.name, address, p.errors)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

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

// upstream is a provider that runs as a process of its own.
type upstream struct {
	*process
	address string
}

func (b *bench) startUpstream(ctx context.Context, args ...string) (*upstream, error) {
	r, w := io.Pipe()
	p, err := b.start(ctx, w, "the upstream", b.self, append([]string{"upstream", "-seed", strconv.FormatUint(b.seed, 10)}, args...)...)
	if err != nil {
		return nil, err
	}
	go func() {
		<-p.ended
		w.CloseWithError(errors.New("it ended at once: " + p.errors.String()))
	}()
	address, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("starting the upstream: %w", err)
	}
	return &upstream{p, strings.TrimSpace(address)}, nil
}

// counts are what an upstream has seen.
type counts struct {
	Descriptors int `json:"descriptors"`
	Runs        int `json:"runs"`
	Held        int `json:"held"`
}

func (u *upstream) counts() (c counts, err error) {
	text, err := once("GET", u.address, "/counts", nil)
	if err != nil {
		return c, fmt.Errorf("asking the upstream what it has seen: %w", err)
	}
	return c, json.Unmarshal(text, &c)
}

// release lets everything come to its end that was held.
func (u *upstream) release() error {
	if _, err := once("POST", u.address, "/release", nil); err != nil {
		return fmt.Errorf("releasing what the upstream holds: %w", err)
	}
	return nil
}

// freePorts are some that nobody listens at on the loopback interface.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("looking for a free port: %w", err)
		}
		defer l.Close() // all at the end, so that they differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
