package jsonrpc

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
)

// leastAnswer is how many bytes of the answer to a batch are reserved for each element. They are
// enough for an error, so each element is answered even if the other elements use up the rest.
const leastAnswer = 8 << 10

// batch is a batch in progress.
type batch struct {
	answers []answer        // by element
	ended   []chan struct{} // by element: is closed once its answer is set
	aborted atomic.Bool     // an element was aborted, so no more answers are written
	cancel  context.CancelFunc

	mu    sync.Mutex
	least int64 // bytes of MaxAnswerSize reserved for each element
	left  int64 // bytes of MaxAnswerSize that elements can still reserve beyond that
}

// serveBatch serves all elements concurrently and writes their answers in order.
// It returns when all have ended, so that nothing uses the body afterwards.
func (s *Server) serveBatch(o *output, elements []element) {
	ctx, cancel := context.WithCancel(o.ctx)
	defer cancel()
	b := &batch{answers: make([]answer, len(elements)), ended: make([]chan struct{}, len(elements)), cancel: cancel}
	b.least = min(leastAnswer, s.MaxAnswerSize/int64(len(elements)))
	b.left = s.MaxAnswerSize - b.least*int64(len(elements))
	var group sync.WaitGroup
	for i := range elements {
		b.ended[i] = make(chan struct{})
		if b.answers[i].err = elements[i].Err; b.answers[i].err != nil {
			close(b.ended[i])
			continue
		}
		req := &elements[i].Request
		req.batch, req.server, req.answer, req.HTTP = b, s, s.part(s.owner(o.ctx)), o.request
		defer req.end()
		group.Go(func() {
			defer close(b.ended[i]) // deferred, since the handler may call runtime.Goexit
			a := s.call(ctx, req)
			if fault := a.fault(&s.Profile); !a.aborted && !req.IsNotification() && !req.Reserve(a.size(req, fault)) {
				a = answer{err: s.Profile.tooLarge(req, fault)}
			}
			if b.answers[i] = a; a.aborted {
				b.aborted.Store(true)
				cancel() // the client will not see the other answers
			}
		})
	}
	o.batch(b, elements)
	group.Wait()
	if b.aborted.Load() {
		panic(http.ErrAbortHandler)
	}
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
	if r.server.MaxAnswerSize <= 0 {
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

// batch writes the answer to a batch: at once if it is short, else in parts while elements end. A batch of notifications has none (JSON-RPC 2.0,
// section 6).
func (o *output) batch(b *batch, elements []element) {
	p, buffer, started := &o.server.Profile, getBuffer(), false
	defer putBuffer(buffer)
	write := func(text []byte) {
		if !started {
			started = true
			o.header(http.StatusOK, "")
		}
		if o.write(text); o.err != nil {
			b.cancel() // the client is gone or does not read
		}
	}
	var refused *Error   // that answers the first element; nil: none does
	unauthorized := true // all answers have the HTTP status 401
	separator := byte('[')
	for i := range elements {
		select {
		case <-b.ended[i]:
		default:
			if started {
				write(*buffer)
				*buffer = (*buffer)[:0]
				o.pause()
			}
			<-b.ended[i]
		}
		e, a := &elements[i], b.answers[i]
		b.answers[i] = answer{} // frees the memory once it is written
		switch {
		case b.aborted.Load():
			return
		case e.Err == nil && e.Request.IsNotification() || e.response && p.TakesResponse(o.request):
			continue
		}
		*buffer = append(*buffer, separator)
		fault := a.fault(p)
		unauthorized = unauthorized && fault != nil && fault.Status == http.StatusUnauthorized
		if separator == '[' {
			refused, separator = fault, ','
		}
		switch {
		case fault != nil:
			*buffer = p.appendError(*buffer, e.Request.ID, p.form(o.request, fault))
		case len(a.result) < pieceSize:
			*buffer = appendResult(*buffer, e.Request.ID, a.result)
		default:
			// A long result is not copied into the buffer, except for its beginning: Caddy's encode handler decides
			// by the size of the first write whether to compress.
			*buffer = append(appendHead(*buffer, e.Request.ID), `,"result":`...)
			write(append(*buffer, a.result[:firstWrite]...))
			write(a.result[firstWrite:])
			*buffer = append((*buffer)[:0], '}')
		}
		if len(*buffer) >= pieceSize {
			write(*buffer)
			*buffer = (*buffer)[:0]
		}
	}
	switch {
	case separator == '[':
		o.noContent()
	case started:
		write(append(*buffer, ']'))
	case unauthorized: // so that clients authenticate as after a single request
		o.fields(refused)
		o.whole(http.StatusUnauthorized, append(*buffer, ']'))
	default:
		o.whole(http.StatusOK, append(*buffer, ']'))
	}
}
