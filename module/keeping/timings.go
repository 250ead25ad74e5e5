package keeping

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
)

// timingsPool keeps the learned execution times over reloads. Its keys are the databases.
var timingsPool = lifetime.NewPool[*Timings]()

// HoldTimings takes the learned execution times of a database from the pool, and releases them when use ends, before the database. nil: there is none.
func HoldTimings(db *store.DB, use *lifetime.Usage) (*Timings, error) {
	learned, release, err := timingsPool.Hold(db, func() (*Timings, error) {
		t := &Timings{Store: polling.NewStore(polling.Config{}), db: db}
		t.savedAt.Store(time.Now().Unix())
		return t, nil
	})
	if err == nil {
		use.OnRelease(release)
	}
	return learned, err
}

// The thing with the execution times.
const (
	timingsKind = "execution_times"
	timingsName = "all"
)

// Timings are the learned execution times of a database, which the handlers that use it share.
type Timings struct {
	*polling.Store
	db *store.DB // nil: they are not stored

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

// Use is called for every request. The first call reads the stored times, because loading a
// configuration must have no effects. Later calls save them, at most once per
// saveInterval. Both happen in the background.
func (t *Timings) Use() {
	if t == nil || t.db == nil {
		return
	}
	if !t.loading.Swap(true) {
		go t.db.Guarded(t.load)
		return
	}
	due := time.Now().Unix()-t.savedAt.Load() >= int64(saveInterval/time.Second)
	if due && t.Completions() != t.saved.Load() && !t.saving.Swap(true) {
		go t.db.Guarded(t.save)
	}
}

// Destruct implements caddy.Destructor. It stores what was learned since the last save.
func (t *Timings) Destruct() error {
	if t.db != nil && t.Completions() != t.saved.Load() && !t.saving.Swap(true) {
		t.save()
	}
	return nil
}

func (t *Timings) load() {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	thing, err := t.db.Things().Get(ctx, timingsKind, timingsName)
	if err != nil {
		t.db.Logger().Warn("the stored execution times can't be read; they are used when new ones are stored", zap.Error(err))
	} else if thing.Version > 0 {
		if err := t.Load(thing.Value); err != nil {
			t.db.Logger().Warn("the stored execution times can't be used; learning starts again", zap.Error(err))
		}
	}
}

func (t *Timings) save() {
	defer t.saving.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	completions := t.Completions()
	t.savedAt.Store(time.Now().Unix())
	if err := t.store(ctx); err != nil {
		t.db.Logger().Warn("the learned execution times can't be stored; they are lost at a restart", zap.Error(err))
		return
	}
	t.saved.Store(completions)
}

// maxTries bounds how often times are stored because other instances have written in between.
const maxTries = 5

// store adds the stored times of other instances, and stores the result.
func (t *Timings) store(ctx context.Context) error {
	things := t.db.Things()
	for range maxTries {
		thing, err := things.Get(ctx, timingsKind, timingsName)
		if err != nil {
			return err
		}
		_ = t.Load(thing.Value) // damaged data is replaced
		thing.Value = t.Save()
		if stored, err := things.Put(ctx, thing, 0); stored || err != nil {
			return err
		}
	}
	return errors.New("other instances write them all the time")
}
