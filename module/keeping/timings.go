package keeping

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
)

// Timings are the learned execution times. All configurations share them, and each stores them
// in its own database.
type Timings struct {
	*executionTimes
	db *store.DB // nil: they are not stored
}

// executionTimesPool keeps the learned execution times over reloads. All handlers share them.
var executionTimesPool = lifetime.NewPool[*executionTimes]()

// HoldTimings takes the learned execution times from the pool, and releases them when use ends, before the database; nil: there is none.
func HoldTimings(ctx caddy.Context, db *store.DB, use *lifetime.Usage) (*Timings, error) {
	learned, release, err := executionTimesPool.Hold(timingsName, func() (*executionTimes, error) { return newExecutionTimes(ctx), nil })
	if err != nil {
		return nil, err
	}
	t := &Timings{learned, db}
	use.OnRelease(func() {
		if executionTimesPool.References(timingsName) == 1 {
			t.end()
		}
		release()
	})
	return t, nil
}

// The thing with the execution times.
const (
	timingsKind = "execution_times"
	timingsName = "all"
)

// executionTimes are the learned execution times.
type executionTimes struct {
	*polling.Store
	logger *zap.Logger

	loading atomic.Bool   // true from the first request
	saved   atomic.Uint64 // the number of completions at the last save
	savedAt atomic.Int64  // the time of the last save, in Unix seconds
	saving  atomic.Bool
}

const (
	// saveInterval is the shortest time between two saves.
	saveInterval = 5 * time.Minute
	// storeTimeout bounds one use of the database.
	storeTimeout = 5 * time.Second
)

func newExecutionTimes(ctx caddy.Context) *executionTimes {
	e := &executionTimes{Store: polling.NewStore(polling.Config{}), logger: ctx.Logger()}
	e.savedAt.Store(time.Now().Unix())
	return e
}

// Use is called for every request. The first call reads the stored times, because loading a
// configuration must have no effects. Later calls save them, at most once per
// saveInterval. Both happen in the background.
func (t *Timings) Use() {
	if t == nil || t.db == nil {
		return
	}
	e := t.executionTimes
	if !e.loading.Swap(true) {
		go e.load(t.db.Things())
		return
	}
	due := time.Now().Unix()-e.savedAt.Load() >= int64(saveInterval/time.Second)
	if due && e.Completions() != e.saved.Load() && !e.saving.Swap(true) {
		go e.save(t.db.Things())
	}
}

// end stores what was learned since the last save.
func (t *Timings) end() {
	if e := t.executionTimes; t.db != nil && e.Completions() != e.saved.Load() && !e.saving.Swap(true) {
		e.save(t.db.Things())
	}
}

func (e *executionTimes) load(things store.Things) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	thing, err := things.Get(ctx, timingsKind, timingsName)
	if err != nil {
		e.logger.Warn("the stored execution times can't be read; they are used when new ones are stored", zap.Error(err))
	} else if thing.Version > 0 {
		if err := e.Load(thing.Value); err != nil {
			e.logger.Warn("the stored execution times can't be used; learning starts again", zap.Error(err))
		}
	}
}

func (e *executionTimes) save(things store.Things) {
	defer e.saving.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	completions := e.Completions()
	e.savedAt.Store(time.Now().Unix())
	if err := e.store(ctx, things); err != nil {
		e.logger.Warn("the learned execution times can't be stored; they are lost at a restart", zap.Error(err))
		return
	}
	e.saved.Store(completions)
}

// maxTries bounds how often times are stored because other instances have written in between.
const maxTries = 5

// store adds the stored times of other instances, and stores the result.
func (e *executionTimes) store(ctx context.Context, things store.Things) error {
	for range maxTries {
		thing, err := things.Get(ctx, timingsKind, timingsName)
		if err != nil {
			return err
		}
		_ = e.Load(thing.Value) // damaged data is replaced
		thing.Value = e.Save()
		if stored, err := things.Put(ctx, thing, 0); stored || err != nil {
			return err
		}
	}
	return errors.New("other instances write them all the time")
}
