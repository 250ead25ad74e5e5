package discovery

import (
	"context"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// usage is what is known about the use of a document in the cache.
type usage struct {
	verdicts verdicts
	stale    atomic.Pointer[run.Failure] // why it could not be renewed when it was read last; nil: it was fresh
}

// usageOf returns the usage of a document of a [Reader].
func usageOf(doc *cache.Document) *usage {
	if kept, ok := doc.Value.(*keptIndex); ok {
		return &kept.usage
	}
	return &doc.Value.(*Skill).usage
}

// keptIndex is an index as the cache keeps it.
type keptIndex struct {
	*document.Index
	usage
}

// FreshUntil returns until when a document of a [Reader] is fresh. If it is stale and could not be renewed, the time is zero, and FreshUntil
// returns why.
func FreshUntil(doc *cache.Document) (until time.Time, failure *run.Failure) {
	if failure = usageOf(doc).stale.Load(); failure != nil && !time.Now().Before(doc.ExpiresAt) {
		return time.Time{}, failure
	}
	return doc.ExpiresAt, nil
}

// verdicts are the results of the checks of one document by the readers that share it: whether the
// reader may request the document's URLs, and whether the document contains one of the reader's secrets. Each reader checks a document once.
type verdicts struct {
	mu    sync.RWMutex
	known map[uint64]*run.Failure // by the numbers of the readers; nil: the reader may use the document
}

// maxVerdicts limits how many readers' verdicts are kept. A source has several readers if it is
// configured in several sites, and after reloads. If there are more, they check a document again.
const maxVerdicts = 16

// of returns the verdict of a reader. If there is none yet, it calls judge and stores the result.
func (v *verdicts) of(by uint64, judge func() *run.Failure) *run.Failure {
	v.mu.RLock() // every call asks
	last, known := v.known[by]
	v.mu.RUnlock()
	if known {
		return last
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if last, known = v.known[by]; known {
		return last
	}
	if v.known == nil || len(v.known) == maxVerdicts {
		v.known = map[uint64]*run.Failure{}
	}
	last = judge()
	v.known[by] = last
	return last
}

// judgeDocument checks whether the reader may use a document that it or another reader of the
// same source has read; nil: it may.
func (r *Reader) judgeDocument(ctx context.Context, of *address, doc *cache.Document) *run.Failure {
	last := usageOf(doc).verdicts.of(r.constant().number, func() *run.Failure { return r.mayUse(ctx, of, doc) })
	if last == nil {
		return nil
	}
	if last.Kind == run.InvalidDocument && time.Since(doc.FetchedAt) >= r.Cache.NegativeTTL() {
		r.forget(of) // it may have been corrected, so that the next call must read it again
	}
	return new(*last)
}

// mayUse checks whether the reader may request the URLs of a document, and whether the document
// contains a secret; nil: the reader may use it.
func (r *Reader) mayUse(ctx context.Context, of *address, doc *cache.Document) *run.Failure {
	kind := of.kind
	for _, text := range slices.Compact(append([]string{of.text, doc.URL}, doc.Via...)) {
		u, err := url.Parse(text)
		if err != nil {
			return r.Unreachable(err, kind.phase(), r.Origin, "")
		}
		if e := r.Permitted(ctx, u, kind.phase()); e != nil {
			e.URL = exchange.BareURL(u)
			r.ScrubFailure(e)
			return e
		}
	}
	repeated := false
	if s, ok := doc.Value.(*Skill); ok {
		repeated = r.RepeatsSecret(s.Document) || s.Files != nil && s.Files.Any(r.RepeatsSecret)
	} else if r.HasSecrets() {
		text, err := json.Marshal(doc.Value.(*keptIndex).Index)
		repeated = err != nil || r.RepeatsSecret(text)
	}
	if repeated {
		return secretError(kind.phase())
	}
	return nil
}
