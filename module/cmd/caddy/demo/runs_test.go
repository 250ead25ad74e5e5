package demo

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// slow is a skill whose runs take four seconds: one accepted, three running.
var slow = &skill{slug: "slow", duration: 4 * time.Second, work: func(arguments) (any, *runError) { return "done", nil }}

func (rs *runs) mustStart(t *testing.T, s *skill, in invocation) string {
	t.Helper()
	first, err := rs.start(s, "", in, 1)
	if err != nil {
		t.Fatal(err)
	}
	return first.ExecutionID
}

func (rs *runs) statusOf(id string) status {
	r, ok := rs.find(id)
	if !ok {
		return "gone"
	}
	return r.report.Status
}

func TestRunPassesThroughItsStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs := newRuns()
		defer rs.stop()
		begin := time.Now()
		id := rs.mustStart(t, slow, invocation{})
		for _, step := range []struct {
			at   time.Duration
			want status
		}{
			{0, accepted},
			{time.Second - 1, accepted},
			{time.Second + 1, running},
			{4*time.Second - 1, running},
			{4*time.Second + 1, completed},
			{4*time.Second + keepEnded - 1, completed},
			{4*time.Second + keepEnded + 1, "gone"},
		} {
			time.Sleep(time.Until(begin.Add(step.at)))
			synctest.Wait()
			if got := rs.statusOf(id); got != step.want {
				t.Errorf("after %s: %s, want %s", step.at, got, step.want)
			}
		}
	})
}

func TestTimeoutCutsARunShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs := newRuns()
		defer rs.stop()
		early := rs.mustStart(t, slow, invocation{timeout: time.Second / 2})
		late := rs.mustStart(t, slow, invocation{timeout: 3 * time.Second})
		never := rs.mustStart(t, slow, invocation{timeout: 5 * time.Second})
		time.Sleep(6 * time.Second)
		for id, want := range map[string]status{early: timedOut, late: timedOut, never: completed} {
			if got := rs.statusOf(id); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
	})
}

func TestStopFailsWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs := newRuns()
		id := rs.mustStart(t, slow, invocation{})
		rs.stop()
		rs.stop()
		r, _ := rs.find(id)
		if r.report.Status != failed || r.report.Error.Code != "PROVIDER_STOPPED" {
			t.Errorf("%+v", r.report)
		}
		if _, err := rs.start(slow, "", invocation{}, 1); !errors.Is(err, errStopped) {
			t.Errorf("start after stop: %v", err)
		}
	})
}

func TestRunsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs := newRuns()
		defer rs.stop()
		oldest := rs.mustStart(t, slow, invocation{})
		time.Sleep(5 * time.Second)
		for range maxRuns { // the last takes the place of the one that has ended
			rs.mustStart(t, slow, invocation{})
		}
		if got := rs.statusOf(oldest); got != "gone" {
			t.Errorf("the oldest ended run is %s", got)
		}
		if _, err := rs.start(slow, "", invocation{}, 1); !errors.Is(err, errFull) {
			t.Errorf("start when all are running: %v", err)
		}
		time.Sleep(5 * time.Second)
		rs.mustStart(t, slow, invocation{})
	})
}

func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs := newRuns()
		defer rs.stop()
		large := &skill{slug: "large", work: func(arguments) (any, *runError) { return strings.Repeat("x", maxOutput-2), nil }}
		first := rs.mustStart(t, large, invocation{})
		for range maxMemory/maxOutput - 1 {
			rs.mustStart(t, large, invocation{})
		}
		if rs.weight != maxMemory || rs.statusOf(first) != completed {
			t.Fatalf("weight %d, first %s", rs.weight, rs.statusOf(first))
		}
		rs.mustStart(t, large, invocation{})
		if rs.weight > maxMemory || rs.statusOf(first) != "gone" {
			t.Errorf("weight %d, first %s", rs.weight, rs.statusOf(first))
		}
		if _, err := rs.start(large, "", invocation{}, maxMemory+1); !errors.Is(err, errFull) {
			t.Errorf("a request beyond all memory: %v", err)
		}
		if rs.weight != 0 || len(rs.byID) != 0 {
			t.Errorf("weight %d, %d runs", rs.weight, len(rs.byID))
		}
	})
}

func TestBadWorkFailsTheRun(t *testing.T) {
	for name, test := range map[string]struct {
		work work
		code string
	}{
		"panic":     {func(arguments) (any, *runError) { panic("boom") }, "EXECUTION_FAILED"},
		"bad UTF-8": {func(arguments) (any, *runError) { return "\xff", nil }, "EXECUTION_FAILED"},
		"too large": {func(arguments) (any, *runError) { return strings.Repeat("x", maxOutput), nil }, "OUTPUT_TOO_LARGE"},
	} {
		t.Run(name, func(t *testing.T) {
			rs := newRuns()
			got, err := rs.start(&skill{work: test.work}, "", invocation{}, 1)
			if err != nil || got.Status != failed || got.Output != nil || got.Error.Code != test.code {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func TestRenderingStopsAtTheLimit(t *testing.T) {
	var b limitedBuffer
	half := make([]byte, maxOutput/2)
	for range 2 {
		if _, err := b.Write(half); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Write([]byte("x")); !errors.Is(err, errTooLarge) {
		t.Errorf("error %v beyond the limit", err)
	}
}

func TestTokensExpireAndAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTokens()
		token := ts.issue("a", []string{scopeRun})
		time.Sleep(tokenLifetime - 1)
		if g, ok := ts.lookUp(token); !ok || g.client != "a" {
			t.Errorf("before it expires: %+v %t", g, ok)
		}
		time.Sleep(time.Nanosecond)
		if _, ok := ts.lookUp(token); ok || ts.count() != 0 {
			t.Error("the token outlived its lifetime")
		}

		oldest := ts.issue("a", nil)
		second := ts.issue("a", nil)
		for range maxTokens - 1 {
			ts.issue("a", nil)
		}
		_, hasOldest := ts.lookUp(oldest)
		_, hasSecond := ts.lookUp(second)
		if hasOldest || !hasSecond || ts.count() != maxTokens {
			t.Errorf("oldest %t, second %t, %d tokens", hasOldest, hasSecond, ts.count())
		}
	})
}
