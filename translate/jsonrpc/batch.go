package jsonrpc

import (
	"context"
	"net/http"
	"sync"

	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

// leastAnswer is how many bytes of the answer to a batch are reserved for each element. They are
// enough for an error, so each element is answered even if the other elements use up the rest.
const leastAnswer = 8 << 10

// batch is a batch in progress.
type batch struct {
	server   *Server
	elements []element
	answers  []answer // by element; each is set before the element's index is sent to ended
	ended    chan int // the indexes of elements that have ended
	received []bool   // by element: its index was received from ended, or it is invalid and was not served
	aborted  bool     // an element was aborted, so no more answers are written
	cancel   context.CancelFunc

	mu     sync.Mutex
	least  int64      // bytes of MaxAnswerSize reserved for each element
	left   int64      // bytes of MaxAnswerSize that elements can still reserve beyond that
	held   int64      // bytes of answers that all elements have reserved
	answer share.Part // of MaxAnswers, for what is held
}

// serveBatch serves all elements concurrently and writes their answers in order.
// It returns when all have ended, so that nothing uses the body afterwards.
func (s *Server) serveBatch(o *output, elements []element) {
	ctx, cancel := context.WithCancel(o.ctx)
	defer cancel()
	b := &batch{
		server: s, elements: elements, answers: make([]answer, len(elements)),
		ended: make(chan int, len(elements)), received: make([]bool, len(elements)), cancel: cancel,
	}
	b.answer = s.part(s.owner(o.ctx))
	b.least = min(leastAnswer, s.MaxAnswerSize/int64(len(elements)))
	b.left = s.MaxAnswerSize - b.least*int64(len(elements))
	for i := range elements {
		if elements[i].Err != nil {
			b.answers[i], b.received[i] = answer{err: elements[i].Err}, true
			continue
		}
		req := &elements[i].Request
		req.batch, req.server, req.answer, req.HTTP = b, s, s.part(b.answer.Owner), o.request
		defer req.end()
		go b.serve(ctx, i)
	}
	w := batchWriter{output: *o, batch: b, buffer: getBuffer()}
	for i := range elements {
		w.add(i)
	}
	if b.aborted {
		panic(http.ErrAbortHandler)
	}
	w.end()
	putBuffer(w.buffer)
}

// serve serves one element.
func (b *batch) serve(ctx context.Context, i int) {
	defer func() { b.ended <- i }() // deferred, since the handler may call runtime.Goexit
	req := &b.elements[i].Request
	a := b.server.call(ctx, req)
	if fault := a.fault(&b.server.Profile); !a.aborted && !req.IsNotification() && !req.Reserve(a.size(req, fault)) {
		a = answer{err: b.server.Profile.tooLarge(req, fault)}
	}
	b.answers[i] = a
}

// size returns the approximate length of the answer.
func (a *answer) size(req *Request, fault *Error) int64 {
	const envelope = 64
	if fault != nil {
		return int64(envelope + len(req.ID) + len(fault.Message) + len(fault.Data))
	}
	return int64(envelope + len(req.ID) + len(a.result))
}

func (b *batch) reserve(r *Request, size int64) bool {
	if b.server.MaxAnswerSize <= 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	size = max(size-b.least, 0)
	b.left += r.kept
	r.kept = 0
	if size > b.left {
		return false
	}
	r.kept = size
	b.left -= size
	return true
}

// await waits until another element has ended.
func (b *batch) await() {
	i := <-b.ended
	b.received[i] = true
	if b.answers[i].aborted {
		b.aborted = true
		b.cancel() // the client will not see the other answers
	}
}

// batchWriter writes the answer to a batch: at once if it is short, else in parts while
// elements end.
type batchWriter struct {
	output   output
	batch    *batch
	buffer   *[]byte // to be written
	answered bool    // an element was answered
	started  bool    // the header was written
	flushed  bool    // nothing was written since the last flush

	refused   *Error // that answers the first element; nil: none does
	otherwise bool   // an element was answered otherwise than with the HTTP status 401
}

// add waits for the end of an element and writes its answer.
func (w *batchWriter) add(i int) {
	b := w.batch
	for !b.received[i] {
		if len(b.ended) == 0 {
			w.pause()
		}
		b.await()
	}
	element, a := &b.elements[i], b.answers[i]
	b.answers[i] = answer{} // frees the memory once it is written
	silent := element.Err == nil && element.Request.IsNotification() || element.response && b.server.Profile.TakesResponse(w.output.request)
	if b.aborted || silent {
		return
	}
	separator := byte('[')
	if w.answered {
		separator = ','
	}
	w.answered = true
	*w.buffer = append(*w.buffer, separator)
	fault := a.fault(&b.server.Profile)
	if w.refused == nil {
		w.refused = fault
	}
	w.otherwise = w.otherwise || fault == nil || fault.Status != http.StatusUnauthorized
	switch {
	case fault != nil:
		*w.buffer = b.server.Profile.appendError(*w.buffer, element.Request.ID, b.server.Profile.form(w.output.request, fault))
	case len(a.result) < pieceSize:
		*w.buffer = appendResult(*w.buffer, element.Request.ID, a.result)
	default:
		// A long result is not copied into the buffer, except for its beginning: Caddy's encode handler decides
		// by the size of the first write whether to compress.
		*w.buffer = append(appendHead(*w.buffer, element.Request.ID), `,"result":`...)
		*w.buffer = append(*w.buffer, a.result[:firstWrite]...)
		w.write()
		w.output.write(a.result[firstWrite:])
		*w.buffer = append(*w.buffer, '}')
	}
	if len(*w.buffer) >= pieceSize {
		w.write()
	}
}

// write writes the buffer.
func (w *batchWriter) write() {
	if !w.started {
		w.started = true
		w.output.header(http.StatusOK, "")
	}
	w.output.write(*w.buffer)
	*w.buffer = (*w.buffer)[:0]
	w.flushed = false
	if w.output.err != nil {
		w.batch.cancel() // the client is gone or does not read
	}
}

// pause flushes an answer that has started, before waiting for the next element.
func (w *batchWriter) pause() {
	if !w.started || w.flushed {
		return
	}
	w.write()
	w.output.pause()
	w.flushed = true
}

// end writes the end of the answer. A batch of notifications has none (JSON-RPC 2.0, section 6).
func (w *batchWriter) end() {
	if !w.answered {
		w.output.noContent()
		return
	}
	*w.buffer = append(*w.buffer, ']')
	switch {
	case w.started:
		w.write()
	case w.otherwise:
		w.output.whole(http.StatusOK, *w.buffer)
	default: // so that clients authenticate as after a single request
		w.output.fields(w.refused)
		w.output.whole(http.StatusUnauthorized, *w.buffer)
	}
}
