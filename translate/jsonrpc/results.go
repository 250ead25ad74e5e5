package jsonrpc

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

// ErrNoRoom is the error of [Results.Send] while other answers take all of [Server.MaxAnswers].
var ErrNoRoom = errors.New("jsonrpc: there is no room for the answer")

// Results are results that several requests are answered with, also as events of their streams. Each is made once, and counts once
// towards [Server.MaxAnswers], from when the first request gets it until none writes it. A key identifies a result. The zero value is ready for use, by several goroutines.
type Results[K comparable] struct {
	mu      sync.Mutex
	all     map[K]*sharedResult
	waiting share.Pool // bytes of results that wait for room while their source is in memory
}

// sharedResult is a result that requests are answered with.
type sharedResult struct {
	once sync.Once // makes text
	text jsontext.Value

	part  share.Part // of the first request
	users int        // protected by the lock of the Results
}

// roomPause is the time between two attempts to get memory.
const roomPause = 100 * time.Millisecond

// Send sends the result of a key as an event of a stream, like [Stream.Result]. appendTo appends it to a buffer; size is about its
// length. The text must not depend on the stream. If there is no room, Send waits for it, unless much waits already. After ErrNoRoom,
// nothing was sent and the stream goes on.
func (r *Results[K]) Send(ctx context.Context, s *Stream, wait time.Duration, number uint64, key K, size int64, appendTo func([]byte) []byte) error {
	if s.output.err != nil {
		return s.output.err
	}
	shared := r.enter(s.request, key, size)
	if shared == nil && wait > 0 {
		waiting := share.Part{Pool: &r.waiting, Owner: s.request.answer.Owner, Most: s.request.server.MaxAnswers / 4}
		if !waiting.Set(size) {
			return ErrNoRoom
		}
		defer waiting.Set(0)
	}
	for end := time.Now().Add(wait); shared == nil; shared = r.enter(s.request, key, size) {
		if !time.Now().Before(end) {
			return ErrNoRoom
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(roomPause):
		}
	}
	defer r.leave(key, shared)
	a := answer{result: shared.make(size, appendTo)}
	return s.answer(number, a, a.fault(&s.request.server.Profile))
}

// Answer returns the result of a key for the answer to a request, like Send. Without room, the error is ErrNoRoom.
func (r *Results[K]) Answer(req *Request, key K, size int64, appendTo func([]byte) []byte) (jsontext.Value, error) {
	shared := r.enter(req, key, size)
	if shared == nil {
		return nil, ErrNoRoom
	}
	req.OnAnswered(func() { r.leave(key, shared) })
	text := shared.make(size, appendTo)
	req.shared = int64(len(text))
	return text, nil
}

// make returns the text, which the first caller makes.
func (s *sharedResult) make(size int64, appendTo func([]byte) []byte) jsontext.Value {
	s.once.Do(func() {
		s.text = appendTo(make([]byte, 0, size))
		s.part.Count(max(int64(cap(s.text))-pieceSize, 0))
	})
	return s.text
}

// enter returns the result of a key for one more request; nil: there is no room for it.
func (r *Results[K]) enter(req *Request, key K, size int64) *sharedResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	shared := r.all[key]
	if shared == nil {
		shared = &sharedResult{part: req.server.part(req.answer.Owner)}
		if !shared.part.Set(max(size-pieceSize, 0)) {
			return nil
		}
		if r.all == nil {
			r.all = map[K]*sharedResult{}
		}
		r.all[key] = shared
	}
	shared.users++
	return shared
}

// leave is called when a request was answered with the result, or has failed.
func (r *Results[K]) leave(key K, shared *sharedResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if shared.users--; shared.users == 0 {
		delete(r.all, key)
		shared.part.Set(0)
	}
}
