package task

import (
	"bytes"
	"sync"
)

const (
	// maxBuffer is the size of the largest buffer that is kept, in bytes.
	maxBuffer = 2 << 20
	// maxBuffers is how many buffers are kept.
	maxBuffers = 4
)

// Buffers keep the buffers of earlier records, which may be those of a batch. Batches are too rare for a [sync.Pool]: garbage collections would empty it. The
// zero value is ready for use.
type Buffers struct {
	mu   sync.Mutex
	list []*bytes.Buffer
}

// Take returns an empty buffer.
func (b *Buffers) Take() *bytes.Buffer {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := len(b.list) - 1
	if last < 0 {
		return new(bytes.Buffer)
	}
	buffer := b.list[last]
	b.list = b.list[:last]
	buffer.Reset()
	return buffer
}

// GiveBack keeps a buffer that is not used any more.
func (b *Buffers) GiveBack(buffer *bytes.Buffer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if buffer.Cap() <= maxBuffer && len(b.list) < maxBuffers {
		b.list = append(b.list, buffer)
	}
}

// Drop frees the buffers that are kept.
func (b *Buffers) Drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = nil
}
