package skillbridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// The modes of polling.
const (
	pollAdaptive = "adaptive"
	pollFixed    = "fixed"
	pollBackoff  = "backoff"
)

// plan is the same for all runs, or nil if it is learned.
func (h *Handler) plan() polling.Plan {
	poll := cmp.Or(h.Poll, new(Poll))
	switch {
	case h.PollInterval != 0 || h.MaxPollInterval != 0:
		return polling.Backoff{Initial: orDefault(h.PollInterval, defaultPollInterval), Longest: orDefault(h.MaxPollInterval, defaultMaxPollInterval)}
	case poll.Mode == pollFixed:
		return polling.Fixed{Interval: orDefault(poll.Interval, defaultPollInterval)}
	case poll.Mode == pollBackoff:
		return polling.Backoff{Initial: orDefault(poll.Interval, defaultPollInterval), Longest: orDefault(poll.MaxInterval, defaultMaxPollInterval)}
	}
	return nil
}

// holdPolling takes from the pools what decides when runs are asked about, for as
// long as the handler or a request uses it. The function that it returns gives it up.
func (h *Handler) holdPolling(ctx caddy.Context, p *skillsharing.Polling) (release func(), err error) {
	var releaseBudgets func()
	if p.Budgets, releaseBudgets, err = holdBudgets(h.limits().Polls, h.logger); err != nil {
		return nil, err
	}
	if p.Plan != nil {
		return releaseBudgets, nil
	}
	releaseBook, err := h.holdBook(ctx)
	if err != nil {
		releaseBudgets()
		return nil, err
	}
	p.Book = h.book.Book
	return func() {
		releaseBook()
		releaseBudgets()
	}, nil
}

// holdBudgets takes the budgets of so many polls per second from the pool.
func holdBudgets(polls int, logger *zap.Logger) (held *polling.Budgets, release func(), err error) {
	pooled, _, err := budgetPool.LoadOrNew(polls, func() (caddy.Destructor, error) {
		return &budgets{polling.NewBudgets(float64(polls), polls)}, nil
	})
	if err != nil {
		return nil, nil, err
	}
	return pooled.(*budgets).Budgets, func() {
		if _, err := budgetPool.Delete(polls); err != nil {
			logger.Error("giving up the count of requests for the state of runs", zap.Error(err))
		}
	}, nil
}

// budgetPool keeps over reloads how often hosts were asked about runs. Its keys are how
// often they may be, per second: those who have it in common share each host's budget.
var budgetPool = caddy.NewUsagePool()

// budgets are those of all hosts.
type budgets struct{ *polling.Budgets }

// Destruct implements caddy.Destructor.
func (*budgets) Destruct() error { return nil }

// holdBook takes what was learned from the pool, for as long as the handler or a
// request uses it. The function that it returns gives it up.
func (h *Handler) holdBook(ctx caddy.Context) (release func(), err error) {
	price := polling.DefaultPrice
	if h.Poll != nil {
		price = orDefault(h.Poll.Price, price)
	}
	key := price.String()
	pooled, _, err := bookPool.LoadOrNew(key, func() (caddy.Destructor, error) {
		return newBook(ctx, price), nil
	})
	if err != nil {
		return nil, err
	}
	h.book = pooled.(*book)
	if storage := storageOf(ctx); storage != nil {
		h.storage = &storage
	}
	return func() {
		if _, err := bookPool.Delete(key); err != nil {
			h.logger.Error("giving up what was learned of execution times", zap.Error(err))
		}
	}, nil
}

// bookPool keeps over reloads what was learned of execution times. Its keys are the
// prices of a poll: those who have it in common learn together.
var bookPool = caddy.NewUsagePool()

// book is what was learned, and where it is stored.
type book struct {
	*polling.Book
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
		Book: polling.NewBook(polling.Config{Price: price}),
		key:  "skill_bridge/execution_times_" + price.String(), logger: ctx.Logger(),
	}
	b.savedAt.Store(time.Now().Unix())
	return b
}

// use is called with every request. The first has what was stored read, since
// loading a configuration is to have no effects; later ones have it stored now and
// then. Neither is waited for.
func (b *book) use(storage *certmagic.Storage) {
	if b == nil || storage == nil {
		return
	}
	if b.storage.Load() != storage {
		b.storage.Store(storage)
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
		b.logger.Warn("what was learned of execution times before can't be used; it is learned anew", zap.Error(err))
	}
}

func (b *book) save() {
	defer b.saving.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), storageTimeout)
	defer cancel()
	completions := b.Completions()
	b.savedAt.Store(time.Now().Unix())
	if err := b.store(ctx, *b.storage.Load()); err != nil {
		b.logger.Warn("what was learned of execution times can't be stored; a restart will forget it", zap.Error(err))
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

// check finds the first fault of the option.
func (p *Poll) check() error {
	if p == nil {
		return nil
	}
	for _, d := range []struct {
		name  string
		value caddy.Duration
		modes []string // that it is for
	}{{"price", p.Price, []string{pollAdaptive}}, {"interval", p.Interval, []string{pollFixed, pollBackoff}}, {"max_interval", p.MaxInterval, []string{pollBackoff}}} {
		mode := cmp.Or(p.Mode, pollAdaptive)
		switch {
		case d.value == 0:
		case time.Duration(d.value) < time.Millisecond:
			return fmt.Errorf("%s %s of poll is too short: the least is 1ms", d.name, time.Duration(d.value))
		case !slices.Contains(d.modes, mode):
			return fmt.Errorf("poll %s has no %s", mode, d.name)
		}
	}
	switch p.Mode {
	case "", pollAdaptive, pollFixed:
		return nil
	case pollBackoff:
		if from, to := orDefault(p.Interval, defaultPollInterval), orDefault(p.MaxInterval, defaultMaxPollInterval); from > to {
			return fmt.Errorf("interval %s of poll is longer than its maximum of %s", from, to)
		}
		return nil
	}
	return fmt.Errorf("poll %q is none of %s, %s and %s", p.Mode, pollAdaptive, pollFixed, pollBackoff)
}
