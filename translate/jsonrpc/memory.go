package jsonrpc

import (
	"cmp"
	"context"

	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

// part returns an empty part of the memory for answers.
func (s *Server) part(owner string) share.Part {
	pool := cmp.Or(s.Memory, &s.own)
	if s.MaxAnswers <= 0 {
		pool = nil
	}
	return share.Part{Pool: pool, Owner: owner, Most: s.MaxAnswers}
}

func (s *Server) owner(ctx context.Context) string {
	if s.Owner == nil {
		return ""
	}
	return s.Owner(ctx)
}

// Room is memory for texts that are read when no request waits for them, such as the output of a run in the background. It counts
// towards [Server.MaxAnswers], except the first 64 KiB. Unlike a [Request], it can wait until there is memory. The zero value has no
// bound. It is not for concurrent use, but for one text after another.
type Room struct {
	// OnWait is called when Await has to wait. May be nil.
	OnWait func()

	part share.Part
}

// Room returns an empty room of an owner. Its user has to call Release at the end. s may be nil: there is no bound.
func (s *Server) Room(owner string) *Room {
	if s == nil {
		return new(Room)
	}
	return &Room{part: s.part(owner)}
}

// Room returns an empty room of the sender of the request, for texts that are read while the request is answered.
func (r *Request) Room() *Room { return r.server.Room(r.answer.Owner) }

// Await waits until there is memory for a text of which size bytes are needed now, and most bytes at the end at the most. It takes the
// memory for the whole text at once, so that a reader that has a part of its text never waits for more. It returns false if the
// context ends before, or if so much memory will never be free.
func (r *Room) Await(ctx context.Context, size, most int64) bool {
	size = max(size-pieceSize, 0)
	has := r.part.Has()
	if r.part.Pool == nil || size <= has {
		return true
	}
	if has > 0 || size > r.part.Most { // others may wait for what it has
		return r.part.Set(size)
	}
	whole := min(max(size, most-pieceSize), r.part.Most)
	if r.part.Set(whole) {
		return true
	}
	if r.OnWait != nil {
		r.OnWait()
	}
	return r.part.Await(ctx, whole)
}

// Reserve replaces the number of bytes that are reserved, without waiting. It reports whether there is memory for them; if not,
// nothing is reserved any more.
func (r *Room) Reserve(size int64) bool {
	ok := r.part.Set(max(size-pieceSize, 0))
	if !ok {
		r.Release()
	}
	return ok
}

// Release frees the memory.
func (r *Room) Release() { r.part.Set(0) }

// AnswerLimit returns the limit that a failed Reserve or Await has exceeded.
func (r *Room) AnswerLimit() (name string, most int64) { return limitAnswers, r.part.Most }
