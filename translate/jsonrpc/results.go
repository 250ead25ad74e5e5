package jsonrpc

import (
	"errors"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrNoRoom is the error of [Results.Send] while other answers take all of [Server.MaxAnswers].
var ErrNoRoom = errors.New("jsonrpc: there is no room for the answer")

// Results are results that several streams send. Each is made once, and counts once towards [Server.MaxAnswers], from when the first
// stream sends it until none does. A key identifies a result. The zero value is ready for use, by several goroutines.
type Results[K comparable] struct {
	mu  sync.Mutex
	all map[K]*sharedResult
}

// sharedResult is a result that streams send.
type sharedResult struct {
	once sync.Once // makes text
	text jsontext.Value

	memory  *AnswerMemory
	counted int64 // in memory
	streams int   // protected by the lock of the Results
}

// Send sends the result of a key as an event of a stream, like [Stream.Result]. appendTo appends it to a buffer; size is about its
// length. The text must not depend on the stream. After ErrNoRoom, nothing was sent and the stream goes on.
func (r *Results[K]) Send(s *Stream, number uint64, key K, size int64, appendTo func([]byte) []byte) error {
	if s.output.err != nil {
		return s.output.err
	}
	shared := r.enter(s.request.server, key, size)
	if shared == nil {
		return ErrNoRoom
	}
	defer r.leave(key, shared)
	shared.once.Do(func() {
		shared.text = appendTo(make([]byte, 0, size))
		shared.memory.mu.Lock()
		defer shared.memory.mu.Unlock()
		shared.count(int64(cap(shared.text)))
	})
	a := answer{result: shared.text}
	return s.answer(number, a, a.fault(&s.request.server.Profile))
}

// enter returns the result of a key for one more stream; nil: there is no room for it.
func (r *Results[K]) enter(server *Server, key K, size int64) *sharedResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	shared := r.all[key]
	if shared == nil {
		shared = &sharedResult{memory: server.memory()}
		shared.memory.mu.Lock()
		defer shared.memory.mu.Unlock()
		if server.MaxAnswers > 0 && size > pieceSize && size-pieceSize > server.MaxAnswers-shared.memory.used {
			return nil
		}
		shared.count(size)
		if r.all == nil {
			r.all = map[K]*sharedResult{}
		}
		r.all[key] = shared
	}
	shared.streams++
	return shared
}

// leave is called when a stream has sent the result, or has failed.
func (r *Results[K]) leave(key K, shared *sharedResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if shared.streams--; shared.streams == 0 {
		delete(r.all, key)
		shared.memory.mu.Lock()
		defer shared.memory.mu.Unlock()
		shared.count(0)
	}
}

// count replaces the bytes that are counted, without the first 64 KiB. The caller holds the lock of the memory.
func (s *sharedResult) count(size int64) {
	size = max(size-pieceSize, 0)
	s.memory.used += size - s.counted
	s.counted = size
}
