package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

var errTooLarge = errors.New("the answer is too large")

// answerSize returns how large the body of an answer may be, and the option that sets this limit, as messages name it.
func (s *Sender) answerSize(phase run.Phase) (limit run.Limit, option string) {
	const documentSize, maxResponseSize = "document_size", "max_response_size"
	if document.IsDocument(phase) {
		if size := s.Limits.DocumentSize; 0 < size && size < s.MaxResponseSize {
			return run.Limit{Name: documentSize, Max: size}, "limits " + documentSize
		}
	}
	return run.Limit{Name: maxResponseSize, Max: s.MaxResponseSize}, maxResponseSize
}

// readBody reads the body of an answer, up to the limit of the phase, for as long as data
// arrives. If it returns a budget, that budget has no room for the whole body, and the text is its beginning.
func (s *Sender) readBody(phase run.Phase, o *Request, resp *http.Response) ([]byte, AnswerBudget, error) {
	limit, option := s.answerSize(phase)
	size := limit.Max
	body := &o.watched
	body.watch(o.Context(), resp, s.Limits.BodyTimeout, size)
	defer body.end()
	body.document = document.IsDocument(phase)
	if body.budget = o.Budget; !body.document { // all calls share documents
		body.budget, _ = o.Context().Value(AnswerBudgetKey{}).(AnswerBudget)
	}
	body.settle(0) // of an earlier answer of the call
	text := o.room[:0]
	if resp.ContentLength > smallBody || body.document { // documents are cached, and o.room would keep the request in memory
		// One byte more than the content, so that the end of the body can be read without a larger buffer.
		text = make([]byte, 0, min(max(resp.ContentLength, smallBody), size, maxTrusted)+1)
	}
	for {
		n, err := body.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		switch {
		case int64(len(text)) > size:
			return nil, nil, fmt.Errorf("%w: more than %d bytes (%s)", errTooLarge, size, option)
		case errors.Is(err, io.EOF):
			body.settle(len(text))
			return text, nil, nil
		case errors.Is(err, errTooLarge):
			return nil, nil, fmt.Errorf("%w: more than %d bytes before decompression (%s)", err, size, option)
		case err != nil && body.waited && body.document:
			return text, body.budget, nil // too little time was left, which says nothing about the host
		case err != nil:
			return nil, nil, err
		case len(text) == cap(text):
			more := min(len(text), int(size)+1-len(text))
			wanted := len(text) + more
			if announced := int(min(resp.ContentLength, size)) + 1; announced > len(text) {
				if more = min(more, announced-len(text)); len(text) >= maxDoubled {
					more = min(announced-len(text), maxAtOnce)
				}
				wanted = announced // reserved at once, so that nothing more is read if there is no room
			}
			most := int(size) + 1
			if resp.ContentLength >= 0 {
				most = wanted
			}
			if len(text)+more > maxTrusted && !body.keep(wanted, most) {
				body.settle(0)
				return text, body.budget, nil
			}
			text = slices.Grow(text, more)
		}
	}
}

const (
	// smallBody is the size of a buffer that is enough for most answers, in bytes. With it, a [Request] is as large as memory of its class can be.
	smallBody = 424
	// maxTrusted limits the memory that is allocated because of a Content-Length, in bytes.
	maxTrusted = 16 << 10
	// maxDoubled is the length in bytes from which on a text is read into memory for the whole Content-Length, or for maxAtOnce bytes more,
	// instead of twice the memory.
	maxDoubled, maxAtOnce = 64 << 10, 2 << 20
)

// errStalled is the error for a body of which no more content arrives.
var errStalled error = stalledError{}

// stalledError is a net.Error.
type stalledError struct{}

func (stalledError) Error() string   { return "its answer stopped" }
func (stalledError) Timeout() bool   { return true }
func (stalledError) Temporary() bool { return true }

// watchedBody is a body that is closed when no content has arrived for some time, or at the call's
// deadline. Compressed bytes count as content only if they decompress to at least one byte.
type watchedBody struct {
	ctx      context.Context //nolint:containedctx // of the one request whose body this is
	body     io.ReadCloser
	content  io.Reader // the decompressed body
	inflater *inflater // nil: the body is not compressed
	budget   AnswerBudget
	timeout  time.Duration
	deadline time.Time // of the call, if bounded
	bounded  bool
	alarm    *alarm // nil: the call's deadline is earlier
	stalled  atomic.Bool
	document bool // and not the answer of a call
	waited   bool // for room, so that it was not read meanwhile
}

// watch begins to watch a body, until end. With a timeout of 0, only the call's deadline
// applies. Of a compressed body, at most about size bytes are read.
func (w *watchedBody) watch(ctx context.Context, resp *http.Response, timeout time.Duration, size int64) {
	if timeout <= 0 {
		timeout = math.MaxInt64
	}
	w.ctx, w.body, w.content, w.timeout = ctx, resp.Body, resp.Body, timeout
	if isGzip(resp) {
		w.inflater = newInflater(resp.Body, size)
		w.content = w.inflater
		describeContent(resp)
	}
	w.deadline, w.bounded = ctx.Deadline()
	patience := w.patience()
	if patience < timeout && resp.StatusCode != http.StatusSwitchingProtocols {
		return // the transport closes the body when the context ends, so that no timer is needed
	}
	a := new(alarm)
	a.body.Store(w)
	a.timer = time.AfterFunc(patience, func() {
		if body := a.body.Load(); body != nil {
			body.stop()
		}
	})
	w.alarm = a
}

// alarm stops a body. The runtime may keep a stopped timer in its list until its time has come, and everything that its function refers to. So the
// function does not refer to the body, with which the request would stay in memory.
type alarm struct {
	timer *time.Timer
	body  atomic.Pointer[watchedBody] // nil: it has ended
}

// end stops the timer and frees the inflater.
func (w *watchedBody) end() {
	if w.alarm != nil {
		w.alarm.timer.Stop()
		w.alarm.body.Store(nil)
	}
	if w.inflater != nil {
		w.inflater.free()
	}
}

// patience returns how long to wait for the next byte.
func (w *watchedBody) patience() time.Duration {
	if w.bounded {
		return min(w.timeout, time.Until(w.deadline))
	}
	return w.timeout
}

func (w *watchedBody) stop() {
	if w.bounded && time.Until(w.deadline) <= 0 {
		<-w.ctx.Done() // so that the context's error is the cause
	}
	w.stalled.Store(true)
	_ = w.body.Close() // ends a read in progress
}

// Read implements io.Reader.
func (w *watchedBody) Read(p []byte) (int, error) {
	n, err := w.content.Read(p)
	if n > 0 && w.alarm != nil {
		w.alarm.timer.Reset(w.patience())
	}
	if err != nil && !errors.Is(err, io.EOF) && w.stalled.Load() {
		err = errStalled
	}
	return n, err
}
