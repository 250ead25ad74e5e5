package skillbridge

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/go-json-experiment/json"
	"go.uber.org/zap"
	zaptest "go.uber.org/zap/zaptest/observer"

	"github.com/skill-bridge/caddy-skill-bridge/module/internal/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
)

// storedBook is a book that is stored in a folder, and what it logs.
func storedBook(folder string) (*book, *zaptest.ObservedLogs) {
	core, logs := zaptest.New(zap.WarnLevel)
	var storage certmagic.Storage = &certmagic.FileStorage{Path: folder}
	b := &book{Book: polling.NewBook(polling.Config{}), key: "skill_bridge/execution_times_20ms", logger: zap.New(core)}
	b.storage.Store(&storage)
	return b, logs
}

var learned = polling.Key{Provider: "https://acme.example", Skill: "acme/forecast", Version: "1.0.0"}

func TestWhatIsLearnedSurvives(t *testing.T) {
	folder := t.TempDir()
	b, logs := storedBook(folder)
	b.load() // nothing is there, which is no fault
	if err := b.Destruct(); err != nil || logs.Len() != 0 {
		t.Fatal(err, logs.All())
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Fatalf("%v, %v: nothing was learned, and it was stored", left, err)
	}
	for range 5 {
		b.Learner(learned).Done(polling.Completion{Execution: 2 * time.Second, Ended: 3 * time.Second, Polls: 2})
	}
	if err := b.Destruct(); err != nil || logs.Len() != 0 {
		t.Fatal(err, logs.All())
	}
	again, logs := storedBook(folder)
	again.load()
	if n := again.Learner(learned).History().Len(); n != 5 || logs.Len() != 0 {
		t.Errorf("%d execution times, want 5 (%v)", n, logs.All())
	}

	file := filepath.Join(folder, "skill_bridge", "execution_times_20ms")
	if err := os.WriteFile(file, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	damaged, logs := storedBook(folder)
	damaged.load()
	if n := damaged.Learner(learned).History().Len(); n != 0 || logs.Len() != 1 {
		t.Errorf("%d execution times of a damaged file, %v", n, logs.All())
	}
}

// TestHandlersLearnTogether: those that poll in the same way share what they learn,
// and give it up with the last of them.
func TestHandlersLearnTogether(t *testing.T) {
	one, two := mustLoad(t, `{}`), mustLoad(t, `{"poll":{"mode":"adaptive"}}`)
	dear, fixed := mustLoad(t, `{"poll":{"price":"1s"}}`), mustLoad(t, `{"poll":{"mode":"fixed"}}`)
	if one.book == nil || one.book != two.book || dear.book == one.book || fixed.book != nil {
		t.Errorf("%p %p %p %p", one.book, two.book, dear.book, fixed.book)
	}
	for _, h := range []*Handler{one, two, dear, fixed} {
		if err := h.Cleanup(); err != nil {
			t.Fatal(err)
		}
	}
	for _, price := range []string{"20ms", "1s"} {
		if n, _ := bookPool.References(price); n != 0 {
			t.Errorf("%d references to what was learned for %s", n, price)
		}
	}
}

// Instances that share a storage do not forget what others have learned.
func TestWhatOthersHaveLearnedStays(t *testing.T) {
	folder := t.TempDir()
	one, _ := storedBook(folder)
	other, _ := storedBook(folder)
	theirs := learned
	theirs.Skill = "acme/other"
	one.Learner(learned).Done(polling.Completion{Execution: 2 * time.Second, Ended: 3 * time.Second, Polls: 2})
	other.Learner(theirs).Done(polling.Completion{Execution: 2 * time.Second, Ended: 3 * time.Second, Polls: 2})
	for _, b := range []*book{one, other} {
		if err := b.Destruct(); err != nil {
			t.Fatal(err)
		}
	}
	again, logs := storedBook(folder)
	again.load()
	if n, m := again.Learner(learned).History().Len(), again.Learner(theirs).History().Len(); n != 1 || m != 1 || logs.Len() != 0 {
		t.Errorf("%d and %d executions are known, %v", n, m, logs.All())
	}
}

// TestHandlersShareBudgets: those that may ask equally often have the budgets of all
// hosts in common, and give them up with the last of them.
func TestHandlersShareBudgets(t *testing.T) {
	const polls = 1234 // of no other test
	config := fmt.Sprintf(`{"limits":{"polls":%d}}`, polls)
	one, two := mustLoad(t, config), mustLoad(t, fmt.Sprintf(`{"poll":{"mode":"fixed"},"limits":{"polls":%d}}`, polls))
	mustLoad(t, fmt.Sprintf(`{"limits":{"polls":%d}}`, polls+1))
	for i, h := range []*Handler{one, two} {
		if n, _ := budgetPool.References(polls); n != 2-i {
			t.Errorf("%d references to the budgets of %d polls, want %d", n, polls, 2-i)
		}
		if err := h.Cleanup(); err != nil {
			t.Fatal(err)
		}
	}
	if n, _ := budgetPool.References(polls); n != 0 {
		t.Errorf("%d references to the budgets of %d polls are left", n, polls)
	}
}

// A host is asked no more often than it may be by all handlers together, and a reload
// does not begin anew.
func TestPollsOfAHost(t *testing.T) {
	hostile.CheckLeaks(t)
	p, q := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow"}), hostile.NewProvider(t, hostile.Skill{ID: "beta/slow"})
	p.On("acme/slow", hostile.Invoke, hostile.Accept(1<<30))
	q.On("beta/slow", hostile.Invoke, hostile.Accept(1<<30))
	bridge := func(path string, sources ...string) string {
		text := "skill_bridge " + path + " {\n\tallow_http\n\tallow_networks 127.0.0.0/8\n\tlimits {\n\t\tpolls 1\n\t}\n"
		for _, line := range sources {
			text += "\t" + line + "\n"
		}
		return text + "}"
	}
	config := func(caller string) string {
		return hostile.Site(
			bridge("/rpc", "caller "+caller, "provider "+p.URL()+" {", "\tnamespace acme", "}"),
			bridge("/two", "caller "+caller, "skill slow "+p.URLOf("acme/slow", hostile.Descriptor), "provider "+q.URL()+" {", "\tnamespace beta", "}"),
		)
	}
	c := hostile.StartCaddy(t, config("first"))
	one := c.With(hostile.Fresh(), hostile.Param("wait_ms", 0)) // a reload may drop idle connections
	two := one.With()
	two.URL = "http://127.0.0.1:" + c.Port("PORT") + "/two"
	submit := func(client *hostile.Client, skill string) (token string) {
		t.Helper()
		a := client.Execute(skill, nil)
		var result struct {
			RunToken string `json:"run_token"`
		}
		if err := json.Unmarshal(a.Result, &result); err != nil || a.Outcome() != "running" || result.RunToken == "" {
			t.Fatal(a)
		}
		return result.RunToken
	}
	start := time.Now()
	runs := []struct {
		client *hostile.Client
		token  string
	}{{one, submit(one, "acme.slow")}, {two, submit(two, "slow")}, {two, submit(two, "beta.slow")}}
	ask := func() {
		t.Helper()
		for range 3 {
			for _, run := range runs {
				if a := run.client.Call("get_run", hostile.Object{"run_token": run.token, "wait_ms": 0}); a.Outcome() != "running" {
					t.Fatal(a)
				}
			}
		}
	}
	ask()
	for _, caller := range []string{"second", "third"} {
		if err := c.Reload(config(caller)); err != nil {
			t.Fatal(err)
		}
		ask()
	}
	for _, host := range []struct {
		provider *hostile.Provider
		skill    string
	}{{p, "acme/slow"}, {q, "beta/slow"}} {
		n, most := host.provider.Count(host.skill, hostile.Status), 1+time.Since(start).Seconds()
		if n == 0 || float64(n) > most {
			t.Errorf("%s: %d polls, want at least one and at most %.1f", host.skill, n, most)
		}
	}
}
