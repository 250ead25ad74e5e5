package polling_test

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
)

// stored is what a history stores of one completion.
func stored(t *testing.T, c polling.Completion) time.Duration {
	t.Helper()
	var h polling.History
	h.Add(c)
	times := timesOf(t, &h)
	if len(times) != 1 {
		t.Fatalf("%d times", len(times))
	}
	return duration(float64(times[0])).Round(ms)
}

// timesOf reads what a history stores.
func timesOf(t *testing.T, h *polling.History) []float32 {
	t.Helper()
	data, err := h.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	n, size := binary.Uvarint(data[2:])
	times := make([]float32, n)
	for i := range times {
		times[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[2+size+4*i:]))
	}
	return times
}

func TestExecutionTimesAreBelievedWithinWhatWasSeen(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		about                     string
		execution, running, ended time.Duration
		want                      time.Duration
	}{
		{"plausible", 1500 * ms, second, 2 * second, 1500 * ms},
		{"seen by the first poll", 100 * ms, 0, 2 * second, 100 * ms},
		{"not said", 0, second, 2 * second, 1500 * ms},
		{"not said, seen by the first poll", 0, 0, 2 * second, second},
		{"negative", -time.Hour, second, 2 * second, 1500 * ms},
		{"the least there is", math.MinInt64, second, 2 * second, 1500 * ms},
		{"longer than our wait", 2001 * ms, second, 2 * second, 1500 * ms},
		{"the most there is", math.MaxInt64, second, 2 * second, 1500 * ms},
		{"shorter than it was seen to go on", ms, second, 2 * second, second},
		{"longer than a day", 90 * time.Hour, 0, 100 * time.Hour, 12 * time.Hour},
		{"our own clock went backwards", second, 2 * second, second, second},
		{"nothing was seen", second, -second, -second, 0},
	} {
		if got := stored(t, polling.Completion{Execution: tc.execution, Running: tc.running, Ended: tc.ended, Polls: 3}); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.about, got, tc.want)
		}
	}
}

func seen(d time.Duration) polling.Completion {
	return polling.Completion{Execution: d, Ended: d, Polls: 2}
}

func TestHistoryKeepsTheNewest(t *testing.T) {
	t.Parallel()
	var h polling.History
	for i := range 300 {
		h.Add(seen(2*second + time.Duration(i*7919%100)*ms))
	}
	times := timesOf(t, &h)
	if len(times) != 128 || h.Len() != 128 {
		t.Fatalf("%d and %d times, want 128", len(times), h.Len())
	}
	for i, got := range times {
		k := 300 - 128 + i
		if want := float32((2*second + time.Duration(k*7919%100)*ms).Seconds()); got != want {
			t.Errorf("time %d: %v, want %v", i, got, want)
		}
	}
}

func TestSchedulesAreDue(t *testing.T) {
	t.Parallel()
	var h polling.History
	r := newRandom(1)
	var due []int
	for i := 1; i <= 300; i++ {
		if h.Add(seen(duration(nine[1].draw(r)))) {
			due = append(due, i)
			polling.NewSchedule(&h, 0)
		}
	}
	if !slices.Equal(due[:8], []int{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("the first ones are due after %v executions, want each", due[:8])
	}
	late := due[len(due)-5:]
	for i := range late[1:] {
		if late[i+1]-late[i] > 16 {
			t.Errorf("the last ones are due after %v executions, want every 16", late)
		}
	}
	if len(due) > 80 {
		t.Errorf("%d were due in 300 executions: %v", len(due), due)
	}
}

// A skill that does not change is very seldom believed to have.
func TestSteadySkillIsNotForgotten(t *testing.T) {
	t.Parallel()
	for i, l := range nine {
		r := newRandom(i)
		forgotten := 0
		var h polling.History
		for k := range 10_000 {
			h.Add(seen(duration(l.draw(r))))
			if k >= 128 && h.Len() < 128 {
				forgotten++
				for h.Len() < 128 {
					h.Add(seen(duration(l.draw(r))))
				}
			}
		}
		if forgotten > 6 {
			t.Errorf("%s: forgotten %d times in 10,000 executions", l.name, forgotten)
		}
	}
}

// A skill that changes for good is forgotten as it was, and one that has an
// accident is not.
func TestChangedSkillIsForgotten(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		about  string
		factor float64
		runs   int
		left   func(n int) bool
	}{
		{"7 times faster", 1. / 7, 6, func(n int) bool { return n <= 8 }},
		{"3 times slower", 3, 6, func(n int) bool { return n <= 8 }},
		{"one fast run", 1. / 7, 1, func(n int) bool { return n == 128 }},
		{"two slow runs", 3, 2, func(n int) bool { return n == 128 }},
	} {
		h := taught(t, 0, nine[1], 200, newRandom(1)).History()
		r := newRandom(2)
		for range tc.runs {
			h.Add(seen(duration(tc.factor * nine[1].draw(r))))
		}
		if !tc.left(h.Len()) {
			t.Errorf("%s: %d execution times are left", tc.about, h.Len())
		}
	}
}

// After a surprise, the schedule is made anew at once, and its first poll is early,
// dear as it may be.
func TestSurprise(t *testing.T) {
	t.Parallel()
	const fastest = 300 * ms
	for _, price := range []time.Duration{20 * ms, second} {
		for _, known := range []int{20, 50, 128} {
			h := taught(t, 0, lognormal(2, 0.2), known, newRandom(1)).History()
			polling.NewSchedule(h, price)
			for n := 1; n <= 3; n++ {
				if !h.Add(polling.Completion{Execution: fastest, Ended: 1500 * ms, Polls: 1}) {
					t.Fatalf("of %d: no schedule is due after %d surprises", known, n)
				}
				times := timesOf(t, h)
				slices.Sort(times)
				latest := max(2*fastest, duration(float64(times[len(times)/10])))
				if first := polling.NewSchedule(h, price).Times()[0]; first > latest+ms {
					t.Errorf("price %v, of %d: after %d surprises, the first poll is after %v, want at most %v", price, known, n, first, latest)
				}
			}
		}
	}
	// What many polls led up to is no surprise, and neither is a run that ended right before the first.
	for about, c := range map[string]polling.Completion{
		"not the first poll": {Execution: fastest, Ended: 1500 * ms, Polls: 2},
		"not well before":    {Execution: fastest, Ended: 500 * ms, Polls: 1},
	} {
		h := taught(t, 0, lognormal(2, 0.2), 128, newRandom(1)).History()
		before := polling.NewSchedule(h, second).Times()[0]
		h.Add(c)
		if after := polling.NewSchedule(h, second).Times()[0]; after < before*9/10 {
			t.Errorf("%s: the first poll is after %v, and was after %v", about, after, before)
		}
	}
}

// A schedule keeps the rules by itself, and ends some time after the longest run.
func TestSchedule(t *testing.T) {
	t.Parallel()
	for i, l := range append(slices.Clone(nine), lognormal(0.01, 0.5).named("10 ms"), normal(300, 0.1).named("5 min"), normal(7200, 0.1).named("2 h")) {
		for _, price := range []time.Duration{time.Microsecond, 20 * ms, second, time.Hour} {
			h := taught(t, 0, l, 128, newRandom(i)).History()
			times := polling.NewSchedule(h, price).Times()
			var before time.Duration
			for _, at := range times {
				gap := at - before
				if gap < 20*ms-time.Microsecond-at/1e6 || gap > max(5*second, before/4)+at/1e6 {
					t.Errorf("%s, price %v: a poll after %v, and the next after %v", l.name, price, before, at)
				}
				before = at
			}
			longest := duration(float64(slices.Max(timesOf(t, h))))
			if last := times[len(times)-1]; price <= 20*ms && (last < longest || last > 6*longest+second) {
				t.Errorf("%s, price %v: it ends after %v, the longest run after %v", l.name, price, last, longest)
			}
			if len(times) > 1000 {
				t.Errorf("%s, price %v: %d polls", l.name, price, len(times))
			}
		}
	}
}

func TestHistoryIsStored(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 5, 127, 128, 129, 200} {
		before := taught(t, 0, nine[4], n, newRandom(n)).History()
		data, err := before.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > 520 {
			t.Errorf("%d times: %d bytes", n, len(data))
		}
		var after polling.History
		after.Add(seen(time.Hour)) // is replaced
		if err := after.UnmarshalBinary(data); err != nil {
			t.Fatalf("%d times: %v", n, err)
		}
		if a, b := timesOf(t, before), timesOf(t, &after); !slices.Equal(a, b) {
			t.Errorf("%d times: %v became %v", n, a, b)
		}
		if a, b := polling.NewSchedule(before, 0).Times(), polling.NewSchedule(&after, 0).Times(); before.Len() > 0 && !slices.Equal(a, b) {
			t.Errorf("%d times: another schedule", n)
		}
		for i := range 200 {
			after.Add(seen(time.Duration(i) * ms)) // it goes on as ever
		}
	}
}

func TestDamagedHistoryIsRefused(t *testing.T) {
	t.Parallel()
	h := taught(t, 0, nine[4], 10, newRandom(1)).History()
	good, _ := h.MarshalBinary()
	want := timesOf(t, h)
	refused := func(about string, data []byte) {
		t.Helper()
		if h.UnmarshalBinary(data) == nil {
			t.Errorf("%s is accepted", about)
		}
		if got := timesOf(t, h); !slices.Equal(got, want) {
			t.Errorf("%s: %v became %v", about, want, got)
		}
	}
	for i := range good {
		bad := slices.Clone(good)
		bad[i] ^= 0x10
		refused("a changed byte", bad)
		refused("less", good[:i])
	}
	refused("more", append(slices.Clone(good), 0))
	float := func(f float64) []byte {
		return binary.LittleEndian.AppendUint32([]byte("h1\x01"), math.Float32bits(float32(f)))
	}
	if err := new(polling.History).UnmarshalBinary(sealed(float(1))); err != nil {
		t.Errorf("a good one is refused: %v", err)
	}
	for about, content := range map[string][]byte{
		"NaN":              float(math.NaN()),
		"an infinite time": float(math.Inf(1)),
		"a negative time":  float(-1),
		"a huge time":      float(1e9),
		"another version":  append([]byte("h2\x01"), float(1)[3:]...),
		"another kind":     append([]byte("b1\x01"), float(1)[3:]...),
		"too few times":    []byte("h1\x02\x00\x00\x00\x00"),
		"too many times":   append([]byte("h1\x81\x01"), make([]byte, 4*129)...),
		"a rest":           append(float(1), 0),
		"no content":       []byte("h1"),
	} {
		refused(about, sealed(content))
	}
}

// sealed adds the checksum.
func sealed(content []byte) []byte {
	return binary.LittleEndian.AppendUint32(slices.Clone(content), crc32.Checksum(content, crc32.MakeTable(crc32.Castagnoli)))
}
