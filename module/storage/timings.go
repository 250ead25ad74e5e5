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

// Timings are the learned execution times. All configurations share them, and each stores them
// in its own storage.
type Timings struct {
	*executionTimes
	storage *certmagic.Storage // nil: they are not stored
}

// executionTimesPool keeps the learned execution times over reloads. Its keys are the prices of
// a poll: handlers with the same price share what they learn.
var executionTimesPool = lifetime.NewPool[*executionTimes]()

// HoldTimings takes the learned execution times from the pool, and releases them when use ends.
func HoldTimings(ctx caddy.Context, price time.Duration, use *lifetime.Usage) (*Timings, error) {
	learned, release, err := executionTimesPool.Hold(price, func() (*executionTimes, error) { return newExecutionTimes(ctx, price), nil })
	if err != nil {
		return nil, err
	}
	use.OnRelease(release)
	t := &Timings{executionTimes: learned}
	if storage := Of(ctx); storage != nil {
		t.storage = &storage
	}
	return t, nil
}

// maxTimings is the size of the largest file with execution times, in bytes.
const maxTimings = 32 << 20

// executionTimes are the learned execution times of one price, and where they are stored.
type executionTimes struct {
	*polling.Store
	storage atomic.Pointer[certmagic.Storage] // of the configuration that has served the newest request; nil: none
	key     string
	logger  *zap.Logger

	loading atomic.Bool   // true from the first request
	saved   atomic.Uint64 // the number of completions at the last save
	savedAt atomic.Int64  // the time of the last save, in Unix seconds
	saving  atomic.Bool
}

const (
	// saveInterval is the shortest time between two saves.
	saveInterval = 5 * time.Minute
	// storageTimeout bounds one access to the storage.
	storageTimeout = 5 * time.Second
)

func newExecutionTimes(ctx caddy.Context, price time.Duration) *executionTimes {
	e := &executionTimes{
		Store: polling.NewStore(polling.Config{Price: price}),
		key:   "skill_bridge/execution_times_" + price.String(), logger: ctx.Logger(),
	}
	e.savedAt.Store(time.Now().Unix())
	return e
}

// Use is called for every request. The first call reads the stored times, because loading a
// configuration must have no effects. Later calls save them, at most once per
// saveInterval. Both happen in the background.
func (t *Timings) Use() {
	if t == nil || t.storage == nil {
		return
	}
	e := t.executionTimes
	if e.storage.Load() != t.storage {
		e.storage.Store(t.storage)
	}
	if !e.loading.Swap(true) {
		go e.load()
		return
	}
	due := time.Now().Unix()-e.savedAt.Load() >= int64(saveInterval/time.Second)
	if due && e.Completions() != e.saved.Load() && !e.saving.Swap(true) {
		go e.save()
	}
}

func (e *executionTimes) load() {
	ctx, cancel := context.WithTimeout(context.Background(), storageTimeout)
	defer cancel()
	data, err := Load(ctx, *e.storage.Load(), e.key, maxTimings)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = e.Load(data)
	}
	if err != nil {
		e.logger.Warn("the stored execution times can't be used; learning starts again", zap.Error(err))
	}
}

func (e *executionTimes) save() {
	defer e.saving.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), storageTimeout)
	defer cancel()
	completions := e.Completions()
	e.savedAt.Store(time.Now().Unix())
	if err := e.store(ctx, *e.storage.Load()); err != nil {
		e.logger.Warn("the learned execution times can't be stored; they are lost at a restart", zap.Error(err))
		return
	}
	e.saved.Store(completions)
}

// store adds the stored times of other instances, and stores the result.
func (e *executionTimes) store(ctx context.Context, storage certmagic.Storage) error {
	if err := storage.Lock(ctx, e.key); err != nil {
		return err
	}
	defer func() { _ = release(ctx, storage, e.key) }()
	if data, err := Load(ctx, storage, e.key, maxTimings); err == nil {
		_ = e.Load(data) // damaged data is replaced
	}
	return storage.Store(ctx, e.key, e.Save())
}

// Destruct implements caddy.Destructor.
func (e *executionTimes) Destruct() error {
	if e.storage.Load() != nil && e.Completions() != e.saved.Load() && !e.saving.Swap(true) {
		e.save()
	}
	return nil
}
