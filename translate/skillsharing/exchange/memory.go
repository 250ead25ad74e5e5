package exchange

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// Memory is reused memory for the body of a request. A transport may read a body after it has returned, so the memory is reused when all
// readers are closed. nil is valid: the body has memory of its own.
type Memory struct {
	Text  []byte
	users atomic.Int32 // readers, and the owner
}

// Bodies of other sizes have memory of their own. net/http writes the header of a request together with a smaller body.
const minReused, maxReused = 32 << 10, 2 << 20

var memories sync.Pool // of *[]byte

// BorrowMemory returns memory for a text of at most size bytes; nil: the text has memory of its own.
func BorrowMemory(size int) *Memory {
	if size < minReused || size > maxReused {
		return nil
	}
	m := new(Memory)
	if b, ok := memories.Get().(*[]byte); ok && cap(*b) >= size {
		m.Text = (*b)[:0]
	} else {
		m.Text = make([]byte, 0, size+size/8) // also for texts that are a little longer
	}
	m.users.Store(1)
	return m
}

// Release is called once by the owner, who must not use the text afterwards.
func (m *Memory) Release() {
	if m == nil || m.users.Add(-1) > 0 {
		return
	}
	if len(m.Text) >= cap(m.Text)/4 { // smaller texts would keep memory that they do not need
		memories.Put(&m.Text)
	}
}

// open returns a reader of the text.
func (m *Memory) open() (io.ReadCloser, error) {
	for {
		users := m.users.Load()
		if users == 0 {
			return nil, http.ErrBodyReadAfterClose
		}
		if m.users.CompareAndSwap(users, users+1) {
			return &sharedReader{memory: m, rest: m.Text}, nil
		}
	}
}

// sharedReader reads a text until it is closed, at any time.
type sharedReader struct {
	mu     sync.Mutex
	memory *Memory // nil: closed
	rest   []byte
}

// Read implements [io.Reader].
func (r *sharedReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.memory == nil:
		return 0, http.ErrBodyReadAfterClose
	case len(r.rest) == 0:
		return 0, io.EOF
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Close implements [io.Closer].
func (r *sharedReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.memory.Release()
	r.memory, r.rest = nil, nil
	return nil
}

// ReadFrom says that the body, which NewRequest has got, is in a memory.
func (o *Request) ReadFrom(m *Memory) {
	if m != nil {
		o.GetBody = m.open
		o.Body, _ = m.open() // its owner has not released it
	}
}
