package exchange

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
)

// Memory is reused memory for the body of an invocation, with all its repetitions. nil is valid: the body has memory of its own.
type Memory struct {
	Text     []byte
	released atomic.Bool
	shared   bool // a transport may still read the text
}

// Bodies of other sizes have memory of their own.
const minReused, maxReused = 1 << 10, 2 << 20

// Bodies of a few KiB don't compete with large ones, whose memory they can't keep.
var memories, largeMemories sync.Pool // of *[]byte

// BorrowMemory returns memory for a text of at most size bytes; nil: the text has memory of its own.
func BorrowMemory(size int) *Memory {
	if size < minReused || size > maxReused {
		return nil
	}
	if b, ok := poolFor(size).Get().(*[]byte); ok && cap(*b) >= size {
		return &Memory{Text: (*b)[:0]}
	}
	return &Memory{Text: make([]byte, 0, size+size/8)} // also for texts that are a little longer
}

func poolFor(size int) *sync.Pool {
	if size < 32<<10 {
		return &memories
	}
	return &largeMemories
}

// Release is called once by the owner, who must not use the text afterwards. The memory is reused unless a transport may still read it.
func (m *Memory) Release() {
	if m == nil {
		return
	}
	m.released.Store(true)
	if !m.shared && len(m.Text) >= cap(m.Text)/4 { // smaller texts would keep memory that they do not need
		poolFor(len(m.Text)).Put(&m.Text)
	}
}

// ReadFrom says that the body, which NewRequest has got, is in a memory.
func (o *Request) ReadFrom(m *Memory) {
	if m == nil {
		return
	}
	o.memory, o.trace.WroteRequest = m, o.noteWritten
	o.GetBody = func() (io.ReadCloser, error) {
		o.rewound.Store(true)
		if m.released.Load() {
			return nil, http.ErrBodyReadAfterClose
		}
		return io.NopCloser(bytes.NewReader(m.Text)), nil
	}
}

// noteWritten is called by the transport when it has ended an attempt to write the request, and does not read the body any more.
func (o *Request) noteWritten(info httptrace.WroteRequestInfo) {
	if info.Err == nil {
		o.written.Store(true)
	}
}

// leaveMemory is called when the transport has returned, so that it begins no other attempt. If there was one attempt, which has
// written the request, nothing reads the body any more. Otherwise its memory can't be reused: a transport may read a body after it has
// returned, and net/http says that it closes a body only if it does not know that the body is in memory, which costs a system call.
func (o *Request) leaveMemory() {
	if o.memory != nil && (!o.written.Load() || o.rewound.Load() || o.Sent.Load() != 1) {
		o.memory.shared = true
	}
}
