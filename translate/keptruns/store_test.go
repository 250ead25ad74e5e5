package keptruns_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// store is a [run.Store] in memory. Instances of the bridge share its disk, and fail as a test says.
type store struct {
	*disk
	mu    sync.Mutex
	fails func(what string) error // nil: nothing does
}

type disk struct {
	mu      sync.Mutex
	records map[string][]*run.Record // by owner and id
	names   map[string]string
	locks   map[string]chan struct{}
}

func newStore() *store {
	return &store{disk: &disk{records: map[string][]*run.Record{}, names: map[string]string{}, locks: map[string]chan struct{}{}}}
}

// crashed returns the store as the next process finds it: with what is stored, and without locks.
func (s *store) crashed() *store {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	next := newStore()
	next.records, next.names = maps.Clone(s.records), maps.Clone(s.names)
	return next
}

// fail lets operations fail: put, name, named, get, lock.
func (s *store) fail(fails func(what string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = fails
}

func (s *store) failure(what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails == nil {
		return nil
	}
	return s.fails(what)
}

var errDisk = errors.New("the disk is gone")

func (s *store) Put(_ context.Context, records ...*run.Record) error {
	if err := s.failure("put"); err != nil {
		return err
	}
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	for _, r := range records {
		own := *r
		own.Data = bytes.Clone(r.Data)
		key := r.Owner + "/" + r.ID
		s.records[key] = append(slices.Clone(s.records[key]), &own)
	}
	return nil
}

func (s *store) Get(ctx context.Context, owner, id string) (*run.Record, error) {
	if err := s.failure("get"); err != nil {
		return nil, err
	}
	r, err := s.Newer(ctx, owner, id, run.Version{})
	if r == nil && err == nil {
		err = run.ErrNoRecord
	}
	if err == nil {
		err = run.MakeRoom(ctx, int64(len(r.Data)))
	}
	return r, err
}

func (s *store) Newer(_ context.Context, owner, id string, than run.Version) (newest *run.Record, err error) {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	for _, r := range s.records[owner+"/"+id] {
		if r.Version().Compare(than) > 0 && (newest == nil || r.Version().Compare(newest.Version()) > 0) {
			own := *r
			newest = &own
		}
	}
	return newest, nil
}

func (s *store) List(ctx context.Context, owner string, most int, need func(string, run.Version) bool) iter.Seq2[*run.Record, error] {
	return func(yield func(*run.Record, error) bool) {
		if err := s.failure("list"); err != nil {
			yield(nil, err)
			return
		}
		var ids []string
		s.disk.mu.Lock()
		for key := range s.records {
			if id, ok := strings.CutPrefix(key, owner+"/"); ok {
				ids = append(ids, id)
			}
		}
		s.disk.mu.Unlock()
		slices.Sort(ids)
		for _, id := range slices.Backward(ids[max(0, len(ids)-most):]) {
			r, err := s.Newer(ctx, owner, id, run.Version{})
			if r != nil && need(id, r.Version()) && !yield(r, err) {
				return
			}
		}
	}
}

func (s *store) Name(_ context.Context, owner, name, id string) error {
	if err := s.failure("name"); err != nil {
		return err
	}
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	s.names[owner+"/"+name] = id
	return nil
}

func (s *store) Named(_ context.Context, owner, name string) (string, error) {
	if err := s.failure("named"); err != nil {
		return "", err
	}
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	if id, ok := s.names[owner+"/"+name]; ok {
		return id, nil
	}
	return "", run.ErrNoRecord
}

func (s *store) Lock(ctx context.Context, owner, id string) (func(), error) {
	if err := s.failure("lock"); err != nil {
		return nil, err
	}
	s.disk.mu.Lock()
	l := s.locks[owner+"/"+id]
	if l == nil {
		l = make(chan struct{}, 1)
		s.locks[owner+"/"+id] = l
	}
	s.disk.mu.Unlock()
	select {
	case l <- struct{}{}:
		return sync.OnceFunc(func() { <-l }), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *store) Trim(_ context.Context, b run.Bounds, _ func(string) bool) error {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	for key, records := range s.records {
		if records[len(records)-1].At.Before(b.Before) {
			delete(s.records, key)
		}
	}
	return nil
}

// running yields the newest records of runs that go on, without their owners.
func (s *store) running(ctx context.Context) iter.Seq2[*run.Record, error] {
	return func(yield func(*run.Record, error) bool) {
		s.disk.mu.Lock()
		keys := slices.Sorted(maps.Keys(s.records))
		s.disk.mu.Unlock()
		for _, key := range keys {
			at := strings.LastIndexByte(key, '/')
			r, _ := s.Newer(ctx, key[:at], key[at+1:], run.Version{})
			if r == nil || r.Standing != run.Running {
				continue
			}
			if r.Owner = ""; !yield(r, nil) {
				return
			}
		}
	}
}
