// Command bench measures the bridge against Caddy's own reverse_proxy, and writes
// what it finds as Markdown: [BENCHMARKS.md] is its output.
//
//	go run ./module/cmd/bench [-o BENCHMARKS.md]
//
// It builds Caddy with the bridge, and runs it, a provider of skills and nginx, if
// that is installed, as processes of their own on the loopback interface. Nothing
// stays behind. It reads /proc, so it needs Linux.
//
// The program says in its output how each figure is found. With -short, every
// section takes seconds: that shows whether everything works, and no figure of it
// means much.
//
// [BENCHMARKS.md]: https://github.com/skill-bridge/caddy-skill-bridge/blob/main/BENCHMARKS.md
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "upstream" {
		if err := runUpstream(os.Args[2:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "bench upstream:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:gocritic // everything was stopped when run returned
	}
}

// sections are what can be measured, in the order of the report.
var sections = []struct {
	name string
	run  func(*bench, context.Context) error
}{
	{"closed", (*bench).closed},
	{"async", (*bench).async},
	{"watched", (*bench).watched},
	{"open", (*bench).open},
	{"pending", (*bench).pending},
	{"idle", (*bench).idle},
	{"allocations", (*bench).allocations},
	{"polling", (*bench).polling},
}

// options are what the command line says.
type options struct {
	short                bool
	only                 []string
	duration             time.Duration
	pendingH1, pendingH2 int
	output               string
	caddy                string
	logLevel             string
	seed                 uint64
}

// bench is one run of the program.
type bench struct {
	options
	self     string // this program's file
	dir      string // everything that is written, but for the report
	random   *rand.Rand
	report   *report
	progress io.Writer
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	b := &bench{options: *o, random: rand.New(rand.NewPCG(o.seed, 1)), progress: stderr} //nolint:gosec // samples, no secret
	if b.self, err = os.Executable(); err != nil {
		return fmt.Errorf("finding this program, to run it as the upstream: %w", err)
	}
	if b.dir, err = os.MkdirTemp("", "bench-"); err != nil {
		return fmt.Errorf("making a temporary folder: %w", err)
	}
	defer os.RemoveAll(b.dir)

	if err := b.buildCaddy(ctx); err != nil {
		return b.interrupted(ctx, err)
	}
	b.report = new(report)
	for _, s := range sections {
		if !slices.Contains(b.only, s.name) {
			continue
		}
		start := time.Now()
		if err := s.run(b, ctx); err != nil {
			return b.interrupted(ctx, fmt.Errorf("%s: %w", s.name, err))
		}
		b.say("%s took %s", s.name, time.Since(start).Round(time.Second))
	}
	var text bytes.Buffer
	if err := b.write(&text, args); err != nil {
		return err
	}
	if b.output == "" {
		_, err := stdout.Write(text.Bytes())
		return err
	}
	if err := os.WriteFile(b.output, text.Bytes(), 0o644); err != nil { //nolint:gosec // a document for everybody
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

func parse(args []string, stderr io.Writer) (*options, error) {
	names := make([]string, len(sections))
	for i, s := range sections {
		names[i] = s.name
	}
	o := new(options)
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.BoolVar(&o.short, "short", false, "take seconds for each section: enough to see that everything works, and no more")
	only := flags.String("only", strings.Join(names, ","), "the `sections` to run")
	flags.DurationVar(&o.duration, "duration", 12*time.Second, "how long each target is measured, in each table")
	flags.IntVar(&o.pendingH1, "pending-h1", 8000, "how many runs wait over HTTP/1.1")
	flags.IntVar(&o.pendingH2, "pending-h2", 20000, "how many runs wait over HTTP/2")
	flags.StringVar(&o.output, "o", "", "the `file` to write the report to (default: standard output)")
	flags.StringVar(&o.caddy, "caddy", "", "the `file` of a Caddy that has the bridge (default: it is built)")
	flags.StringVar(&o.logLevel, "log", "INFO", "the `level` of Caddy's log; at INFO, each call of the bridge is a line")
	flags.Uint64Var(&o.seed, "seed", 1, "of everything that is random: the order of slices, execution times, bootstraps")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	o.only = strings.Split(*only, ",")
	for _, name := range o.only {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("-only %s: there are %s", name, strings.Join(names, ", "))
		}
	}
	if o.duration < time.Second || o.pendingH1 < 1 || o.pendingH2 < 1 {
		return nil, errors.New("-duration is at least a second, -pending-h1 and -pending-h2 are at least 1")
	}
	if o.short {
		o.duration = time.Second
		o.pendingH1, o.pendingH2 = min(o.pendingH1, 200), min(o.pendingH2, 400)
	}
	return o, nil
}

// interrupted makes an error clearer that only follows from an interrupt.
func (b *bench) interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted in %w", err)
	}
	return err
}

// say tells whoever watches how far the program has come.
func (b *bench) say(format string, a ...any) { fmt.Fprintf(b.progress, format+"\n", a...) }

// either is a number for a short or for a full run.
func either[T any](b *bench, short, full T) T {
	if b.short {
		return short
	}
	return full
}
