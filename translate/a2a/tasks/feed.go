package tasks

import (
	"sync"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// maxBehind is how many versions a reader of a feed may be behind. Then its feed ends.
const maxBehind = 64

// Feed are the versions of a task that follow one.
type Feed struct {
	// Woken gets a value when there is something to take.
	Woken chan struct{}
	stop  func()

	mu    sync.Mutex
	news  []*ledger.Entry
	ended bool // no more come
}

// Feed returns the versions of a task that follow a version in the ledger. Close has to be called.
func (f *Tasks) Feed(t *task.Task) *Feed {
	d := &Feed{Woken: make(chan struct{}, 1)}
	d.stop = f.Ledger.OnChange(t.Entry, func(e *ledger.Entry) {
		d.mu.Lock()
		defer d.mu.Unlock()
		switch {
		case d.ended:
			return
		case e == nil, len(d.news) >= maxBehind:
			d.ended = true
		default:
			d.news = append(d.news, e)
			d.ended = e.State.Ended()
		}
		select {
		case d.Woken <- struct{}{}:
		default:
		}
	})
	return d
}

// Take returns the versions that have come. more is false if no more will.
func (d *Feed) Take() (news []*ledger.Entry, more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	news, d.news = d.news, nil
	return news, !d.ended
}

// Close ends the feed.
func (d *Feed) Close() { d.stop() }
