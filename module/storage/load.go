package storage

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/certmagic"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// storageTimeout bounds one access to the storage.
const storageTimeout = 5 * time.Second

// Of returns Caddy's storage. It returns nil if a handler is provisioned without a
// running Caddy: only a running one has an events app.
func Of(ctx caddy.Context) certmagic.Storage {
	if _, err := ctx.AppIfConfigured("events"); err != nil {
		return nil
	}
	return ctx.Storage()
}

// Load reads a file of Caddy's storage that is not larger than a bound, in bytes. Others write there, too: a larger file is not the bridge's, and is
// not read. Errors about files name them, and quote nothing of their content, which may be secret.
func Load(ctx context.Context, storage certmagic.Storage, key string, most int64) ([]byte, error) {
	info, err := storage.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	if info.Size > most {
		return nil, tooLarge(key, info.Size)
	}
	if err := run.MakeRoom(ctx, info.Size); err != nil {
		return nil, err
	}
	text, err := storage.Load(ctx, key)
	if size := int64(len(text)); err == nil && size > most { // it has grown, or the storage does not know sizes
		return nil, tooLarge(key, size)
	}
	return text, err
}

func tooLarge(key string, size int64) error {
	return fmt.Errorf("%s has %d bytes: %w", path.Base(key), size, run.ErrDamaged)
}
