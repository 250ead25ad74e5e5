package storage

import (
	"slices"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// What is too much is taken from the owner that has the most, and never from one that has no more than its share.
func TestShare(t *testing.T) {
	type owner struct {
		open  int64   // bytes that can't be deleted
		units []int64 // the sizes of the others
	}
	ones := func(n int) []int64 { return slices.Repeat([]int64{1}, n) }
	for name, c := range map[string]struct {
		owners []owner
		bound  int64
		left   []int64 // bytes
	}{
		"within the bound":                    {[]owner{{0, ones(3)}, {0, ones(2)}}, 5, []int64{3, 2}},
		"the largest first":                   {[]owner{{0, []int64{45}}, {0, slices.Repeat([]int64{10}, 7)}}, 89, []int64{45, 40}},
		"the largest first, the other way":    {[]owner{{0, slices.Repeat([]int64{10}, 7)}, {0, []int64{45}}}, 89, []int64{40, 45}},
		"nothing from one within its share":   {[]owner{{10, nil}, {0, ones(1)}}, 5, []int64{10, 1}},
		"only from one above its share":       {[]owner{{10, ones(2)}, {0, ones(2)}}, 5, []int64{10, 2}},
		"the oldest of the only owner":        {[]owner{{0, []int64{1, 2, 4}}}, 3, []int64{3}},
		"a share that others leave":           {[]owner{{0, ones(1)}, {0, ones(9)}}, 8, []int64{1, 7}},
		"nothing is left of what is too much": {[]owner{{0, []int64{9}}}, 8, []int64{0}},
	} {
		trim := &trimming{}
		for _, o := range c.owners {
			h := &holding{bytes: o.open}
			for _, size := range o.units {
				h.bytes += size
				h.units[run.Final] = append(h.units[run.Final], unit{newest: run.Version{Standing: run.Final}, bytes: size})
			}
			trim.holdings = append(trim.holdings, h)
		}
		trim.share(func(h *holding) int64 { return h.bytes }, c.bound, func(unit, int64) bool { return true })
		var left []int64
		for _, h := range trim.holdings {
			left = append(left, h.bytes)
		}
		if !slices.Equal(left, c.left) {
			t.Errorf("%s: %v are left, want %v", name, left, c.left)
		}
	}
}
