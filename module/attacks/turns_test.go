package attacks_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// costlyChecks is a skill whose arguments take nearly as long to check as any may, if
// they are 35 KB of the letter a.
var costlyChecks = hostile.Skill{ID: "costly", Edit: inputs(hostile.Object{"type": "string", "pattern": "([a-z]+[0-9]*){50,300}$"})}

// S62: however long the checks of the arguments of one provider's skills take, and
// however many there are, another provider's descriptors are read, and the large
// arguments of its skills are checked.
func TestS62ChecksOfAnotherProvider(t *testing.T) {
	large := hostile.Skill{ID: "large", Edit: inputs(hostile.Object{"type": "array", "items": hostile.Object{"type": "integer", "minimum": 0}})}
	published := []hostile.Skill{large}
	unread := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for _, id := range unread {
		published = append(published, hostile.Skill{ID: id})
	}
	evil, honest := hostile.NewProvider(t, costlyChecks), hostile.NewProvider(t, published...)
	p := testbed.StartProcess(t, testbed.Limits{}, testbed.Bridge("timeout 60s",
		"provider "+evil.URL()+" {\n\tnamespace evil\n}", "provider "+honest.URL()+" {\n\tnamespace acme\n}"))
	numbers := each(100_000, func(i int) any { return i }) // some 600 KB
	mustComplete(t, p.Execute("acme.large", hostile.Object{"x": numbers}))

	workers, length := 4, 20_000
	if longtest.Runs(longtest.Long) && !raced { // else a check takes so long that the calls would end by their timeouts
		workers, length = 24, 35_000
	}
	before := p.CPU()
	stop := testbed.Load{Workers: workers, Do: func(int, int) testbed.Answer {
		return p.Execute("evil.costly", hostile.Object{"x": strings.Repeat("a", length)})
	}}.Start(t)
	testbed.Eventually(t, time.Minute, func() bool { return p.CPU()-before > time.Second }, "the checks take the processor")
	const most = 5 * time.Second * costlier
	for _, id := range unread {
		start := time.Now()
		mustComplete(t, p.Execute("acme."+id, nil))
		if took := time.Since(start); took > most {
			t.Errorf("a call of a skill whose descriptor was not read took %s", took)
		}
	}
	for range 2 {
		start := time.Now()
		mustComplete(t, p.Execute("acme.large", hostile.Object{"x": numbers}))
		if took := time.Since(start); took > most {
			t.Errorf("a call with a large argument took %s", took)
		}
	}
	if report := stop(); report.Outcomes["completed"] < workers {
		t.Errorf("of the costly calls: %v", report.Outcomes)
	}
}

// S63: a run whose status is large takes no more than a tenth of a processor, also if its
// agent asks again and again; others are asked about as usual.
func TestS63LargePolls(t *testing.T) {
	var members strings.Builder // which are dearer than anything else of the size
	t.Parallel()
	size, wait := 100_000, 1500*time.Millisecond
	if longtest.Runs(longtest.Long) {
		size, wait = 400_000, 6*time.Second
	}
	for i := range size {
		members.WriteString(`,"` + strconv.Itoa(i) + `":1`)
	}
	provider := hostile.NewProvider(t, hostile.Skill{ID: "large"}, hostile.Skill{ID: "usual"})
	for _, id := range []string{"large", "usual"} {
		provider.On(id, hostile.Invoke, hostile.State("accepted"))
		provider.On(id, hostile.Status, hostile.State("running"))
	}
	provider.On("large", hostile.Status, hostile.Handle(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"running"`+members.String()+`}`) // the bridge may be gone
	}))
	p := testbed.StartProcess(t, testbed.Limits{}, testbed.Bridge("poll_interval 50ms 50ms", "provider "+provider.URL()+" {\n\tnamespace acme\n}"))
	asked := func(id string, wait time.Duration, atLeast int) int {
		start := time.Now()
		a := p.With(testbed.Param("wait_ms", wait.Milliseconds())).Execute("acme."+id, nil)
		for since := time.Duration(0); since < wait+wait/2 || provider.Count(id, hostile.Status) < atLeast && since < 30*time.Second; since = time.Since(start) {
			token := runTokenOf(a)
			if token == "" {
				t.Fatalf("%.600s", a.String())
			}
			a = p.Call("get_run", hostile.Object{"run_token": token, "wait_ms": 0})
		}
		return provider.Count(id, hostile.Status)
	}
	if n := asked("usual", wait/3, 5); n < 5 {
		t.Errorf("%d requests about a usual run", n)
	}
	before := p.CPU()
	if n := asked("large", wait, 1); n < 1 || n > 4 { // 4.3 MB: 2.8 s, and a quarter of it: 0.7 s
		t.Errorf("%d requests about a run with a large status", n)
	}
	t.Logf("%s of the processor", p.CPU()-before)
}
