package tasks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/tasks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// store is a run.Store in memory that counts, fails and waits as a test says.
type store struct {
	mu      sync.Mutex
	records map[string]*run.Record // by owner, id and version
	names   map[string]string
	puts    [][]*run.Record
	reads   int
	trims   []run.Bounds
	fails   error
	slow    time.Duration
}

func newStore() *store { return &store{records: map[string]*run.Record{}, names: map[string]string{}} }

func (s *store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = err
}

func (s *store) counts() (puts, reads int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.puts), s.reads
}

func (s *store) Put(_ context.Context, records ...*run.Record) error {
	time.Sleep(s.slow)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails != nil {
		return s.fails
	}
	for _, r := range records {
		key := fmt.Sprint(r.Owner, "/", r.ID, ".", r.Event, ".", r.Standing)
		if old := s.records[key]; old != nil && string(old.Data) != string(r.Data) {
			panic("a record is written twice: " + key)
		}
		kept := *r
		kept.Data = bytes.Clone(r.Data)
		s.records[key] = &kept
	}
	s.puts = append(s.puts, records)
	return nil
}

func (s *store) newest(owner string) map[string]*run.Record {
	found := map[string]*run.Record{}
	for key, r := range s.records {
		if old := found[r.ID]; strings.HasPrefix(key, owner+"/") && (old == nil || old.Version().Compare(r.Version()) < 0) {
			found[r.ID] = r
		}
	}
	return found
}

func (s *store) Get(_ context.Context, owner, id string) (*run.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.fails != nil {
		return nil, s.fails
	}
	if r := s.newest(owner)[id]; r != nil {
		return r, nil
	}
	return nil, run.ErrNoRecord
}

func (s *store) Newer(_ context.Context, owner, id string, than run.Version) (*run.Record, error) {
	time.Sleep(s.slow)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.fails != nil {
		return nil, s.fails
	}
	if r := s.newest(owner)[id]; r != nil && r.Version().Compare(than) > 0 {
		return r, nil
	}
	return nil, nil
}

func (s *store) List(_ context.Context, owner string, most int, need func(string, run.Version) bool) iter.Seq2[*run.Record, error] {
	return func(yield func(*run.Record, error) bool) {
		s.mu.Lock()
		found, fails := s.newest(owner), s.fails
		s.mu.Unlock()
		if fails != nil {
			yield(nil, fails)
			return
		}
		var ids []string
		for id := range found {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		for _, id := range slices.Backward(ids[max(0, len(ids)-most):]) {
			if r := found[id]; need(id, r.Version()) && !yield(r, nil) {
				return
			}
		}
	}
}

func (s *store) Name(_ context.Context, owner, name, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[owner+"/"+name] = id
	return s.fails
}

func (s *store) Named(_ context.Context, owner, name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id, ok := s.names[owner+"/"+name]; ok {
		return id, s.fails
	}
	return "", run.ErrNoRecord
}

func (s *store) Lock(context.Context, string, string) (func(), error) { return func() {}, nil }

func (s *store) Trim(_ context.Context, b run.Bounds, _ func(string) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trims = append(s.trims, b)
	return nil
}

// failures counts the failures of a Store.
type failures struct {
	mu sync.Mutex
	of []error
}

func (*failures) Updated(*task.Update) {}

func (f *failures) StoreFailed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of = append(f.of, err)
}

func ended(t *task.Task) bool { return t.Status.State.Terminal() }

// A task that ends before a client learns of it is written once, together with others.
func TestShortTasksAreStoredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore()
		s := open(t, tasks.Config{Store: st})
		for range 20 {
			made := add(t, s, "ada")
			time.Sleep(time.Millisecond)
			change(t, s, made, to(task.Working))
			change(t, s, made, to(task.Completed))
			if got, err := s.Wait(t.Context(), "ada", made.ID, ended); err != nil || got.Artifact == nil {
				t.Fatal(got, err)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if puts, reads := st.counts(); puts != 1 || reads != 0 || len(st.puts[0]) != 20 {
			t.Errorf("%d puts, %d reads", puts, reads)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(st.trims) != 2 {
			t.Errorf("swept %d times in an hour", len(st.trims))
		}
	})
}

// What is older than its time is deleted soon after the first use, and each hour.
func TestSweeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore()
		s := open(t, tasks.Config{Store: st, TTL: 2 * time.Hour})
		trims := func() []run.Bounds {
			synctest.Wait()
			st.mu.Lock()
			defer st.mu.Unlock()
			return slices.Clone(st.trims)
		}
		time.Sleep(30 * time.Minute)
		if n := len(trims()); n != 0 {
			t.Errorf("swept %d times before the first use", n)
		}
		if _, err := s.Get(t.Context(), "ada", s.NewID()); !errors.Is(err, tasks.ErrNoTask) {
			t.Fatal(err)
		}
		if n := len(trims()); n != 0 {
			t.Errorf("swept %d times with the first use", n)
		}
		time.Sleep(15 * time.Second)
		made := trims()
		if len(made) != 1 {
			t.Fatalf("swept %d times soon after the first use", len(made))
		}
		if age := time.Since(made[0].Before); age < 2*time.Hour || age > 2*time.Hour+11*time.Minute {
			t.Errorf("swept what is older than %s", age)
		}
		time.Sleep(3 * time.Hour)
		if n := len(trims()); n != 4 {
			t.Errorf("swept %d times in three hours", n)
		}
	})
}

// A version that is made while an older one is being written is stored before Close returns.
func TestCloseWaitsForWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore()
		st.slow = 10 * time.Millisecond
		s := open(t, tasks.Config{Store: st})
		made := add(t, s, "ada")
		read := make(chan error)
		go func() {
			_, err := s.Get(t.Context(), "ada", made.ID)
			read <- err
		}()
		synctest.Wait() // it waits for the write
		change(t, s, made, to(task.Completed))
		s.Close(t.Context())
		if r, err := st.Get(t.Context(), "ada", made.ID); err != nil || r.Standing != run.Final {
			t.Errorf("%+v, %v", r, err)
		}
		if err := <-read; err != nil {
			t.Error(err)
		}
	})
}

// An open task is stored before a client learns of it, by one write for all who ask.
func TestOpenTasksAreStoredFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore()
		st.slow = 10 * time.Millisecond
		s := open(t, tasks.Config{Store: st})
		made := add(t, s, "ada")
		release, _ := s.Claim("ada", made.ID, nil)
		defer release()
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() {
				var err error
				switch i % 4 {
				case 0:
					_, err = s.Get(t.Context(), "ada", made.ID)
				case 1:
					_, err = s.List(t.Context(), "ada", tasks.Query{})
				case 2:
					_, err = s.Get(t.Context(), "ada", made.ID)
				case 3:
					ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
					defer cancel()
					if _, err = s.Wait(ctx, "ada", made.ID, ended); errors.Is(err, context.DeadlineExceeded) {
						err = nil
					}
				}
				if puts, _ := st.counts(); err != nil || puts != 1 {
					t.Errorf("%d: %d puts, %v", i, puts, err)
				}
			})
		}
		wg.Wait()
		_, sub, err := s.Subscribe(t.Context(), "ada", made.ID)
		if err != nil {
			t.Fatal(err)
		}
		change(t, s, made, to(task.Working))
		for u := range sub.Updates() {
			puts, _ := st.counts()
			if want := 2; u.Number == 2 && puts < want {
				t.Errorf("event %d was told after %d puts", u.Number, puts)
			}
			if u.Number == 2 {
				change(t, s, made, to(task.Completed))
			}
		}
		if puts, _ := st.counts(); puts != 2 {
			t.Errorf("the end was stored before it was told: %d puts", puts)
		}
	})
}

// While the Store fails, clients see no open task, but those that have ended. All are stored when it works again.
func TestStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore()
		var seen failures
		s := open(t, tasks.Config{Store: st, Observer: &seen})
		made := add(t, s, "ada")
		cause := errors.New("/secret/path: no space left on device")
		st.fail(cause)
		_, err := s.Get(t.Context(), "ada", made.ID)
		if !errors.Is(err, tasks.ErrStorage) || !errors.Is(err, cause) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
		if _, _, err := s.Subscribe(t.Context(), "ada", made.ID); !errors.Is(err, tasks.ErrStorage) {
			t.Errorf("%v", err)
		}
		named := &task.Task{ID: s.NewID(), Name: "n"}
		named.SetStatus(task.Submitted, nil, time.Now())
		if err := s.Add(t.Context(), named); !errors.Is(err, tasks.ErrStorage) {
			t.Errorf("%v", err)
		}
		change(t, s, made, to(task.Completed))
		if got, err := s.Get(t.Context(), "ada", made.ID); err != nil || got.Status.State != task.Completed {
			t.Errorf("%+v, %v", got, err)
		}
		time.Sleep(10 * time.Minute)
		seen.mu.Lock()
		n := len(seen.of)
		seen.mu.Unlock()
		if n < 20 || n > 40 { // it is tried again every 30 seconds
			t.Errorf("%d failures in ten minutes", n)
		}
		st.fail(nil)
		time.Sleep(time.Minute)
		other := open(t, tasks.Config{Store: st})
		if got, err := other.Get(t.Context(), "ada", made.ID); err != nil || got.Status.State != task.Completed || got.Artifact == nil {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// Guessed ids that no instance can have made cost no reading.
func TestGuessedIDsCostNothing(t *testing.T) {
	st := newStore()
	s := open(t, tasks.Config{Store: st})
	for _, id := range []string{"", "x", "../../etc", "018f0000-0000-7000-8000-000000000000", "ffffffff-ffff-7fff-bfff-ffffffffffff", strings.ToUpper(s.NewID())} {
		if _, err := s.Get(t.Context(), "ada", id); !errors.Is(err, tasks.ErrNoTask) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if _, reads := st.counts(); reads != 0 {
		t.Errorf("%d reads", reads)
	}
	if _, err := s.Get(t.Context(), "ada", s.NewID()); !errors.Is(err, tasks.ErrNoTask) {
		t.Error(err)
	}
	if states, _, size := s.Stats(); len(states) != 0 || size != 0 {
		t.Errorf("%v, %d", states, size)
	}
}

// A task lives as long as it changes: its time begins with its last change, not with the first.
func TestOldTaskThatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore()
		one := open(t, tasks.Config{Store: st})
		made := add(t, one, "ada")
		change(t, one, made, to(task.InputRequired))
		for range 7 {
			time.Sleep(20 * time.Hour)
			change(t, one, made, to(task.InputRequired))
			if _, err := one.Get(t.Context(), "ada", made.ID); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := open(t, tasks.Config{Store: st}).Get(t.Context(), "ada", made.ID); err != nil || got.Event != 9 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// A record that is no task does not exist, and is reported.
func TestDamagedTask(t *testing.T) {
	st := newStore()
	var seen failures
	s := open(t, tasks.Config{Store: st, Observer: &seen})
	id := s.NewID()
	for _, data := range []string{`{}`, `[]`, `{"id":"` + id + `","event":1}`} {
		clear(st.records)
		if err := st.Put(t.Context(), &run.Record{Owner: "ada", ID: id, Event: 1, At: time.Now(), Data: []byte(data)}); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Get(t.Context(), "ada", id); !errors.Is(err, tasks.ErrNoTask) {
			t.Errorf("%s: %+v, %v", data, got, err)
		}
		if page, err := s.List(t.Context(), "ada", tasks.Query{}); err != nil || page.Total != 0 {
			t.Errorf("%s: %+v, %v", data, page, err)
		}
	}
	if len(seen.of) == 0 || !errors.Is(seen.of[0], run.ErrDamaged) {
		t.Errorf("%v", seen.of)
	}
}

// A task is the same after it was stored.
func TestStoredTaskIsComplete(t *testing.T) {
	st := newStore()
	one := open(t, tasks.Config{Store: st})
	made := &task.Task{ID: one.NewID(), Owner: "ada", Context: "c", Skill: "s", Inputs: []byte(`{"n":1.0e0}`), Timeout: 1000}
	made.Ref = run.Ref{Source: "src", SkillID: "id", Version: "1", ExecutionID: "x", Accepted: time.Now()}
	parts := []task.Part{
		{Part: front.Part{Kind: front.PartText, Text: "a\nb\xff\u2028"}, Metadata: []byte(`{"a":1}`)},
		{Part: front.Part{Kind: front.PartData, Data: []byte(`null`)}},
		{Part: front.Part{Kind: front.PartData, Data: []byte("{\"n\":123456789012345678901234567890,\n\"e\":\"\\u00e9\"}")}},
		{Part: front.Part{Kind: front.PartURL, Text: "https://example.com", Filename: "f", MediaType: "text/plain"}},
	}
	made.AddMessage(task.Message{ID: "m", Role: task.User, Parts: parts, Metadata: []byte(`{}`), Extensions: []string{"e"}, References: []string{"r"}})
	made.SetStatus(task.Submitted, &task.Message{Role: task.Agent, Parts: parts[:1]}, time.Now())
	if err := one.Add(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Get(t.Context(), "ada", made.ID); err != nil {
		t.Fatal(err)
	}
	want, err := one.Get(t.Context(), "ada", made.ID)
	if err != nil {
		t.Fatal(err)
	}
	got, err := open(t, tasks.Config{Store: st}).Get(t.Context(), "ada", made.ID)
	if err != nil {
		t.Fatal(err)
	}
	p, q := got.History[0].Parts, want.History[0].Parts
	if p[0].Text != "a\nb\ufffd\u2028" || string(p[1].Data) != "null" || string(p[2].Data) != `{"n":123456789012345678901234567890,"e":"\u00e9"}` || p[0].Data != nil {
		t.Errorf("%+v", p)
	}
	if p[3].Part.Filename != "f" || string(p[0].Metadata) != `{"a":1}` || got.History[0].References[0] != "r" || got.Timeout != want.Timeout || string(got.Inputs) != string(want.Inputs) {
		t.Errorf("%+v, want %+v", p, q)
	}
	if !got.Status.At.Equal(want.Status.At) || !got.Ref.Accepted.Equal(want.Ref.Accepted) || got.Ref.ExecutionID != "x" || got.Event != want.Event || !got.Created.Equal(want.Created) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
