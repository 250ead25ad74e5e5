package stdio

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/semaphore"

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
	// maxCalls is how many requests are with the server at the same time.
	maxCalls = 64
	// maxQuick is the same for messages that take no time: pings, notifications, responses, and what is answered without the server.
	maxQuick = 8
	// maxWaiting bounds the messages that wait for a place, in bytes.
	maxWaiting = 32 << 20
	// maxRefused bounds, beyond maxWaiting, the answers to messages that found no room to wait.
	maxRefused = 4 << 20
	// callSize is about what a message that waits takes beside its text.
	callSize = 4 << 10
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
	s := &server{
		do: do, options: o, where: whereOf(o.URL), out: out, writing: make(chan struct{}, 1),
		places: semaphore.NewWeighted(maxCalls), quick: semaphore.NewWeighted(maxQuick), large: make(chan struct{}, maxLarge), calls: map[*call]bool{},
	}
	s.ctx, s.end = context.WithCancelCause(context.WithoutCancel(ctx))
	defer s.end(nil)
	returned := make(chan struct{})
	defer close(returned)
	lines := make(chan line)
	go readLines(in, cmp.Or(o.MaxMessage, defaultMaxMessage), lines, returned)
	err := s.receive(ctx, lines)
	s.finish()
	if cause := context.Cause(s.ctx); !errors.Is(cause, context.Canceled) {
		err = errors.Join(err, cause)
	}
	return err
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
	where   string                 // the URL in messages
	ctx     context.Context        //nolint:containedctx // of all calls; its cause is the error of a write
	end     func(error)            // ends ctx
	version atomic.Pointer[string] // that the answer to initialize had; nil: there was none

	out     io.Writer
	writing chan struct{} // has a value while a line is written

	places, quick *semaphore.Weighted // of the messages that are with the server
	waiting       atomic.Int64        // bytes of the messages that wait for a place
	full          sync.Once           // warns that messages are left out
	large         chan struct{}       // has a value for each large message of the server in memory
	running       sync.WaitGroup
	mu            sync.Mutex
	calls         map[*call]bool // whose answer the client waits for
}

// call is a message that is with the server, or waits for a place.
type call struct {
	message
	ctx   context.Context //nolint:containedctx // of this call; the client expects no answer after its end
	end   context.CancelFunc
	sent  atomic.Bool // a part of it may have reached the server
	fault *fault      // why it is answered without the server; nil: it goes to the server
	large bool        // it has a place among the large messages of the server
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
		case <-s.ctx.Done():
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
	if !l.tooLong && len(bytes.Trim(l.text, " \t\r")) == 0 {
		return
	}
	all, isJSON := split(l.text)
	for _, text := range all {
		c := &call{message: message{text: text}}
		c.read()
		switch {
		case l.tooLong:
			c.fault = &fault{jsonrpc.CodeInvalidRequest, s.options.tooLong()}
		case !isJSON:
			c.fault = &fault{jsonrpc.CodeParseError, "Parse error: the line is not one JSON message in UTF-8."}
		case c.isNotification && c.method == methodCancelled:
			s.cancel(c.requests)
			continue
		}
		s.accept(c)
	}
}

// accept lets a message begin, or wait for its turn.
func (s *server) accept(c *call) {
	c.ctx, c.end = context.WithCancel(s.ctx)
	if c.id != nil && c.wantsAnswer() {
		s.mu.Lock()
		s.calls[c] = true
		s.mu.Unlock()
	}
	if s.enter(c, maxWaiting) {
		return
	}
	c.text, c.id = nil, bytes.Clone(c.id) // the rest of the message is not kept
	c.fault = &fault{jsonrpc.CodeInternalError, "Too many requests wait for their turn. This one was not executed: send it again when others have been answered."}
	if !s.enter(c, maxWaiting+maxRefused) {
		s.done(c)
		s.full.Do(func() { s.warn("messages are left out, since the client reads no answers") })
	}
}

// enter gives a message a place, or lets it wait for one if no more than so many bytes wait then. It returns false if there is no room to wait.
func (s *server) enter(c *call, room int64) bool {
	lane := s.places
	if c.fault != nil || !c.wantsAnswer() || c.method == methodPing {
		lane = s.quick
	}
	size := c.size()
	starts := lane.TryAcquire(1)
	if waiting := s.waiting.Load(); !starts && waiting > 0 && waiting+size > room {
		return false
	}
	s.waiting.Add(size)
	s.running.Go(func() {
		defer s.done(c)
		has := starts || lane.Acquire(c.ctx, 1) == nil // else it was cancelled while it waited
		s.waiting.Add(-size)
		if !has {
			return
		}
		defer lane.Release(1)
		switch {
		case s.ctx.Err() != nil: // Serve has ended
		case c.fault != nil:
			s.fail(c, c.fault.code, c.fault.text)
		default:
			s.exchange(c)
			s.release(c)
		}
	})
	return true
}

// size is about what the message takes while it waits, in bytes.
func (c *call) size() int64 { return int64(callSize + len(c.text) + len(c.id)) }

// done forgets a message.
func (s *server) done(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, c)
	c.end()
}

// cancel ends the calls with an id; nil: none. Those of a client are unique, but that is not checked. Their answers are not written any more. A bridge
// ends what a client does not wait for, so the notification is not passed on.
func (s *server) cancel(id jsontext.Value) {
	if id != nil {
		s.endThose(func(c *call) bool { return keyOf(c.id) == keyOf(id) })
	}
}

// endThose ends some calls.
func (s *server) endThose(those func(*call) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.calls {
		if those(c) {
			c.end()
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
	s.endThose(func(c *call) bool { return c.method == methodListen })
	ended := make(chan struct{})
	go func() {
		s.running.Wait()
		close(ended)
	}()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-ended:
	case <-s.ctx.Done():
	case <-timer.C:
	}
}

// write writes a message of the server as a line, unless the client expects it no more. A client that does not read makes it wait.
func (s *server) write(c *call, text []byte) {
	text = append(text, '\n')
	select {
	case s.writing <- struct{}{}:
	case <-c.ctx.Done():
		return
	}
	defer func() { <-s.writing }()
	if c.ctx.Err() != nil {
		return
	}
	switch _, err := s.out.Write(text); {
	case err == nil:
	case errors.Is(err, syscall.EPIPE), errors.Is(err, os.ErrClosed), errors.Is(err, io.ErrClosedPipe): // the client has closed the output
		s.end(nil)
	default:
		s.end(fmt.Errorf("writing the output: %w", err))
	}
}

// warn reports what no answer can say.
func (s *server) warn(text string) {
	if s.options.Warn != nil {
		s.options.Warn(text)
	}
}

// bufferSize is how much is read at a time.
const bufferSize = 64 << 10

// lineReader reads lines of bounded length.
type lineReader struct {
	reader *bufio.Reader
	max    int          // bytes of a line, without its end
	hold   func() error // is called before more than smallAnswer bytes are kept; nil: they always may
}

func newLineReader(r io.Reader, longest int) *lineReader {
	return &lineReader{reader: bufio.NewReaderSize(r, bufferSize), max: longest}
}

// next returns the next line without its end (LF or CR LF), which the last line need not have. If the line is too long, it is read
// to its end, but not kept. The error is io.EOF after the last line.
func (l *lineReader) next() (line []byte, tooLong bool, err error) {
	for {
		piece, err := l.reader.ReadSlice('\n')
		if l.hold != nil && len(line)+len(piece) > smallAnswer {
			if err := l.hold(); err != nil {
				return nil, false, err
			}
		}
		tooLong = tooLong || len(line)+len(piece) > l.max+len("\r\n")
		if tooLong {
			line = nil
		} else {
			line = append(line, piece...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (len(line) == 0 && !tooLong || !errors.Is(err, io.EOF)):
			return nil, false, err
		}
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if tooLong || len(line) > l.max {
			return nil, true, nil
		}
		return line, false, nil
	}
}
