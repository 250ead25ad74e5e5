package skillsharing

import (
	"net/http"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Those who wait are woken for the first news, and not for each answer.
func TestWakesAreFew(t *testing.T) {
	w, other := &watcher{ctx: t.Context()}, &watcher{ctx: t.Context(), woken: make(chan struct{}, 1)}
	f := &follower{skill: new(Skill), phase: PhasePoll, mustAsk: true, waiting: []*watcher{other}}
	f.run = polling.Start(polling.Fixed{Interval: time.Second}, nil, time.Now(), time.Time{})
	for i, want := range []int{1, 0, 0} {
		r, e := &Response{State: run.Working}, (*Error)(nil)
		if i == 1 {
			r, e = nil, &Error{Code: EndpointUnreachable, HTTPStatus: http.StatusBadGateway}
		}
		if !f.goOn(t.Context(), w, r, 0, e) || len(other.woken) != want {
			t.Errorf("after %d answers it was woken %d times, want %d", i+1, len(other.woken), want)
		}
		select {
		case <-other.woken:
		default:
		}
	}
}
