package storage

import (
	"context"
	"errors"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
)

// Timings are what was learned of execution times. Configurations share them, and store
// them in their own storage.
type Timings struct {
	*book
	storage *certmagic.Storage // nil: none
}

// bookPool keeps over reloads what was learned of execution times. Its keys are the
// prices of a poll: those who have it in common learn together.
var bookPool = lifetime.NewPool[*book]()

// HoldTimings takes what was learned from the pool, for as long as it is used.
func HoldTimings(ctx caddy.Context, price time.Duration, use *lifetime.Usage) (*Timings, error) {
	learned, release, err := bookPool.Hold(price, func() (*book, error) { return newBook(ctx, price), nil })
	if err != nil {
		return nil, err
	}
	use.OnRelease(release)
	t := &Timings{book: learned}
	if storage := storageOf(ctx); storage != nil {
		t.storage = &storage
	}
	return t, nil
}

// book is what was learned, and where it is stored.
type book struct {
	*polling.Store
	storage atomic.Pointer[certmagic.Storage] // of the configuration that served last; nil: none
	key     string
	logger  *zap.Logger

	loading atomic.Bool   // or done
	saved   atomic.Uint64 // completions, when it was stored last
	savedAt atomic.Int64  // when that was, in Unix seconds
	saving  atomic.Bool
}

const (
	// saveInterval is how often what was learned is stored at most.
	saveInterval = 5 * time.Minute
	// storageTimeout bounds one access to the storage.
	storageTimeout = 5 * time.Second
)

func newBook(ctx caddy.Context, price time.Duration) *book {
	b := &book{
		Store: polling.NewStore(polling.Config{Price: price}),
		key:   "skill_bridge/execution_times_" + price.String(), logger: ctx.Logger(),
	}
	b.savedAt.Store(time.Now().Unix())
	return b
}

// Use is called with every request. The first reads what was stored, since loading a
// configuration is to have no effects; later ones store it every five minutes. Both
// happen in the background.
func (t *Timings) Use() {
	if t == nil || t.storage == nil {
		return
	}
	b := t.book
	if b.storage.Load() != t.storage {
		b.storage.Store(t.storage)
	}
	if !b.loading.Swap(true) {
		go b.load()
		return
	}
	due := time.Now().Unix()-b.savedAt.Load() >= int64(saveInterval/time.Second)
	if due && b.Completions() != b.saved.Load() && !b.saving.Swap(true) {
		go b.save()
	}
}

func (b *book) load() {
	ctx, cancel := context.WithTimeout(context.Background(), storageTimeout)
	defer cancel()
	data, err := (*b.storage.Load()).Load(ctx, b.key)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = b.Load(data)
	}
	if err != nil {
		b.logger.Warn("the stored execution times can't be used; learning starts again", zap.Error(err))
	}
}

func (b *book) save() {
	defer b.saving.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), storageTimeout)
	defer cancel()
	completions := b.Completions()
	b.savedAt.Store(time.Now().Unix())
	if err := b.store(ctx, *b.storage.Load()); err != nil {
		b.logger.Warn("the learned execution times can't be stored; they are lost at a restart", zap.Error(err))
		return
	}
	b.saved.Store(completions)
}

// store adds what other instances have learned, and stores all of it.
func (b *book) store(ctx context.Context, storage certmagic.Storage) error {
	if err := storage.Lock(ctx, b.key); err != nil {
		return err
	}
	defer func() { _ = storage.Unlock(context.WithoutCancel(ctx), b.key) }() // it ends by itself, too
	if data, err := storage.Load(ctx, b.key); err == nil {
		_ = b.Load(data) // what is damaged is replaced
	}
	return storage.Store(ctx, b.key, b.Save())
}

// Destruct implements caddy.Destructor.
func (b *book) Destruct() error {
	if b.storage.Load() != nil && b.Completions() != b.saved.Load() && !b.saving.Swap(true) {
		b.save()
	}
	return nil
}
