package deliverytest

import (
	"errors"

	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// A run and an owner have no more deliveries than the bounds say, which don't keep one from being replaced.
func (s suite) testBounds() {
	most := delivery.Bounds{OfRun: 2, OfOwner: 3}
	one, two, other := id("ada", 1), id("ada", 2), id("bob", 3)
	for _, run := range []ledger.Identity{one, two, other} {
		s.put(run, 1, ledger.Working)
	}
	for n, add := range []struct {
		run      ledger.Identity
		receiver string
		want     error
	}{
		{one, "b", nil}, {one, "a\x00\xff", nil}, {one, "c", delivery.ErrTooMany}, {one, "b", nil}, {two, "a", nil}, {two, "b", delivery.ErrTooMany}, {other, "a", nil},
	} {
		d := &delivery.Delivery{Run: add.run, Receiver: add.receiver, Front: front, Host: "h.example", Target: []byte{byte(n)}}
		if err := s.Store.Add(s.Context(), d, most); !errors.Is(err, add.want) {
			s.Errorf("%d: %v", n, err)
		}
	}
	got, err := s.Of(s.Context(), one)
	s.ok(err)
	s.same(got, "ada1a\x00\xff", "ada1b")
	claimed := s.take(one)[0]
	if claimed.Next.IsZero() || claimed.Since.IsZero() || !claimed.Claimed {
		s.Errorf("%+v", claimed)
	}
	s.settle(claimed, long)
	if of, err := s.Of(s.Context(), one); err != nil || of[0].Next.IsZero() || of[0].Since.IsZero() || !got[0].Next.IsZero() {
		s.Errorf("%v %+v %+v", err, of[0], got[0])
	}
	if len(got) != 2 || got[0].Receiver != "a\x00\xff" || got[1].Target[0] != 3 || got[1].Run != one || got[1].Front != front {
		s.Errorf("%+v", got)
	}
	if err := s.Store.Add(s.Context(), &delivery.Delivery{Run: id("ada", 9), Receiver: "a", Front: front}, most); err == nil {
		s.Error("a delivery of no run")
	}
}

// What is over has no news, and stays.
func (s suite) testOver() {
	run := id("ada", 1)
	s.put(run, 1, ledger.Working)
	s.add(run, "a", 0)
	d := s.take(run)[0]
	s.put(run, 2, ledger.Completed)
	d.Cursor = delivery.Over
	if s.settle(d, delivery.Idle) {
		s.Error("it has news")
	}
	s.same(s.take(run))
	s.same(s.claim())
	if found, _, err := s.Unheard(s.Context(), delivery.Key{}, 10); err != nil || len(found) != 0 {
		s.Errorf("%v %v", found, err)
	}
	of, err := s.Of(s.Context(), run)
	s.ok(err)
	s.same(of, "ada1a")
	s.add(run, "a", 1)
	s.same(s.take(run), "ada1a")
}
