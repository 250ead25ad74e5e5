package discovery

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// verdicts are the judgements of clients on a document that they share: whether their own
// rules let them read it, and whether it repeats a secret of theirs. Each client
// judges a document once.
type verdicts struct {
	known atomic.Pointer[[]verdict]
	mu    sync.Mutex // held while a client judges
}

// keptIndex is an index as the cache keeps it.
type keptIndex struct {
	*document.Index
	verdicts verdicts
}

type verdict struct {
	by  uint64       // number of a client
	err *run.Failure // nil: it may use the document
}

// maxVerdicts bounds how many clients are remembered: those of the same source before
// and after reloads, and in several sites. Further ones judge more than once.
const maxVerdicts = 16

// of returns the verdict of a client, which judges the document if it has not yet.
func (v *verdicts) of(by uint64, judge func() *run.Failure) verdict {
	if last, known := v.find(by); known {
		return last
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if last, known := v.find(by); known {
		return last
	}
	last := verdict{by, judge()}
	v.add(last)
	return last
}

func (v *verdicts) find(by uint64) (verdict, bool) {
	if known := v.known.Load(); known != nil {
		for i := range *known {
			if (*known)[i].by == by {
				return (*known)[i], true
			}
		}
	}
	return verdict{}, false
}

// add remembers a verdict, and forgets the oldest if there are too many.
func (v *verdicts) add(last verdict) {
	var all []verdict
	if known := v.known.Load(); known != nil {
		all = slices.Clone((*known)[max(0, len(*known)-maxVerdicts+1):])
	}
	all = append(all, last)
	v.known.Store(&all)
}

// judgeDocument says whether the client may use a document that it or another client of the
// same source has read; nil: it may.
func (c *Reader) judgeDocument(ctx context.Context, kind documentKind, asked string, doc *cache.Document) *run.Failure {
	last := verdictsOf(doc).of(c.constant().number, func() *run.Failure { return c.mayUse(ctx, kind, asked, doc) })
	if last.err == nil {
		return nil
	}
	if last.err.Kind == run.InvalidDocument && time.Since(doc.FetchedAt) >= c.Cache.NegativeTTL() {
		c.Cache.Delete(asked, c.partition(kind)) // it may have been corrected: the next call has it read anew
	}
	e := *last.err
	return &e
}

func verdictsOf(doc *cache.Document) *verdicts {
	if kept, ok := doc.Value.(*keptIndex); ok {
		return &kept.verdicts
	}
	return &doc.Value.(*Skill).verdicts
}

// mayUse judges a document by what the client may request, and by its secrets.
func (c *Reader) mayUse(ctx context.Context, kind documentKind, asked string, doc *cache.Document) *run.Failure {
	for _, text := range slices.Compact(append([]string{asked, doc.URL}, doc.Via...)) {
		u, err := url.Parse(text)
		if err != nil {
			return c.Unreachable(err, kind.phase(), c.Origin, "")
		}
		if e := c.Permitted(ctx, u, kind.phase()); e != nil {
			e.URL = exchange.BareURL(u)
			credential.ScrubFailure(e, c.Credentials, c.DiscoveryCredentials)
			return e
		}
	}
	repeated := false
	if s, ok := doc.Value.(*Skill); ok {
		repeated = c.RepeatsSecret(s.Document)
	} else if secrets := c.LongSecrets(); len(secrets) > 0 {
		repeated = repeats(doc.Value.(*keptIndex).Index, secrets)
	}
	if repeated {
		return secretError(kind.phase())
	}
	return nil
}

// repeats reports whether a text of the index has a secret in it.
func repeats(x *document.Index, secrets []string) bool {
	in := func(texts ...string) bool {
		return slices.ContainsFunc(texts, func(text string) bool {
			return slices.ContainsFunc(secrets, func(secret string) bool { return strings.Contains(text, secret) })
		})
	}
	if in(x.Protocol.Version, x.Protocol.ChangelogURL, x.Provider.Name, x.Provider.URL, x.Provider.Contact) ||
		credential.RepeatsAny(x.Unknown, secrets) || credential.RepeatsAny(x.Protocol.Unknown, secrets) || credential.RepeatsAny(x.Provider.Unknown, secrets) {
		return true
	}
	return slices.ContainsFunc(x.Skills, func(e document.IndexEntry) bool {
		return in(e.ID, e.Name, string(e.CapabilityType), e.Description, e.DescriptorURL, string(e.Access), e.Version) || credential.RepeatsAny(e.Unknown, secrets)
	})
}
