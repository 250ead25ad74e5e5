package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/certmagic"
	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/changes"
)

const (
	// descriptorsKey is the storage key of the descriptors of skills whose changes are held. Each source has a folder, with a file of each skill
	// in used, and of each change in held.
	descriptorsKey = "skill_bridge/descriptors"
	usedKey        = "used"
	heldKey        = "held"
	ownersKey      = "names"
)

// Bounds of the descriptors of a source that are in use. There are at most as many that are held.
const (
	maxDescriptors     = 10_000
	maxDescriptorBytes = 64 << 20
)

// Descriptors are the descriptors of a source that are in use or held, in Caddy's storage.
type Descriptors struct {
	storage certmagic.Storage
	folder  string

	mu      sync.Mutex
	counted bool
	count   int   // of those in use, as far as this process knows
	bytes   int64 // of these
}

// leavesDescriptors says that this process stores no descriptors.
var leavesDescriptors atomic.Bool

// LeaveDescriptors makes this process read the stored descriptors and store none. A program that only checks a configuration must not decide
// which descriptor was seen first, and may run as another user than Caddy.
func LeaveDescriptors() { leavesDescriptors.Store(true) }

// NewDescriptors returns the descriptors of a source, which is known by an identity.
func NewDescriptors(storage certmagic.Storage, source string) *Descriptors {
	return &Descriptors{storage: storage, folder: path.Join(descriptorsKey, digest("source", source))}
}

var _ changes.Store = (*Descriptors)(nil)

func (d *Descriptors) key(kind, id string) string {
	return path.Join(d.folder, kind, digest("skill", id))
}

// Used implements [changes.Store].
func (d *Descriptors) Used(ctx context.Context, id string) (*changes.Record, error) {
	return d.load(ctx, d.key(usedKey, id))
}

// Held implements [changes.Store].
func (d *Descriptors) Held(ctx context.Context, id string) (*changes.Record, error) {
	return d.load(ctx, d.key(heldKey, id))
}

func (d *Descriptors) load(ctx context.Context, key string) (*changes.Record, error) {
	r := new(changes.Record)
	if found, err := d.read(ctx, key, r); !found {
		return nil, err
	}
	return r, nil
}

// read reads a value, and reports whether there is one.
func (d *Descriptors) read(ctx context.Context, key string, to any) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, storageTimeout)
	defer cancel()
	text, err := Load(ctx, d.storage, key, maxDescriptorBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading a descriptor: %w", err)
	}
	if err := json.Unmarshal(text, to); err != nil {
		return false, fmt.Errorf("reading a descriptor: %s: %w", key, run.ErrDamaged) // err may quote it
	}
	return true, nil
}

// Use implements [changes.Store].
func (d *Descriptors) Use(ctx context.Context, id string, r *changes.Record) error {
	if leavesDescriptors.Load() {
		return nil
	}
	if err := d.mayStore(ctx, id, int64(len(r.Document))); err != nil {
		return err
	}
	return d.store(ctx, d.key(usedKey, id), r)
}

// Hold implements [changes.Store].
func (d *Descriptors) Hold(ctx context.Context, id string, r *changes.Record) error {
	if leavesDescriptors.Load() {
		return nil
	}
	return d.store(ctx, d.key(heldKey, id), r)
}

func (d *Descriptors) store(ctx context.Context, key string, r any) error {
	ctx, cancel := context.WithTimeout(ctx, storageTimeout)
	defer cancel()
	text, err := json.Marshal(r)
	if err == nil {
		err = d.storage.Store(ctx, key, text)
	}
	if err != nil {
		return fmt.Errorf("storing a descriptor: %w", err)
	}
	return nil
}

// mayStore counts a descriptor that is to be used, and returns an error if the source has too many.
func (d *Descriptors) mayStore(ctx context.Context, id string, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.counted {
		names, err := d.list(ctx, usedKey)
		if err != nil {
			return err
		}
		for _, name := range names {
			if info, err := d.storage.Stat(ctx, name); err == nil { // otherwise another process has deleted it
				d.count++
				d.bytes += info.Size
			}
		}
		d.counted = true
	}
	if d.storage.Exists(ctx, d.key(usedKey, id)) {
		return nil // it is replaced
	}
	if d.count >= maxDescriptors || d.bytes+size > maxDescriptorBytes {
		return fmt.Errorf("the source has too many skills for on_change hold: at most %d, with %d MiB", maxDescriptors, maxDescriptorBytes>>20)
	}
	d.count++
	d.bytes += size
	return nil
}

func (d *Descriptors) list(ctx context.Context, kind string) ([]string, error) {
	folder := path.Join(d.folder, kind)
	names, err := d.storage.List(ctx, folder, false)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing descriptors: %w", err)
	}
	var own []string
	for _, name := range names {
		if isDigest(path.Base(name)) && strings.HasPrefix(name, folder+"/") {
			own = append(own, name)
		}
	}
	return own, nil
}

// Drop implements [changes.Store].
func (d *Descriptors) Drop(ctx context.Context, id string) error {
	if leavesDescriptors.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storageTimeout)
	defer cancel()
	if err := d.storage.Delete(ctx, d.key(heldKey, id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("deleting a descriptor: %w", err)
	}
	return nil
}

// UsedNames implements [changes.Store].
func (d *Descriptors) UsedNames(ctx context.Context) ([]string, error) { return d.list(ctx, usedKey) }

// UsedNamed implements [changes.Store].
func (d *Descriptors) UsedNamed(ctx context.Context, name string) (*changes.Record, error) {
	return d.load(ctx, name)
}

// HeldNames implements [changes.Store].
func (d *Descriptors) HeldNames(ctx context.Context) ([]string, error) { return d.list(ctx, heldKey) }

// HeldName implements [changes.Store].
func (d *Descriptors) HeldName(id string) string { return d.key(heldKey, id) }

// HeldNamed implements [changes.Store].
func (d *Descriptors) HeldNamed(ctx context.Context, name string) (*changes.Record, error) {
	return d.load(ctx, name)
}

// Owners implements [changes.Store].
func (d *Descriptors) Owners(ctx context.Context, name string) ([]string, error) {
	var ids []string
	_, err := d.read(ctx, d.key(ownersKey, name), &ids)
	return ids, err
}

// Own implements [changes.Store].
func (d *Descriptors) Own(ctx context.Context, name string, ids []string) error {
	if leavesDescriptors.Load() {
		return nil
	}
	return d.store(ctx, d.key(ownersKey, name), ids)
}

// Lock implements [changes.Store].
func (d *Descriptors) Lock(ctx context.Context, id string, do func() error) error {
	if leavesDescriptors.Load() {
		return do()
	}
	ctx, cancel := context.WithTimeout(ctx, storageTimeout)
	defer cancel()
	key := d.key("lock", id)
	if err := d.storage.Lock(ctx, key); err != nil {
		return fmt.Errorf("locking a descriptor: %w", err)
	}
	defer func() { _ = release(ctx, d.storage, key) }()
	return do()
}
