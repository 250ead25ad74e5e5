package sources

import (
	"context"
	"errors"
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

// Kinds of things with the descriptors of skills whose changes are held. The name of a thing is a digest of the source, and one of the skill or of its
// name.
const (
	kindUsed   = "descriptors_used"
	kindHeld   = "descriptors_held"
	kindOwners = "descriptors_names"
)

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

var _ changes.Store = (*descriptors)(nil)

func (d *descriptors) name(id string) string {
	return d.source + lifetime.NewDigest("skill", id).String()
}

// Used implements [changes.Store].
func (d *descriptors) Used(ctx context.Context, id string) (*changes.Record, error) {
	return d.load(ctx, kindUsed, d.name(id))
}

// Held implements [changes.Store].
func (d *descriptors) Held(ctx context.Context, id string) (*changes.Record, error) {
	return d.load(ctx, kindHeld, d.name(id))
}

func (d *descriptors) load(ctx context.Context, kind, name string) (*changes.Record, error) {
	r := new(changes.Record)
	version, err := d.read(ctx, kind, name, r)
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
	if errors.Is(err, store.ErrNoThing) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading a descriptor: %w", err)
	}
	if err := json.Unmarshal(thing.Value, to); err != nil {
		return 0, fmt.Errorf("reading a descriptor: %s: %w", name, run.ErrDamaged) // err may quote it
	}
	return thing.Version, nil
}

// Use implements [changes.Store].
func (d *descriptors) Use(ctx context.Context, id string, r *changes.Record) (stored bool, err error) {
	if r.Version == 0 && !leavesDescriptors.Load() {
		if err := d.mayStore(ctx, int64(len(r.Document))); err != nil {
			return false, err
		}
	}
	stored, err = d.put(ctx, kindUsed, d.name(id), r.Version, r)
	if r.Version == 0 && !stored {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.counted = false
	}
	return stored, err
}

// Hold implements [changes.Store].
func (d *descriptors) Hold(ctx context.Context, id string, r *changes.Record) (stored bool, err error) {
	return d.put(ctx, kindHeld, d.name(id), r.Version, r)
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
		names, err := d.list(ctx, kindUsed)
		if err != nil {
			return err
		}
		d.count, d.bytes = len(names), 0
		for _, size := range names {
			d.bytes += size
		}
		d.counted = true
	}
	if d.count >= maxDescriptors || d.bytes+size > maxDescriptorBytes {
		return fmt.Errorf("the source has too many skills for on_change hold: at most %d, with %d MiB", maxDescriptors, maxDescriptorBytes>>20)
	}
	d.count++
	d.bytes += size
	return nil
}

// list returns the names of the descriptors of the source, with their sizes.
func (d *descriptors) list(ctx context.Context, kind string) (map[string]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	names, err := d.things.Names(ctx, kind, d.source, 2*maxDescriptors)
	if err != nil {
		return nil, fmt.Errorf("listing descriptors: %w", err)
	}
	return names, nil
}

func (d *descriptors) names(ctx context.Context, kind string) ([]string, error) {
	list, err := d.list(ctx, kind)
	return slices.Sorted(maps.Keys(list)), err
}

// Drop implements [changes.Store].
func (d *descriptors) Drop(ctx context.Context, id string) error {
	if leavesDescriptors.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := d.things.Delete(ctx, kindHeld, d.name(id)); err != nil {
		return fmt.Errorf("deleting a descriptor: %w", err)
	}
	return nil
}

// UsedNames implements [changes.Store].
func (d *descriptors) UsedNames(ctx context.Context) ([]string, error) { return d.names(ctx, kindUsed) }

// UsedNamed implements [changes.Store].
func (d *descriptors) UsedNamed(ctx context.Context, name string) (*changes.Record, error) {
	return d.load(ctx, kindUsed, name)
}

// HeldNames implements [changes.Store].
func (d *descriptors) HeldNames(ctx context.Context) ([]string, error) { return d.names(ctx, kindHeld) }

// HeldName implements [changes.Store].
func (d *descriptors) HeldName(id string) string { return d.name(id) }

// HeldNamed implements [changes.Store].
func (d *descriptors) HeldNamed(ctx context.Context, name string) (*changes.Record, error) {
	return d.load(ctx, kindHeld, name)
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
