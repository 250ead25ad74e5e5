package card

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// view is a set of skills that a kind of caller may see.
type view uint8

const (
	publicView   view = iota // for anonymous callers
	knownView                // for callers with a principal
	extendedView             // for callers with a principal, in the extended card
)

// key identifies a kept content.
type key struct {
	view view
	// audience is that of the principal, for whom access rules may permit other skills.
	audience int
	skill    string // as the client wrote it; empty: all
}

func (k key) String() string {
	return strconv.Itoa(int(k.view)) + " " + strconv.Itoa(k.audience) + " " + k.skill
}

// kept is the content of a card and the lists that it was made from.
type kept struct {
	content    *content
	entries    []catalog.Entry      // of the card of all skills
	descriptor *document.Descriptor // of the card of one skill
	checked    time.Time            // the last query to the bridge
	described  time.Time            // the last reading of descriptors, if some of them could not be read; zero: all could
	fresh      time.Time            // the end of the content's freshness
	used       time.Time
}

const (
	// recheck is how long a content is used before the bridge is asked again. It bounds the processor time for repeated
	// requests: listing 10,000 skills takes some milliseconds.
	recheck = 200 * time.Millisecond
	// describeAgain is how long the card of all skills uses the descriptors it has, if one of them could not be read. Without
	// this pause, a provider whose descriptors fail would get up to maxDescribed requests whenever the cache forgets the failures.
	describeAgain = time.Minute
	// patience is how long a request waits for a new content if there is an old one.
	patience = time.Second
	// reading bounds the queries for a content: an index and descriptors take up to 10 seconds each.
	reading = 25 * time.Second
	// maxKept bounds the number of contents that are kept of single skills or by access rules, and maxKeptSize their size together, in bytes.
	maxKept     = 256
	maxKeptSize = 16 << 20
)

// content returns the content of a card, and the end of its freshness; zero: it is not fresh.
func (b *Builder) content(ctx context.Context, k key, caller run.Caller) (*content, time.Time, error) {
	b.mu.Lock()
	old := b.kept[k]
	if old != nil {
		old.used = time.Now()
	}
	b.mu.Unlock()
	if old != nil && time.Since(old.checked) < recheck {
		return old.content, old.fresh, nil
	}
	flight := b.flights.DoChan(k.String(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reading)
		defer cancel()
		return b.renew(ctx, k, caller)
	})
	var impatient <-chan time.Time
	if old != nil {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		impatient = timer.C
	}
	select {
	case made := <-flight:
		switch {
		case made.Err == ErrUnavailable && old != nil: //nolint:errorlint // it is never wrapped
			return old.content, time.Time{}, nil
		case made.Err != nil:
			return nil, time.Time{}, made.Err
		}
		now := made.Val.(*kept)
		return now.content, now.fresh, nil
	case <-impatient:
		return old.content, time.Time{}, nil
	case <-ctx.Done():
		return nil, time.Time{}, ErrUnavailable
	}
}

// renew asks the bridge, and keeps the result.
func (b *Builder) renew(ctx context.Context, k key, caller run.Caller) (*kept, error) {
	b.mu.Lock()
	old := b.kept[k]
	b.mu.Unlock()
	now, err := b.read(ctx, k, caller, old)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == ErrNotFound { //nolint:errorlint // it is never wrapped
		delete(b.kept, k)
	}
	if err != nil {
		return nil, err
	}
	now.checked, now.used = time.Now(), time.Now()
	if old == nil || old.content != now.content {
		b.share(k, old, now)
	}
	b.kept[k] = now
	b.makeRoom()
	return now, nil
}

// share replaces a new content by an equal one that is kept: for the same key, so that LastModified does not change,
// or for another view, so that both share their memory. The caller holds b.mu.
func (b *Builder) share(k key, old, now *kept) {
	if old != nil && old.content.digest == now.content.digest {
		now.content = old.content
		return
	}
	for _, v := range []view{publicView, knownView, extendedView} {
		other := b.kept[key{v, k.audience, k.skill}]
		if other != nil && other.content.digest == now.content.digest {
			now.content = other.content
		}
	}
}

// makeRoom removes the least recently used contents of single skills, and of callers to whom access rules apply, until the rest is within the bounds. The caller holds b.mu.
func (b *Builder) makeRoom() {
	for {
		count, size := 0, 0
		var oldest key
		for k, e := range b.kept {
			if k.skill == "" && k.audience == 0 {
				continue
			}
			count++
			size += e.content.size()
			if count == 1 || e.used.Before(b.kept[oldest].used) {
				oldest = k
			}
		}
		if count <= maxKept && size <= maxKeptSize || count == 1 {
			return
		}
		delete(b.kept, oldest)
	}
}

// read asks the bridge for the skills of a view, or for one. If nothing has changed, the content is the old one.
func (b *Builder) read(ctx context.Context, k key, caller run.Caller, old *kept) (*kept, error) {
	if k.view == publicView {
		caller.Principal = ""
	}
	if k.skill != "" {
		return b.describe(ctx, k, caller, old)
	}
	l, described := b.list(ctx, caller, k.view, old)
	refused := 0
	for _, u := range l.Unavailable {
		switch {
		case u.Failure.OfBridge():
			return nil, ErrUnavailable // nothing was read
		case needsPrincipal(u.Failure):
			refused++
		}
	}
	if refused > 0 && refused == len(l.Unavailable) && len(l.Skills) == 0 {
		return &kept{content: b.notice, fresh: l.FreshUntil}, nil
	}
	now := &kept{entries: l.Skills, fresh: l.FreshUntil, described: described}
	if old != nil && old.content != b.notice && slices.Equal(old.entries, l.Skills) {
		now.content = old.content
		return now, nil
	}
	var err error
	if now.content, err = b.contentOf(ctx, l.Skills); err != nil {
		return nil, ErrUnavailable
	}
	return now, nil
}

// list lists the skills of a view, with their descriptors. If some of them could not be read within the last [describeAgain] and
// the list is still the same, it returns the old descriptors. described is the time of the last reading at which some
// descriptors could not be read; zero: all could.
func (b *Builder) list(ctx context.Context, caller run.Caller, v view, old *kept) (l translate.Listing, described time.Time) {
	list := func(descriptors int) translate.Listing {
		l := b.bridge.List(ctx, translate.Query{Caller: caller, Descriptors: descriptors, Executable: true})
		if v != extendedView {
			l.Skills = slices.DeleteFunc(l.Skills, func(e catalog.Entry) bool { return e.Hidden })
		}
		return l
	}
	if old != nil && time.Since(old.described) < describeAgain {
		l = list(0)
		same := func(e, earlier catalog.Entry) bool {
			earlier.Descriptor = nil
			return e == earlier
		}
		if slices.EqualFunc(l.Skills, old.entries, same) {
			l.Skills = old.entries
			return l, old.described
		}
	}
	l = list(maxDescribed)
	if len(l.Skills) <= maxDescribed && (l.Broken > 0 || slices.ContainsFunc(l.Skills, func(e catalog.Entry) bool { return e.Descriptor == nil })) {
		described = time.Now()
	}
	return l, described
}

// describe does what read does, for one skill.
func (b *Builder) describe(ctx context.Context, k key, caller run.Caller, old *kept) (*kept, error) {
	d, failure := b.bridge.Describe(ctx, translate.Call{Caller: caller, Name: k.skill})
	switch {
	case failure == nil && (d.Hidden && k.view != extendedView || d.State == catalog.Unsupported):
		return nil, ErrNotFound
	case failure == nil:
		now := &kept{descriptor: d.Descriptor, fresh: d.FreshUntil}
		if old != nil && old.descriptor == d.Descriptor && old.content.skill == d.Name {
			now.content = old.content
			return now, nil
		}
		var err error
		if now.content, err = b.contentOfOne(ctx, d); err != nil {
			return nil, ErrUnavailable
		}
		return now, nil
	case failure.Kind == run.SkillNotFound || failure.Kind == run.InvalidArguments:
		return nil, ErrNotFound
	case needsPrincipal(failure):
		return &kept{content: b.notice}, nil
	}
	return nil, ErrUnavailable
}

// needsPrincipal reports whether a failure says that a source refuses anonymous callers.
func needsPrincipal(f *run.Failure) bool {
	return f.Demand != nil && f.Demand.CallerActs
}
