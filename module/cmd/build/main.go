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
	"syscall"
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
	if err := builder.Build(ctx, *output); err != nil {
		return fmt.Errorf("building %s from %s: %w (if the module proxy refused something, run go mod download, and then this again with GOPROXY=off GOSUMDB=off)",
			*output, *config, err)
	}
	return nil
}
