package skillbridge

import (
	"slices"
	"sync"
)

// live are the handlers of this process, those of earlier configurations included
// whose requests are still being served. Metrics and the admin API tell of them.
var live liveHandlers

type liveHandlers struct {
	mu       sync.Mutex
	handlers []*Handler // in the order in which they were provisioned
}

func (l *liveHandlers) add(h *Handler) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handlers = append(l.handlers, h)
}

func (l *liveHandlers) remove(h *Handler) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handlers = slices.DeleteFunc(l.handlers, func(other *Handler) bool { return other == h })
}

func (l *liveHandlers) all() []*Handler {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.handlers)
}
