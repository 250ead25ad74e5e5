package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// maxName is the largest size of the file of a name, in bytes. The file has an id.
const maxName = 64

// Name implements [run.Store].
func (s *Records) Name(ctx context.Context, owner, name, id string) error {
	if _, err := dayOf(id); err != nil {
		return err
	}
	if err := s.storage.Store(ctx, nameKey(s.ownerKey(owner), name), []byte(id)); err != nil {
		return fmt.Errorf("storing a name of record %s: %w", id, err)
	}
	return nil
}

// Named implements [run.Store].
func (s *Records) Named(ctx context.Context, owner, name string) (string, error) {
	text, err := s.load(ctx, nameKey(s.ownerKey(owner), name), maxName)
	if errors.Is(err, fs.ErrNotExist) {
		return "", run.ErrNoRecord
	}
	if err != nil {
		return "", fmt.Errorf("reading the record of a name: %w", err)
	}
	if _, err := dayOf(string(text)); err != nil {
		return "", fmt.Errorf("the record of a name has no id: %w", run.ErrDamaged) // err quotes it
	}
	return string(text), nil
}

func nameKey(ownerKey, name string) string {
	return path.Join(ownerKey, namesKey, digest("name", name))
}
