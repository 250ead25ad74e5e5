// Command build builds Caddy from xcaddy.json, a JSON value of type xcaddy.Builder. The command line of
// xcaddy can't read such a file.
//
//	go run ./module/cmd/build [-config xcaddy.json] [-o caddy]
//
// The builder runs the go command with the environment of this command, such as GOPROXY, GOSUMDB and
// GOFLAGS.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	flags.SetOutput(stderr)
	config := flags.String("config", "xcaddy.json", "what to build: a `file` with an xcaddy.Builder in JSON")
	output := flags.String("o", "caddy", "the `file` to write the binary to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: only -config and -o are taken", flags.Arg(0))
	}
	if *output == "" {
		return errors.New("-o is empty: name the file to write the binary to")
	}
	builder, err := readBuilder(*config)
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "build: writing %s. The first time, this downloads about 150 modules and compiles them: five minutes on two processors. Later, it takes seconds.\n", *output)
	stop := tellTime(stderr)
	defer stop()
	if err := builder.Build(ctx, *output); err != nil {
		return fmt.Errorf("building %s from %s: %w (if the module proxy refused something, run go mod download, and then this again with GOPROXY=off GOSUMDB=off)",
			*output, *config, err)
	}
	return nil
}

// silence is how long a build says nothing: the go command says nothing at all while it compiles.
const silence = 20 * time.Second

// tellTime writes from time to time how long the build has taken, until the function that it returns is called, which writes that, too.
func tellTime(w io.Writer) (stop func()) {
	start, ticker, ended := time.Now(), time.NewTicker(silence), make(chan struct{})
	tell := func(what string) { fmt.Fprintf(w, "build: %s after %s\n", what, time.Since(start).Round(time.Second)) }
	var told sync.WaitGroup
	told.Go(func() {
		for {
			select {
			case <-ticker.C:
				tell("still compiling")
			case <-ended:
				return
			}
		}
	})
	return func() {
		ticker.Stop()
		close(ended)
		told.Wait()
		tell("ended")
	}
}
