package stdio

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

const (
	// grace is how long calls have to end after the end of the input.
	grace = 2 * time.Second
	// defaultMaxMessage is the default of [Options.MaxMessage].
	defaultMaxMessage = 1 << 20
	// maxAnswer bounds a message of the server. It is far more than a bridge answers by default.
	maxAnswer = 64 << 20
	// smallAnswer is the size above which a message of the server is large: only maxLarge of these are read or written at the same time.
	smallAnswer = 64 << 10
	maxLarge    = 4
)

// Do sends an HTTP request, as [http.Client.Do] does. It must not follow redirects.
type Do func(*http.Request) (*http.Response, error)

// Options are options of [Serve].
type Options struct {
	// URL is the URL of the server. It is required. Messages name it without its query.
	URL string
	// MaxMessage is the largest message of the client, in bytes. 0: 1 MiB.
	MaxMessage int
	// LimitName is the option that sets MaxMessage; empty: there is none.
	LimitName string
	// Refused says what to do if the server refuses the caller (HTTP 401, 403). May be empty.
	Refused string
	// Warn is called with warnings, also at the same time. Nil: there are none.
	Warn func(text string)
}

// tooLong says that a message is too large.
func (o *Options) tooLong() string {
	text := "The message is larger than " + strconv.Itoa(cmp.Or(o.MaxMessage, defaultMaxMessage)) + " bytes"
	if o.LimitName != "" {
		text += " (" + o.LimitName + ")"
	}
	return text + ": send a smaller one."
}

// Serve passes the messages of a client, one on each line of in, on to a server, and writes the messages of the server to out, each
// as one line. At most 64 requests are with the server at the same time, and their answers are written in the order in which they
// end. Further requests wait, up to a number of bytes; those beyond are answered with an error. Pings, notifications and cancellations
// do not wait for requests. Of answers over 64 KiB, at most four are in memory: the others are read when one of these is written.
//
// It returns after the end of in, or after ctx is done. What was read has 2 s to end before. If the client has closed out,
// Serve returns at once and without an error. Reads of in may still wait after the return.
func Serve(ctx context.Context, in io.Reader, out io.Writer, do Do, o Options) error {
	calls, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	s := &server{
		do: do, options: o, where: whereOf(o.URL), ctx: calls,
		out: newOutput(out), queue: newQueue(), large: make(chan struct{}, maxLarge), calls: map[string][]*call{},
	}
	returned := make(chan struct{})
	defer close(returned)
	lines := make(chan line)
	go readLines(in, cmp.Or(o.MaxMessage, defaultMaxMessage), lines, returned)
	err := s.receive(ctx, lines)
	s.finish()
	return errors.Join(err, s.out.result())
}

// line is a line of the input, or the error with which it ended.
type line struct {
	text    []byte
	tooLong bool
	err     error
}

func readLines(in io.Reader, longest int, lines chan<- line, returned <-chan struct{}) {
	r := newLineReader(in, longest)
	for {
		var l line
		l.text, l.tooLong, l.err = r.next()
		select {
		case lines <- l:
		case <-returned:
			return
		}
		if l.err != nil {
			return
		}
	}
}

// server is one Serve.
type server struct {
	do      Do
	options Options
	where   string          // the URL in messages
	ctx     context.Context //nolint:containedctx // of all calls
	out     *output
	version atomic.Pointer[string] // that the answer to initialize had; nil: there was none

	queue   *queue
	full    sync.Once     // warns that messages are left out
	large   chan struct{} // has a value for each large message of the server in memory
	running sync.WaitGroup
	mu      sync.Mutex
	calls   map[string][]*call // by the keys of their ids; those of a client are unique, but that is not checked
}

// call is a message that is with the server.
type call struct {
	message
	ctx       context.Context //nolint:containedctx // of this call
	end       context.CancelFunc
	sent      atomic.Bool // a part of it may have reached the server
	cancelled atomic.Bool // by the client, which expects no answer any more
	fault     *fault      // why it is answered without the server; nil: it goes to the server
	large     bool        // it has a place among the large messages of the server
}

// fault is an error that a message is answered with.
type fault struct {
	code int
	text string
}

// receive takes messages until the end of the input or of ctx. The error is that of the input.
func (s *server) receive(ctx context.Context, lines <-chan line) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.out.failed:
			return nil
		case l := <-lines:
			switch {
			case errors.Is(l.err, io.EOF):
				return nil
			case l.err != nil:
				return fmt.Errorf("reading the input: %w", l.err)
			}
			s.take(l)
		}
	}
}

// take handles a line. It does not wait, so that cancellations and the end of the input are read at any time.
func (s *server) take(l line) {
	if !l.tooLong && isBlank(l.text) {
		return
	}
	m, isJSON := parse(l.text)
	if m.isNotification && m.method == methodCancelled {
		s.cancel(m.requests)
		return
	}
	for _, id := range m.cancels {
		s.cancel(id)
	}
	c := &call{message: m}
	switch {
	case l.tooLong:
		c.fault = &fault{jsonrpc.CodeInvalidRequest, s.options.tooLong()}
	case !isJSON:
		c.text, c.fault = nil, &fault{jsonrpc.CodeParseError, "Parse error: the line is not one JSON message in UTF-8."}
	}
	c.ctx, c.end = context.WithCancel(s.ctx)
	s.add(c)
	admitted := s.queue.enter(c, maxWaiting)
	if admitted == refused {
		c.text, c.id = nil, bytes.Clone(c.id) // the rest of the message is not kept
		for i, id := range c.ids {
			c.ids[i] = bytes.Clone(id)
		}
		c.cancels = nil
		c.fault = &fault{jsonrpc.CodeInternalError, "Too many requests wait for their turn. This one was not executed: send it again when others have been answered."}
		if admitted = s.queue.enter(c, maxWaiting+maxRefused); admitted == refused {
			s.done(c)
			s.full.Do(func() { s.warn("messages are left out, since the client reads no answers") })
		}
	}
	if admitted == starts {
		s.running.Go(func() { s.run(c) })
	}
}

// run handles a message, and then those that wait for its place.
func (s *server) run(c *call) {
	for c != nil {
		switch {
		case c.cancelled.Load(): // while it waited
		case c.fault != nil:
			s.fail(c, c.fault.code, c.fault.text)
		default:
			s.exchange(c)
			s.release(c)
		}
		s.done(c)
		c = s.queue.next(c)
	}
}

// done forgets a message.
func (s *server) done(c *call) {
	s.remove(c)
	c.end()
}

func isBlank(text []byte) bool {
	return !slices.ContainsFunc(text, func(c byte) bool { return c != ' ' && c != '\t' && c != '\r' })
}

func (s *server) add(c *call) {
	if c.id == nil || !c.wantsAnswer() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := keyOf(c.id)
	s.calls[key] = append(s.calls[key], c)
}

func (s *server) remove(c *call) {
	if c.id == nil || !c.wantsAnswer() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := keyOf(c.id)
	rest := slices.DeleteFunc(s.calls[key], func(other *call) bool { return other == c })
	if len(rest) > 0 {
		s.calls[key] = rest
	} else {
		delete(s.calls, key)
	}
}

// cancel ends the calls with an id; nil: none. Their answers are not written any more. A bridge ends what a client does not wait for,
// so the notification is not passed on.
func (s *server) cancel(id []byte) {
	if id == nil {
		return
	}
	s.mu.Lock()
	same := slices.Clone(s.calls[keyOf(id)])
	s.mu.Unlock()
	for _, c := range same {
		c.cancelled.Store(true)
		c.end()
		if s.queue.withdraw(c) {
			s.remove(c)
		}
	}
}

// hold waits until the call may have a large message of the server in memory, which it may until release.
func (s *server) hold(c *call) error {
	if c.large {
		return nil
	}
	select {
	case s.large <- struct{}{}:
		c.large = true
		return nil
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
}

// release gives the place among the large messages back.
func (s *server) release(c *call) {
	if c.large {
		c.large = false
		<-s.large
	}
}

// finish waits for the calls, at most for the grace. Subscriptions, which last until a client cancels them, end at once.
func (s *server) finish() {
	s.mu.Lock()
	for _, same := range s.calls {
		for _, c := range same {
			if c.method == methodListen {
				c.cancelled.Store(true)
				c.end()
			}
		}
	}
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		s.running.Wait()
		close(ended)
	}()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-ended:
	case <-s.out.failed:
	case <-timer.C:
	}
	s.queue.end()
	close(s.out.closed)
}

// write writes a message of the server.
func (s *server) write(c *call, text []byte) { s.out.write(text, &c.cancelled) }

// warn reports what no answer can say.
func (s *server) warn(text string) {
	if s.options.Warn != nil {
		s.options.Warn(text)
	}
}

// output writes messages as lines.
type output struct {
	writer io.Writer
	turn   chan struct{} // holds a value while a line is written
	err    error         // of a write
	failed chan struct{} // is closed after the first error
	closed chan struct{} // is closed when nothing more is to be written
}

func newOutput(w io.Writer) *output {
	return &output{writer: w, turn: make(chan struct{}, 1), failed: make(chan struct{}), closed: make(chan struct{})}
}

// write writes a line, unless its call was cancelled. A client that does not read makes it wait.
func (o *output) write(text []byte, cancelled *atomic.Bool) {
	text = append(text, '\n')
	select {
	case o.turn <- struct{}{}:
	case <-o.closed:
		return
	}
	defer func() { <-o.turn }()
	if o.err != nil || o.isClosed() || cancelled.Load() {
		return
	}
	if _, o.err = o.writer.Write(text); o.err != nil {
		close(o.failed)
	}
}

func (o *output) isClosed() bool {
	select {
	case <-o.closed:
		return true
	default:
		return false
	}
}

// result returns the first error; nil, if the client has closed the output.
func (o *output) result() error {
	select {
	case <-o.failed:
	default:
		return nil
	}
	// The error was stored before the channel was closed.
	if errors.Is(o.err, syscall.EPIPE) || errors.Is(o.err, os.ErrClosed) || errors.Is(o.err, io.ErrClosedPipe) {
		return nil
	}
	return fmt.Errorf("writing the output: %w", o.err)
}
