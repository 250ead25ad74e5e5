// Command bench compares the bridge with Caddy's reverse_proxy, and writes a report in Markdown:
// [REPORT.md], of which BENCHMARKS.md has the summary.
//
//	go run -C module/cmd/bench . [-o REPORT.md]
//
// It builds Caddy with the bridge, and runs it, a provider, nginx and servers that are made with other
// libraries (module/testkit/peers, if they can be had) as processes on the loopback interface. It removes all its files. It reads /proc, so it needs Linux.
//
// The report describes each measurement. With -short, every section takes seconds: this tests the
// program, and the figures are not meaningful.
//
// [REPORT.md]: https://github.com/skill-bridge/caddy-skill-bridge/blob/main/module/cmd/bench/REPORT.md
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

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/failure"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/provider"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/servers"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "upstream" {
		if err := provider.Run(os.Args[2:], os.Stdin, os.Stdout); err != nil {
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
		os.Exit(1) //nolint:gocritic // run has stopped everything
	}
}

// sections are the measurements. Each returns the values of its part of the report.
var sections = []struct {
	name    string
	measure func(*bench) values
}{
	{"closed", measureClosed},
	{"published", measurePublished},
	{"https", measureSecure},
	{"async", measureAsync},
	{"watched", measureWatched},
	{"garbage", measureGarbage},
	{"a2a", measureAgent},
	{"mcp", measureTools},
	{"peers", measurePeers},
	{"catalog", measureCatalog},
	{"open", measureOpen},
	{"atonce", measureAtOnce},
	{"pending", measurePending},
	{"streams", measureStreams},
	{"ledger", measureLedger},
	{"idle", measureIdle},
	{"allocations", measureAllocations},
	{"polling", measurePolling},
}

// options are the flags.
type options struct {
	short    bool
	only     []string
	duration time.Duration
	output   string
	caddy    string
}

// seed is the seed of all random numbers: order of slices, execution times, bootstraps.
const seed = 1

// bench is one run of the program.
type bench struct {
	options
	*servers.Starter
	random   *rand.Rand
	report   report
	progress io.Writer
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	b := &bench{options: *o, Starter: &servers.Starter{Context: ctx, Caddy: o.caddy}, random: rand.New(rand.NewPCG(seed, 1)), progress: stderr} //nolint:gosec // samples, no secret
	b.report.Sections = map[string]values{}
	if b.Self, err = os.Executable(); err != nil {
		return fmt.Errorf("finding this program, to run it as the upstream: %w", err)
	}
	if b.Dir, err = os.MkdirTemp("", "bench-"); err != nil {
		return fmt.Errorf("making a temporary folder: %w", err)
	}
	defer os.RemoveAll(b.Dir)

	if err := b.BuildCaddy(); err != nil {
		return b.interrupted(err)
	}
	for _, s := range sections {
		if !slices.Contains(b.only, s.name) {
			continue
		}
		start := time.Now()
		if b.report.Sections[s.name], err = b.section(s.measure); err != nil {
			return b.interrupted(fmt.Errorf("%s: %w", s.name, err))
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
	if err := os.WriteFile(b.output, text.Bytes(), 0o644); err != nil { //nolint:gosec // a public document
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// check ends a section with an error.
func check(err error) { failure.Check(err) }

// must returns the value, and ends a section with an error.
func must[T any](value T, err error) T { return failure.Must(value, err) }

// section runs a measurement, and stops everything that it has started.
func (b *bench) section(measure func(*bench) values) (v values, err error) {
	defer func() {
		b.End()
		switch cause := recover().(type) {
		case nil:
		case failure.SectionError:
			err = cause.Unwrap()
		default:
			panic(cause)
		}
	}()
	return measure(b), nil
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
	flags.StringVar(&o.output, "o", "", "the `file` to write the report to (default: standard output)")
	flags.StringVar(&o.caddy, "caddy", "", "the `file` of a Caddy that has the bridge (default: it is built)")
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
	if o.duration < time.Second {
		return nil, errors.New("-duration is at least a second")
	}
	if o.short {
		o.duration = time.Second
	}
	return o, nil
}

// interrupted replaces errors that an interrupt has caused.
func (b *bench) interrupted(err error) error {
	if b.Context.Err() != nil {
		return fmt.Errorf("interrupted in %w", err)
	}
	return err
}

// say writes the progress.
func (b *bench) say(format string, a ...any) { fmt.Fprintf(b.progress, format+"\n", a...) }

// sleep waits, and fails if the program is interrupted.
func (b *bench) sleep(d time.Duration) {
	select {
	case <-b.Context.Done():
		check(context.Cause(b.Context))
	case <-time.After(d):
	}
}

// either returns the value for a short or for a full run.
func either[T any](b *bench, short, full T) T {
	if b.short {
		return short
	}
	return full
}
