package storage

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/caddyserver/certmagic"
)

// releasePauses are the pauses between the tries to release a lock, 5 seconds in all. Caddy's file storage renews a lock every 5 seconds while its
// file is there, and takes it to be nobody's 10 seconds after the last time: until then, it is certainly not another's.
var releasePauses = []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, 1500 * time.Millisecond, 2 * time.Second}

// release releases a lock, also if the context has ended. If that fails, it tries again in the background: the file storage would renew the lock as
// long as the process lives.
func release(ctx context.Context, storage certmagic.Storage, key string) error {
	ctx = context.WithoutCancel(ctx)
	unlock := func() error {
		ctx, cancel := context.WithTimeout(ctx, storageTimeout)
		defer cancel()
		return storage.Unlock(ctx, key)
	}
	err := unlock()
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	go func() {
		for _, pause := range releasePauses {
			time.Sleep(pause)
			if err := unlock(); err == nil || errors.Is(err, fs.ErrNotExist) {
				return
			}
		}
	}()
	return err
}
