package skillbridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

func validateCommand() *cobra.Command {
	var r reach
	var asJSON, index, descriptor bool
	cmd := &cobra.Command{
		Use:   "validate <file-or-url>",
		Short: "Validates an index or a descriptor, and tells each fault",
		Long: `Validates an index of skills, with its entries, or a skill's descriptor as the bridge
does before it uses one, and tells each fault (50 at most) with its JSON Pointer, what
is expected and what is there. Where there may be more than 50, it says so ("more"). - is standard input. Of a URL without a path, the index
is validated. What has an array "skills" is an index, unless --descriptor says otherwise.

With --json it writes {"valid", "kind", "faults": [{"path", "message", "expected",
"actual"}]}, or {"error": {"message", …}} where the document could not be read. A key
is sent only to the origin of the URL, and to hosts of --trust, not to subdomains
unless --trust names them (*.example.com).

Exit status: 0 valid, 1 not valid, or wrong usage (then standard output is empty), 5
the document could not be read, or the result not be written, 130 interrupted.`,
		Example: `  caddy skill-bridge validate descriptor.json
  caddy skill-bridge validate --json https://skills.example.com/.well-known/skill-sharing
  caddy skill-bridge validate https://skills.example.com
  generate-index | caddy skill-bridge validate --index -`,
		Args: arguments(1, 1),
		RunE: exits(func(cmd *cobra.Command, screen *cli.Screen, args []string) (int, error) {
			kind := cli.Kind("")
			switch {
			case index && descriptor:
				return 0, errors.New("--index and --descriptor exclude each other")
			case index:
				kind = cli.Index
			case descriptor:
				kind = cli.Descriptor
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			start := time.Now()
			document, header, err := r.read(ctx, args[0])
			file, isFile := errors.AsType[*unreadable](err)
			read, isURL := errors.AsType[*run.Failure](err)
			switch {
			case ctx.Err() != nil:
				fmt.Fprintln(screen.Err, "interrupted")
				return cli.Interrupted, nil
			case isFile:
				return screen.Unread(file.error, file.next, asJSON), nil
			case isURL:
				p := &cli.Provider{Screen: screen, URL: args[0], Command: cmd.Root().Name(), Flags: r.flags(), Keyed: r.keyEnv != "", Private: true}
				return p.Unreadable(read, time.Since(start), asJSON), nil
			case err != nil:
				return 0, err
			}
			if kind == "" && isOrigin(args[0]) {
				kind = cli.Index
			}
			return screen.Tell(cli.Judge(document, kind, header), asJSON), nil
		}),
	}
	r.addFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write JSON")
	cmd.Flags().BoolVar(&index, "index", false, "It is an index, whatever it looks like")
	cmd.Flags().BoolVar(&descriptor, "descriptor", false, "It is a descriptor, whatever it looks like")
	return cmd
}

// unreadable is why a file can't be validated, and what to do about it.
type unreadable struct {
	error
	next string
}

// read reads a document, and of one with a URL, the header that it was served with.
func (r *reach) read(ctx context.Context, from string) ([]byte, http.Header, error) {
	if from != "-" && strings.Contains(from, "://") {
		return r.fetch(ctx, from)
	}
	type outcome struct {
		document []byte
		err      error
	}
	read := make(chan outcome, 1)
	go func() { // a pipe may stay silent for ever, even when it is opened, and nothing interrupts that
		document, err := readFile(from)
		read <- outcome{document, err}
	}()
	select {
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	case o := <-read:
		return o.document, nil, o.err
	}
}

// readFile reads a file, or standard input.
func readFile(from string) ([]byte, error) {
	if from == "-" {
		return readAll(os.Stdin)
	}
	file, err := os.Open(from)
	if err != nil {
		return nil, &unreadable{err, "check the name of the file; a URL begins with https://"}
	}
	defer file.Close()
	return readAll(file)
}

// readAll reads no more than what shows that a document is too large.
func readAll(from io.Reader) ([]byte, error) {
	largest := skillsharing.DefaultLimits().DocumentSize
	document, err := io.ReadAll(io.LimitReader(from, largest+1))
	if err == nil && int64(len(document)) > largest {
		err = fmt.Errorf("the document is larger than the %d bytes that are accepted", largest)
	}
	if err != nil {
		return nil, &unreadable{error: err}
	}
	return document, nil
}

// isOrigin reports a URL without a path, of which the index is meant.
func isOrigin(from string) bool {
	u, err := url.Parse(from)
	return err == nil && u.Host != "" && (u.Path == "" || u.Path == "/")
}

// fetch reads a document as the bridge does.
func (r *reach) fetch(ctx context.Context, from string) ([]byte, http.Header, error) {
	u, err := parseURL("URL", from)
	if err != nil {
		return nil, nil, err
	}
	if isOrigin(from) {
		u.Path = skillsharing.WellKnownPath
	}
	own := *r
	own.private = own.keyEnv != "" // it is for reading documents that one would give a key here
	h, err := own.handler((&url.URL{Scheme: u.Scheme, Host: u.Host}).String())
	if err != nil {
		return nil, nil, err
	}
	client, release, err := own.client(h)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	response, failure := client.Read(ctx, u)
	if failure != nil {
		return nil, nil, failure
	}
	return response.Body, response.Header, nil
}

// client reads documents of a handler's first provider, as the handler's bridge
// would.
func (r *reach) client(h *Handler) (*skillsharing.Client, context.CancelFunc, error) {
	ctx, release, err := r.begin(h)
	if err != nil {
		return nil, nil, err
	}
	h.logger = ctx.Logger()
	config, _, err := h.config(ctx)
	if err != nil {
		release()
		return nil, nil, usageError(err)
	}
	s := &config.Sources[0]
	audience, err := skillsharing.NewAudience(s.URL, s.Trust)
	if err != nil {
		release()
		return nil, nil, err
	}
	return &skillsharing.Client{
		Source: s.Namespace, Origin: s.URL, Audience: audience, DiscoveryCredentials: s.DiscoveryCredentials, Transport: s.Transport,
		MaxResponseSize: config.MaxResponseSize, Limits: config.Limits, AllowHTTP: config.AllowHTTP, Observer: config.Observer,
	}, release, nil
}
