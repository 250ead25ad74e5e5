package jsonrpc

import (
	"context"
	"net/http"
	"sync"
)

// share is how much of the answer to a batch each element has for itself, in bytes: what
// others keep never leaves it without a word.
const share = 8 << 10

// batch is the elements of a batch on their way.
type batch struct {
	server   *Server
	elements []Element
	answers  []answer // each is its element's until that has ended
	ended    chan int // the indexes of elements that have
	known    []bool   // of which elements that is known
	aborted  bool     // an element was: nothing is answered any more
	cancel   context.CancelFunc

	mu    sync.Mutex
	share int64 // that each element has for itself
	left  int64 // beyond the shares; only if there is a limit

	held, pooled int64 // what is kept for all elements, and how much of it counts among all answers; guarded by server.mu
}

// serveBatch serves all elements at the same time, and writes their answers in order.
// It returns when the last one ended, so that nothing uses the body afterwards.
func (s *Server) serveBatch(o *output, elements []Element) {
	ctx, cancel := context.WithCancel(o.ctx)
	defer cancel()
	b := &batch{
		server: s, elements: elements, answers: make([]answer, len(elements)),
		ended: make(chan int, len(elements)), known: make([]bool, len(elements)), cancel: cancel,
	}
	b.share = min(share, s.MaxAnswerSize/int64(len(elements)))
	b.left = s.MaxAnswerSize - b.share*int64(len(elements))
	for i := range elements {
		if elements[i].Err != nil {
			b.answers[i], b.known[i] = answer{err: elements[i].Err}, true
			continue
		}
		elements[i].Request.batch, elements[i].Request.server = b, s
		defer elements[i].Request.hold(0)
		go b.serve(ctx, i)
	}
	w := batchWriter{output: *o, batch: b, buffer: takeBuffer()}
	for i := range elements {
		w.add(i)
	}
	if b.aborted {
		panic(http.ErrAbortHandler)
	}
	w.end()
	giveBuffer(w.buffer)
}

// serve serves one element.
func (b *batch) serve(ctx context.Context, i int) {
	defer func() { b.ended <- i }() // also where the handler ends its goroutine
	req := &b.elements[i].Request
	a := b.server.call(ctx, req)
	if fault := a.fault(&b.server.Profile); !a.aborted && !req.IsNotification() && !req.Reserve(a.size(req, fault)) {
		a = answer{err: b.server.Profile.tooLarge(req, fault)}
	}
	b.answers[i] = a
}

// size is how long the answer will be, up to a few bytes.
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
	size = max(size-b.share, 0)
	b.left += r.kept
	r.kept = 0
	if size > b.left {
		return false
	}
	r.kept = size
	b.left -= size
	return true
}

// await waits until one more element has ended.
func (b *batch) await() {
	i := <-b.ended
	b.known[i] = true
	if b.answers[i].aborted {
		b.aborted = true
		b.cancel() // the client will not see the other answers
	}
}

// batchWriter writes the answers to a batch: in one piece if that is short, else as
// they come.
type batchWriter struct {
	output output
	batch  *batch
	buffer *[]byte // what is still to be written
	owed   bool    // there was an answer
	begun  bool    // the header is written
	ready  bool    // all that can be written is
}

// add writes the answer to an element, once it has ended.
func (w *batchWriter) add(i int) {
	b := w.batch
	for !b.known[i] {
		if len(b.ended) == 0 {
			w.pause()
		}
		b.await()
	}
	element, a := &b.elements[i], b.answers[i]
	b.answers[i] = answer{} // what was written is not kept
	if b.aborted || element.Err == nil && element.Request.IsNotification() {
		return
	}
	separator := byte('[')
	if w.owed {
		separator = ','
	}
	w.owed = true
	*w.buffer = append(*w.buffer, separator)
	fault := a.fault(&b.server.Profile)
	switch {
	case fault != nil:
		*w.buffer = AppendError(*w.buffer, element.Request.ID, fault)
	case len(a.result) < pieceSize:
		*w.buffer = AppendResult(*w.buffer, element.Request.ID, a.result)
	default: // need not be copied
		// But for its beginning: an encoder in front judges by the first piece whether it is worth its while.
		*w.buffer = append(appendHead(*w.buffer, element.Request.ID), `,"result":`...)
		*w.buffer = append(*w.buffer, a.result[:beginning]...)
		w.write()
		w.output.write(a.result[beginning:])
		*w.buffer = append(*w.buffer, '}')
	}
	if len(*w.buffer) >= pieceSize {
		w.write()
	}
}

// write writes what is there to be written.
func (w *batchWriter) write() {
	if !w.begun {
		w.begun = true
		w.output.header(http.StatusOK, "")
	}
	w.output.write(*w.buffer)
	*w.buffer = (*w.buffer)[:0]
	w.ready = false
	if w.output.err != nil {
		w.batch.cancel() // the client is gone, or as good as that
	}
}

// pause passes on what there is of an answer that has begun, since the rest is not
// there yet.
func (w *batchWriter) pause() {
	if !w.begun || w.ready {
		return
	}
	w.write()
	w.output.pause()
	w.ready = true
}

// end completes the answer. An empty array is never sent (JSON-RPC 2.0, section 6).
func (w *batchWriter) end() {
	if !w.owed {
		w.output.nothing()
		return
	}
	*w.buffer = append(*w.buffer, ']')
	if w.begun {
		w.write()
	} else {
		w.output.whole(http.StatusOK, *w.buffer)
	}
}
