package discovery

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Guard decides which descriptor of a skill is used when its provider has changed it. Implementations must be safe for concurrent use.
type Guard interface {
	// Settle returns the descriptor to use when one was read: the same, or an earlier one (see [Restore]) whose Held says so. It is
	// called for every use of a skill. The names are those that callers know the skill by.
	Settle(ctx context.Context, r *Reader, read *Skill, names Names) (*Skill, *run.Failure)
	// Settled is Settle without access to a storage; nil: that is not enough to know which descriptor is used.
	Settled(read *Skill, names Names) *Skill
	// Learn makes Words complete for a list of the source's skills, if they may be others than those of the list. It returns at once for the
	// list of the last call. With a failure, the list must not be shown.
	Learn(ctx context.Context, list any) *run.Failure
	// Words returns the words of the descriptor that is used for the skill of an id, which callers know by names. They are shown instead of those
	// of an index; nil: those of the index are shown. Edition is greater after words have changed.
	Words(id string, names Names) *Words
	Edition() uint64
}

// Names are the name and the tool name of a skill that callers know it by; empty: it has none.
type Names [2]string

// Words are what lists show of a skill, and what searches compare.
type Words struct {
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
}

// NewWords returns the words of a descriptor.
func NewWords(d *document.Descriptor) *Words {
	return &Words{d.Name, d.Version, d.Description, d.Tags}
}

// Held says that a descriptor is used although its provider publishes another one.
type Held struct {
	Since time.Time // when the change was first seen
	Parts []string  // what has changed
}

// WordsOf returns the words of a listed skill, and whether a guard has chosen them. Otherwise they are those of the index, without tags. The guard
// may be nil.
func WordsOf(g Guard, listed *document.IndexEntry, names Names) (w Words, chosen bool) {
	if g != nil {
		if chosen := g.Words(listed.ID, names); chosen != nil {
			return *chosen, true
		}
	}
	return Words{Name: listed.Name, Version: listed.Version, Description: listed.Description}, false
}

// Learn is [Guard.Learn] of a guard that may be nil.
func Learn(ctx context.Context, g Guard, list any) *run.Failure {
	if g == nil {
		return nil
	}
	return g.Learn(ctx, list)
}

// EditionOf is [Guard.Edition] of a guard that may be nil.
func EditionOf(g Guard) uint64 {
	if g == nil {
		return 0
	}
	return g.Edition()
}

// settle asks the guard of the reader about a descriptor. A descriptor of another skill than the expected one does not reach the guard: it
// must not be taken for a change of that skill.
func settle(ctx context.Context, r *Reader, read *Skill, id string, names Names) (*Skill, *run.Failure) {
	if r.Guard == nil || id != "" && read.ID != id {
		return read, nil
	}
	return r.Guard.Settle(ctx, r, read, names)
}

// settled is settle for a document from the cache.
func settled(r *Reader, doc *cache.Document, names Names) *cache.Document {
	if r.Guard == nil || doc == nil {
		return doc
	}
	read := doc.Value.(*Skill)
	used := r.Guard.Settled(read, names)
	switch used {
	case read:
		return doc
	case nil:
		return nil
	}
	copied := *doc
	copied.Value = used
	return &copied
}

// Restore returns the skill of a descriptor that was read from source earlier, on the way of redirects, by the rules for one that is read
// now.
func Restore(r *Reader, text []byte, source string, way []string) (*Skill, error) {
	if r.RepeatsSecret(text) {
		return nil, secretError(run.PhaseDescriptor)
	}
	return readFrom(r, document.WithoutBOM(text), source, way)
}

// readFrom returns the skill of a descriptor that was read from source, on the way of redirects.
func readFrom(r *Reader, text []byte, source string, way []string) (*Skill, error) {
	var urls []*url.URL
	for _, from := range append([]string{source}, way...) {
		u, err := url.Parse(from)
		if err != nil {
			return nil, fmt.Errorf("where it is from: %w", err)
		}
		urls = append(urls, u)
	}
	return newSkill(&r.constant().limits, text, urls[0], urls[1:]...)
}
