package translate

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Bounds of the readings of indexes after calls.
const (
	rereadPause = time.Second // between two readings of an index
	rereadShare = 10          // the pause is at least so many times as long as the reading
)

// rereading reads the index of a provider again when runs of its skills have ended, since a skill may publish others, but only while
// somebody listens, and not faster than the bounds say. Callers do not wait for it, and a failure changes nothing.
type rereading struct {
	listening *listening
	section   *catalog.Section
	hold      func() (release func())

	waiting atomic.Bool   // a reading will begin
	turn    chan struct{} // has a value during a reading and the pause after it
}

// listening counts those who listen to changes of lists.
type listening struct {
	count atomic.Int64
	mu    sync.RWMutex // is held while the count falls, and while a reading begins
}

// hold holds the bridge, if somebody listens: else it may have been released.
func (l *listening) hold(hold func() (release func())) (release func(), ok bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.count.Load() == 0 {
		return nil, false
	}
	return hold(), true
}

// Listen says that a client listens to changes of the lists of skills until release is called, once. In this time, the bridge must not be
// released: when runs end, it reads the index of the provider again.
func (b *Bridge) Listen() (release func()) {
	l := &b.listening
	l.count.Add(1)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.count.Add(-1)
	}
}

// Readable returns the namespaces of the sources whose lists of skills are read for a principal.
func (b *Bridge) Readable(principal string) []string {
	return slices.DeleteFunc(b.Namespaces(principal), func(namespace string) bool {
		return !slices.ContainsFunc(b.catalog.Sections(), func(s *catalog.Section) bool { return s.Namespace == namespace && s.Admits(principal) })
	})
}

// ReadLists reads the lists of skills of sources, by their namespaces, for a caller, at the same time. What the cache has is not read. It
// returns until when the list of each source is fresh; sources that can't be read are left out.
func (b *Bridge) ReadLists(ctx context.Context, caller run.Caller, sources []string) (fresh map[string]time.Time) {
	l := b.beginList(ctx, Query{Caller: caller})
	defer l.end()
	l.wanted = sources
	fresh = map[string]time.Time{}
	var mu sync.Mutex
	l.read(func(ctx context.Context, s *catalog.Section) *run.Failure {
		if _, failure := s.View(ctx, caller.Principal); failure != nil {
			return failure
		}
		until, _ := s.FreshUntil(ctx)
		mu.Lock()
		defer mu.Unlock()
		fresh[s.Namespace] = until
		return nil
	})
	return fresh
}

// ranSkill says that a run of a skill of the source has ended.
func (r *rereading) ranSkill(ctx context.Context) {
	if r.listening.count.Load() > 0 && r.waiting.CompareAndSwap(false, true) {
		go r.run(context.WithoutCancel(ctx))
	}
}

// run reads the index once, when it has its turn.
func (r *rereading) run(ctx context.Context) {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	r.waiting.Store(false)
	release, ok := r.listening.hold(r.hold)
	if !ok {
		return
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	r.reread(ctx, began)
	release()
	time.Sleep(max(rereadPause, rereadShare*time.Since(began)))
}

// reread reads the index. No call waits for it that would report a panic.
func (r *rereading) reread(ctx context.Context, asked time.Time) {
	defer func() {
		if value := recover(); value != nil {
			r.section.Client.Observer.Notice(ctx, &exchange.Notice{
				Level: slog.LevelError, Source: r.section.Namespace, Message: "panic while an index was read again; this is a bug in the bridge, please report it",
				Attrs: []slog.Attr{slog.String("panic", fmt.Sprint(value)), slog.String("stack", string(debug.Stack()))},
			})
		}
	}()
	r.section.Reread(ctx, asked)
}
