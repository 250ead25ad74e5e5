package changes

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
)

// words are those of the descriptors in use, so that lists don't show what a provider writes into its index. They are in memory, since lists
// have thousands of skills. The store bounds them, since it has a record of each.
type words struct {
	mu      sync.Mutex
	of      map[string]*kept  // by the keys of skills
	owners  map[string]string // keys of skills by their names
	edition atomic.Uint64

	learning sync.Mutex
	names    map[string]bool // of the records that were read
	list     any             // for which they are complete
	failure  *run.Failure    // of the last attempt; nil: it did not fail
	tried    time.Time
}

// kept are the words of the descriptor of a skill that is in use, with the digests of the descriptors that may be used.
type kept struct {
	discovery.Words
	digests []string
}

// Bounds of reading the records of a source.
const (
	recordsAtOnce = 16
	learnTimeout  = 10 * time.Second
)

// Learn implements [discovery.Guard]. It reads the records that the store has got since the last list, such as those of other instances, and after
// a restart all of them. A change of a record that was read is noticed when the skill is used.
func (g *Guard) Learn(ctx context.Context, list any) *run.Failure {
	if g.config.Store == nil || g.config.Single {
		return nil // the list of a single skill is made of the descriptor in use
	}
	w := &g.words
	w.learning.Lock()
	defer w.learning.Unlock()
	if w.list == list {
		return nil
	}
	if w.failure == nil || time.Since(w.tried) >= recheck {
		w.failure = nil
		if err := g.readRecords(context.WithoutCancel(ctx)); err != nil {
			w.failure, w.tried = unknownList(err), time.Now()
		}
	}
	if w.failure != nil {
		return new(*w.failure)
	}
	w.list = list
	return nil
}

// readRecords reads the records that were not read yet. After an error, the next call continues.
func (g *Guard) readRecords(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, learnTimeout)
	defer cancel()
	names, err := g.config.Store.Names(ctx, InUse)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var failed error
	var group panics.Group
	group.SetLimit(recordsAtOnce)
	for _, name := range names {
		mu.Lock()
		known := g.words.names[name]
		mu.Unlock()
		if known {
			continue
		}
		group.Go(func() {
			r, err := g.config.Store.Get(ctx, InUse, name)
			known := err == nil && r != nil
			if known {
				g.words.add(g.key(r.SkillID), wordsOf(r), r)
			}
			mu.Lock()
			defer mu.Unlock()
			failed = cmp.Or(failed, err)
			g.words.names[name] = known
		})
	}
	group.Wait()
	return failed
}

// Words implements [discovery.Guard].
func (g *Guard) Words(id string, names discovery.Names) *discovery.Words {
	g.words.mu.Lock()
	defer g.words.mu.Unlock()
	if k := g.words.of[g.key(id)]; k != nil {
		return &k.Words
	}
	for _, name := range names {
		if owner, known := g.words.owners[name]; known && g.words.of[owner] != nil {
			return &g.words.of[owner].Words
		}
	}
	return nil
}

// Edition implements [discovery.Guard].
func (g *Guard) Edition() uint64 { return g.words.edition.Load() }

// permit reports whether a descriptor of a skill may be used, as far as is known, and none of its names is known to be that of another skill.
func (w *words) permit(key, digest string, names discovery.Names) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.of[key]
	return k != nil && slices.Contains(k.digests, digest) &&
		!slices.ContainsFunc(names[:], func(name string) bool { owner, known := w.owners[name]; return known && owner != key })
}

// set sets the words of a skill.
func (w *words) set(key string, now *discovery.Words, digests []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.of[key]
	w.of[key] = &kept{*now, digests}
	if before == nil || !reflect.DeepEqual(before.Words, *now) {
		w.edition.Add(1)
	}
}

// add sets the words of a skill, unless they are known: those of the descriptor that was used last may be newer.
func (w *words) add(key string, now *discovery.Words, r *Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range r.Names {
		if w.owners[name] == "" {
			w.owners[name] = key
		}
	}
	if w.of[key] == nil {
		w.of[key] = &kept{*now, r.Digests}
		w.edition.Add(1)
	}
}

// wordsOf returns the words of a record. Its descriptor was valid when it was stored.
func wordsOf(r *Record) *discovery.Words {
	w := new(discovery.Words)
	_ = json.Unmarshal(r.Document, w) // otherwise there are no words, and the skill can't be called
	return w
}

// unknownList returns the failure of a list whose words are not known.
func unknownList(err error) *run.Failure {
	f := run.NotExecuted(run.Internal, run.PhaseDiscovery, "The bridge can't tell whether the provider has changed its skills: the descriptors that are in use can't be read.")
	f.Advice, f.Cause = run.AskOperator+": the log has the reason.", fmt.Errorf("on_change hold: the descriptors that are in use can't be read: %w", err)
	return f
}
