package sources

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/changes"
)

// kindOwners is the kind of the things with the skills that may have a name. The others are the kinds of package changes. The name of a thing is a digest of
// the source, and one of the skill or of its name.
const kindOwners = "descriptors_names"

// Bounds of the descriptors of a source that are in use. There are at most as many that are held.
const (
	maxDescriptors     = 10_000
	maxDescriptorBytes = 64 << 20
)

// storeTimeout bounds one use of the database.
const storeTimeout = 5 * time.Second

// descriptors are the descriptors of a source that are in use or held, in a database.
type descriptors struct {
	things store.Things
	source string // begins the names of its things

	mu      sync.Mutex
	counted bool
	count   int   // of those in use, as far as this process knows
	bytes   int64 // of these
}

// leavesDescriptors says that this process stores no descriptors.
var leavesDescriptors atomic.Bool

// LeaveDescriptors makes this process read the stored descriptors and store none. A program that only checks a configuration must not decide
// which descriptor was seen first.
func LeaveDescriptors() { leavesDescriptors.Store(true) }

// newDescriptors returns the descriptors of a source, which is known by an identity.
func newDescriptors(things store.Things, source string) *descriptors {
	return &descriptors{things: things, source: lifetime.NewDigest("source", source).String() + "/"}
}

// Name implements [changes.Store].
func (d *descriptors) Name(id string) string {
	return d.source + lifetime.NewDigest("skill", id).String()
}

// Get implements [changes.Store].
func (d *descriptors) Get(ctx context.Context, kind changes.Kind, name string) (*changes.Record, error) {
	r := new(changes.Record)
	version, err := d.read(ctx, string(kind), name, r)
	if version == 0 || err != nil {
		return nil, err
	}
	r.Version = version
	return r, nil
}

// read reads a value, and returns its version; 0: there is none.
func (d *descriptors) read(ctx context.Context, kind, name string, to any) (version int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	thing, err := d.things.Get(ctx, kind, name)
	switch {
	case err != nil:
		return 0, fmt.Errorf("reading a descriptor: %w", err)
	case thing.Version == 0:
		return 0, nil
	}
	if err := json.Unmarshal(thing.Value, to); err != nil {
		return 0, fmt.Errorf("reading a descriptor: %s: %w", name, run.ErrDamaged) // err may quote it
	}
	return thing.Version, nil
}

// Put implements [changes.Store].
func (d *descriptors) Put(ctx context.Context, kind changes.Kind, name string, r *changes.Record) (stored bool, err error) {
	isNew := kind == changes.InUse && r.Version == 0
	if isNew && !leavesDescriptors.Load() {
		if err := d.mayStore(ctx, int64(len(r.Document))); err != nil {
			return false, err
		}
	}
	stored, err = d.put(ctx, string(kind), name, r.Version, r)
	if isNew && !stored {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.counted = false
	}
	return stored, err
}

// put stores a value if the stored one has a version, and reports whether it does.
func (d *descriptors) put(ctx context.Context, kind, name string, version int64, r any) (stored bool, err error) {
	if leavesDescriptors.Load() {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	text, err := json.Marshal(r)
	if err == nil {
		stored, err = d.things.Put(ctx, &store.Thing{Kind: kind, Name: name, Value: text, Version: version}, 0)
	}
	if err != nil {
		return false, fmt.Errorf("storing a descriptor: %w", err)
	}
	return stored, nil
}

// mayStore counts a new descriptor that is to be used, and returns an error if the source has too many.
func (d *descriptors) mayStore(ctx context.Context, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.counted {
		names, err := d.stored(ctx)
		switch {
		case err != nil:
			return err
		case !d.counted: // also not by another meanwhile, who has counted a descriptor of its own, too
			d.count, d.bytes, d.counted = len(names), 0, true
			for _, size := range names {
				d.bytes += size
			}
		}
	}
	if d.count >= maxDescriptors || d.bytes+size > maxDescriptorBytes {
		return fmt.Errorf("the source has too many skills for on_change hold: at most %d, with %d MiB", maxDescriptors, maxDescriptorBytes>>20)
	}
	d.count++
	d.bytes += size
	return nil
}

// stored lists the descriptors in use, without the lock: others must not wait for the database longer than their calls may take.
func (d *descriptors) stored(ctx context.Context) (map[string]int64, error) {
	d.mu.Unlock()
	defer d.mu.Lock()
	return d.list(ctx, changes.InUse)
}

// list returns the names of the descriptors of the source, with their sizes.
func (d *descriptors) list(ctx context.Context, kind changes.Kind) (map[string]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	names, err := d.things.Names(ctx, string(kind), d.source, 2*maxDescriptors)
	if err != nil {
		return nil, fmt.Errorf("listing descriptors: %w", err)
	}
	return names, nil
}

// Names implements [changes.Store].
func (d *descriptors) Names(ctx context.Context, kind changes.Kind) ([]string, error) {
	list, err := d.list(ctx, kind)
	return slices.Sorted(maps.Keys(list)), err
}

// Drop implements [changes.Store].
func (d *descriptors) Drop(ctx context.Context, name string) error {
	if leavesDescriptors.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := d.things.Delete(ctx, string(changes.OnHold), name); err != nil {
		return fmt.Errorf("deleting a descriptor: %w", err)
	}
	return nil
}

// ownersName returns the name of the thing with the skills that may have a name.
func (d *descriptors) ownersName(name string) string {
	return d.source + lifetime.NewDigest("name", name).String()
}

// Owners implements [changes.Store].
func (d *descriptors) Owners(ctx context.Context, name string) (o changes.Owners, err error) {
	o.Version, err = d.read(ctx, kindOwners, d.ownersName(name), &o.IDs)
	return o, err
}

// Own implements [changes.Store].
func (d *descriptors) Own(ctx context.Context, name string, o changes.Owners) (stored bool, err error) {
	return d.put(ctx, kindOwners, d.ownersName(name), o.Version, o.IDs)
}
