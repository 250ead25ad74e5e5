package lifetime_test

import (
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
)

func TestUsage(t *testing.T) {
	var released, idled int
	u := lifetime.NewUsage(func() { idled++ })
	u.OnRelease(func() { released++ })
	check := func(step string, wantReleased, wantIdled int) {
		t.Helper()
		if released != wantReleased || idled != wantIdled {
			t.Errorf("%s: released %d times, idle connections closed %d times; want %d and %d", step, released, idled, wantReleased, wantIdled)
		}
	}
	u.Acquire()
	u.Done()
	check("a request before Cleanup", 0, 0)
	u.Acquire()
	u.Acquire()
	u.Leave()
	u.Leave()
	check("Cleanup during two requests", 0, 0)
	u.Done()
	check("the first of them ends", 0, 0)
	u.Done()
	check("the last of them ends", 1, 1)
	u.Acquire()
	u.Done()
	check("a request after Cleanup", 1, 2)
}

// R245: a panic of a release ends neither the process nor the other releases, whether a request or an execution is the last user.
func TestR245ReleasePanics(t *testing.T) {
	for about, end := range map[string]func(*lifetime.Usage){
		"a request":    (*lifetime.Usage).Done,
		"an execution": func(u *lifetime.Usage) { lifetime.BeginRun(); u.EndRun() },
	} {
		u, released := lifetime.NewUsage(), make(chan struct{})
		u.OnRelease(func() { close(released) })
		u.OnRelease(func() { panic("a bug") })
		u.Acquire()
		u.Leave()
		end(u)
		select {
		case <-released:
		case <-time.After(10 * time.Second):
			t.Error(about)
		}
	}
}

// What is released may wait for an execution: for the last one, whose end releases it, or for one that begins and ends meanwhile.
func TestReleaseWaitsForRun(t *testing.T) {
	for about, last := range map[string]bool{"the last one": true, "one that begins meanwhile": false} {
		t.Run(about, func(t *testing.T) {
			u := lifetime.NewUsage()
			begun, ended, released := make(chan struct{}), make(chan struct{}), make(chan struct{})
			u.OnRelease(func() {
				close(begun)
				<-ended
				close(released)
			})
			lifetime.BeginRun()
			if last {
				u.Acquire()
				u.Leave()
			} else {
				go u.Leave()
				<-begun
				u.Acquire()
			}
			go func() {
				u.EndRun()
				close(ended)
			}()
			select {
			case <-released:
			case <-time.After(10 * time.Second):
				t.Error("they wait for each other")
			}
		})
	}
}
