package run

import (
	"context"
	"errors"
)

// ErrNoRoom is the error of a [Store] for a record that was not read because there is no memory for it.
var ErrNoRoom = errors.New("there is no memory for the record")

type roomKey struct{}

// WithRoom returns a context for [Store.Get]. The Store calls the function with the size of each file before it reads the file. If the
// function returns an error, the Store reads nothing more and returns that error, which should be [ErrNoRoom].
func WithRoom(ctx context.Context, room func(size int64) error) context.Context {
	return context.WithValue(ctx, roomKey{}, room)
}

// MakeRoom calls the function of [WithRoom], if there is one.
func MakeRoom(ctx context.Context, size int64) error {
	if room, ok := ctx.Value(roomKey{}).(func(int64) error); ok {
		return room(size)
	}
	return nil
}
