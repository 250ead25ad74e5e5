package run

import "errors"

// MaxRecord is the size of the largest text that is kept about a run, in bytes.
const MaxRecord = 32 << 20

// ErrDamaged is the error for what can't be read since its content is damaged.
var ErrDamaged = errors.New("the record is damaged")

// ErrNoRoom is the error for an output that was not read because there is no memory for it.
var ErrNoRoom = errors.New("there is no memory for the record")
