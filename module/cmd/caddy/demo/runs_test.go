package demo

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// slow is the duration of runs: one second accepted, three running.
const slow = 4 * time.Second

var done = &skill{work: func(arguments) (any, *runError) { return "done", nil }}

func (rs *runs) mustStart(t *testing.T, s *skill, takes time.Duration, in invocation) string {
	t.Helper()
	first, ok := rs.start(s, takes, in, 1)
	if !ok {
		t.Fatal("there is no room")
	}
	return first.ExecutionID
}

func (rs *runs) statusOf(id string) status {
	_, r, ok := rs.find(id)
	if !ok {
		return "gone"
	}
	return r.Status
}

func TestRunPassesThroughItsStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs := newRuns()
		defer rs.Destruct()
		begin := time.Now()
		id := rs.mustStart(t, done, slow, invocation{})
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
		defer rs.Destruct()
		early := rs.mustStart(t, done, slow, invocation{timeout: time.Second / 2})
		late := rs.mustStart(t, done, slow, invocation{timeout: 3 * time.Second})
		never := rs.mustStart(t, done, slow, invocation{timeout: 5 * time.Second})
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
		id := rs.mustStart(t, done, slow, invocation{})
		rs.Destruct()
		rs.Destruct()
		_, r, _ := rs.find(id)
		if r.Status != failed || r.Error.Code != "PROVIDER_STOPPED" {
			t.Errorf("%+v", r)
		}
		if _, ok := rs.start(done, slow, invocation{}, 1); ok {
			t.Error("a run has started after the end")
		}
	})
}

func TestRunsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs := newRuns()
		defer rs.Destruct()
		oldest := rs.mustStart(t, done, slow, invocation{})
		time.Sleep(5 * time.Second)
		for range maxRuns { // the last one replaces the ended one
			rs.mustStart(t, done, slow, invocation{})
		}
		if got := rs.statusOf(oldest); got != "gone" {
			t.Errorf("the oldest ended run is %s", got)
		}
		if _, ok := rs.start(done, slow, invocation{}, 1); ok {
			t.Error("a run has started while as many as may be are running")
		}
		time.Sleep(5 * time.Second)
		rs.mustStart(t, done, slow, invocation{})
	})
}

func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs := newRuns()
		defer rs.Destruct()
		large := &skill{work: func(arguments) (any, *runError) { return strings.Repeat("x", maxOutput-2), nil }}
		first := rs.mustStart(t, large, 0, invocation{})
		for range maxMemory/maxOutput - 1 {
			rs.mustStart(t, large, 0, invocation{})
		}
		if rs.weight != maxMemory || rs.statusOf(first) != completed {
			t.Fatalf("weight %d, first %s", rs.weight, rs.statusOf(first))
		}
		rs.mustStart(t, large, 0, invocation{})
		if rs.weight > maxMemory || rs.statusOf(first) != "gone" {
			t.Errorf("weight %d, first %s", rs.weight, rs.statusOf(first))
		}
		if _, ok := rs.start(large, 0, invocation{}, maxMemory+1); ok {
			t.Error("a request beyond all memory was accepted")
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
			got, ok := rs.start(&skill{work: test.work}, 0, invocation{}, 1)
			if !ok || got.Status != failed || got.Output != nil || got.Error.Code != test.code {
				t.Errorf("%+v, %v", got, ok)
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

func TestTokensExpire(t *testing.T) {
	const client = secret("hush")
	now := time.Unix(1_800_000_000, 0)
	token := client.token(now.Add(tokenLifetime))
	for name, test := range map[string]struct {
		token string
		by    secret
		after time.Duration
		want  bool
	}{
		"until its end":     {token, client, tokenLifetime - 1, true},
		"at its end":        {token, client, tokenLifetime, false},
		"of another secret": {token, "other", 0, false},
		"with a later end":  {"9" + token, client, 0, false},
		"without an end":    {"x", client, 0, false},
		"empty":             {"", client, 0, false},
	} {
		if got := test.by.accepts(test.token, now.Add(test.after)); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
