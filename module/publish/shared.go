package publish

import (
	"math"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/publish"
	"github.com/skill-bridge/caddy-skill-bridge/translate/quota"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

// Bounds of what callers take; see [Handler].
const (
	maxMemory = 256 << 20
	// ofInvocation is the memory of an invocation, besides its request and its answer.
	ofInvocation  = 256 << 10
	maxQuick      = 1000
	maxQuickBytes = 32 << 20
	quickLasts    = 10 * time.Minute
)

// sharedPool has what survives reloads.
var sharedPool = lifetime.NewPool[*shared]()

// shared is what all handlers of the process share.
type shared struct {
	memory   share.Pool
	counters *quota.Counters   // of kept runs
	warnings *observe.Warnings // about invocations

	mu    sync.Mutex
	quick []*quick // the oldest first
	bytes int      // of their outputs and details
}

// quick is a run that was answered at once.
type quick struct {
	ledger.Entry
	run run.Run
}

// size returns the bytes that the run takes.
func (r *quick) size() int {
	return len(r.run.Output) + len(r.run.Failure.ProviderSaid().Details)
}

// remember keeps a run for a while. One that takes more than all may is not kept, so that its status can't be read later: its caller has it.
func (s *shared) remember(r *quick) {
	if r.size() > maxQuickBytes {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quick, s.bytes = append(s.quick, r), s.bytes+r.size()
	for len(s.quick) > maxQuick || s.bytes > maxQuickBytes || time.Since(s.quick[0].Changed) > quickLasts {
		s.bytes -= s.quick[0].size()
		s.quick = slices.Delete(s.quick, 0, 1)
	}
}

// find returns the run with an id; nil: there is none.
func (s *shared) find(id string) *quick {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.quick, func(r *quick) bool { return r.Ref.ExecutionID == id && time.Since(r.Changed) <= quickLasts })
	if i < 0 {
		return nil
	}
	return s.quick[i]
}

// memory returns a part of the memory for requests and answers of the API.
func (q *request) memory() *share.Part {
	most := int64(maxMemory)
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		most = min(most, max(limit/8, 2*publish.MaxAnswer))
	}
	return &share.Part{Pool: &q.handler.shared.memory, Owner: q.source(), Most: most}
}
