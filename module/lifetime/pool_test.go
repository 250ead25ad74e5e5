package lifetime_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
)

type counted struct{ destructed int }

func (c *counted) Destruct() error {
	c.destructed++
	return nil
}

func TestPool(t *testing.T) {
	pool := lifetime.NewPool[*counted]()
	first := new(counted)
	hold := func(value *counted) (*counted, func()) {
		t.Helper()
		held, release, err := pool.Hold("key", func() (*counted, error) { return value, nil })
		if err != nil {
			t.Fatal(err)
		}
		return held, release
	}
	one, releaseOne := hold(first)
	two, releaseTwo := hold(new(counted))
	if one != first || two != first || pool.References("key") != 2 || len(slices.Collect(pool.All())) != 1 {
		t.Fatalf("%p and %p, %d references", one, two, pool.References("key"))
	}
	releaseOne()
	releaseOne()
	if first.destructed != 0 || pool.References("key") != 1 {
		t.Errorf("destructed %d times, %d references after the first release", first.destructed, pool.References("key"))
	}
	releaseTwo()
	if first.destructed != 1 || pool.References("key") != 0 {
		t.Errorf("destructed %d times, %d references after the last release", first.destructed, pool.References("key"))
	}
	failure := errors.New("failed")
	if _, _, err := pool.Hold("key", func() (*counted, error) { return nil, failure }); !errors.Is(err, failure) || pool.References("key") != 0 {
		t.Errorf("%v, %d references to what could not be made", err, pool.References("key"))
	}
}

// Who uses the values one after the other does not keep others from the pool.
func TestAllDoesNotLock(*testing.T) {
	pool := lifetime.NewPool[int]()
	one := func() (int, error) { return 1, nil }
	_, release, _ := pool.Hold("a", one)
	defer release()
	for range pool.All() {
		_, release, _ := pool.Hold("b", one)
		release()
	}
}
