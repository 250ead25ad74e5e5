package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

const (
	// canceledKey is the storage key of the runs that are followed no longer. Each has a file that is named by a hash of the owner and the
	// run; its content is the time when it expires.
	canceledKey = "skill_bridge/canceled_runs"

	// maxCanceled bounds the runs.
	maxCanceled = 10_000
	// maxCanceledFile is the size of the largest file, in bytes. It has a time.
	maxCanceledFile = 64
	// countCanceled is the time after which the runs are counted again while there is no place.
	countCanceled = time.Minute
	// trimCanceled is the time after which expired runs are deleted.
	trimCanceled = time.Hour
)

// CanceledRuns are the runs whose clients have canceled them though their providers can't end them. They are kept in Caddy's storage for
// as long as run tokens are valid, so that all instances know them, also after a restart.
type CanceledRuns struct {
	storage  certmagic.Storage
	lifetime time.Duration
	now      func() time.Time
	most     int

	mu      sync.Mutex // is held while expired runs are deleted
	trimmed time.Time
	count   int // at the last trimming, and those added here since then
}

// NewCanceledRuns returns the canceled runs in a storage, whose run tokens are valid for a time.
func NewCanceledRuns(storage certmagic.Storage, lifetime time.Duration) *CanceledRuns {
	return &CanceledRuns{storage: storage, lifetime: lifetime, now: time.Now, most: maxCanceled}
}

// Add stores that an owner has canceled a run. It returns the bound if as many are stored.
func (c *CanceledRuns) Add(ctx context.Context, owner string, ref *run.Ref) (*run.Limit, error) {
	ctx, cancel := context.WithTimeout(ctx, storageTimeout)
	defer cancel()
	room, err := c.reserve(ctx)
	if !room {
		return &run.Limit{Name: "canceled runs", Max: int64(c.most)}, err
	}
	until := c.now().Add(c.lifetime).UTC().Format(time.RFC3339)
	if err := c.storage.Store(ctx, canceledRun(owner, ref), []byte(until)); err != nil {
		return nil, fmt.Errorf("storing a canceled run: %w", err)
	}
	return nil, err
}

// Has reports whether an owner has canceled a run.
func (c *CanceledRuns) Has(ctx context.Context, owner string, ref *run.Ref) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, storageTimeout)
	defer cancel()
	return c.kept(ctx, canceledRun(owner, ref))
}

// kept reports whether there is a canceled run that has not expired.
func (c *CanceledRuns) kept(ctx context.Context, key string) (bool, error) {
	text, err := Load(ctx, c.storage, key, maxCanceledFile)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, run.ErrDamaged) { // damaged content is of no use
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading a canceled run: %w", err)
	}
	until, err := time.Parse(time.RFC3339, string(text))
	return err == nil && c.now().Before(until), nil
}

// reserve counts a run, and deletes those that have expired if it is time to. It reports whether there is place for the run.
func (c *CanceledRuns) reserve(ctx context.Context) (room bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	age := c.now().Sub(c.trimmed)
	if age >= trimCanceled || c.count >= c.most && age >= countCanceled {
		err = c.trim(ctx)
	}
	if c.count >= c.most {
		return false, err
	}
	c.count++
	return true, err
}

// trim deletes the runs that have expired, and counts the others.
func (c *CanceledRuns) trim(ctx context.Context) error {
	names, err := c.storage.List(ctx, canceledKey, false)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("listing the canceled runs: %w", err)
	}
	count := 0
	var failed error
	for _, key := range names {
		if !isDigest(path.Base(key)) || !strings.HasPrefix(key, canceledKey+"/") {
			continue
		}
		info, err := c.storage.Stat(ctx, key)
		kept := err == nil && c.now().Sub(info.Modified) < c.lifetime
		if err == nil && !kept { // it may be of a handler whose tokens are valid for longer
			kept, err = c.kept(ctx, key)
		}
		switch {
		case err != nil: // another instance has deleted it, or the storage fails
		case kept:
			count++
		default:
			failed = cmp.Or(failed, c.storage.Delete(ctx, key))
		}
	}
	c.count, c.trimmed = count, c.now()
	if failed != nil {
		return fmt.Errorf("deleting old canceled runs: %w", failed)
	}
	return nil
}

// canceledRun is the storage key of a canceled run. A provider may use an execution id again, for another run.
func canceledRun(owner string, ref *run.Ref) string {
	accepted := strconv.FormatInt(ref.Accepted.UnixMilli(), 10)
	return path.Join(canceledKey, digest("canceled", digest("owner", owner)+digest("source", ref.Source)+digest("skill", ref.SkillID)+digest("accepted", accepted)+ref.ExecutionID))
}
