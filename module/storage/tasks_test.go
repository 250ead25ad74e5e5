package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/tasks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// shortTask makes a task, ends it and waits for its end, as a blocking call does.
func shortTask(ctx context.Context, s *tasks.Tasks, owner string) (string, error) {
	t := &task.Task{ID: s.NewID(), Owner: owner, Context: s.NewID(), Skill: "convert", Inputs: []byte(`{"amount":12.5,"from":"EUR","to":"USD"}`)}
	t.AddMessage(task.Message{ID: "m", Role: task.User, Parts: []task.Part{{Part: front.Part{Kind: front.PartData, Data: []byte(`{"amount":12.5,"from":"EUR","to":"USD"}`)}}}})
	t.SetStatus(task.Submitted, nil, time.Now())
	if err := s.Add(ctx, t); err != nil {
		return "", err
	}
	for _, change := range []func(t *task.Task){
		func(t *task.Task) { t.Ref = run.Ref{Source: "bank", SkillID: "convert", Version: "1.0.0"} },
		func(t *task.Task) { t.SetStatus(task.Working, nil, time.Now()) },
		func(t *task.Task) {
			t.SetArtifact([]task.Part{{Part: front.Part{Kind: front.PartData, Data: []byte(`{"result":13.75,"rate":1.1}`)}}})
			t.SetStatus(task.Completed, nil, time.Now())
		},
	} {
		if _, err := s.Change(ctx, owner, t.ID, func(t *task.Task) error { change(t); return nil }); err != nil {
			return "", err
		}
	}
	got, err := s.Wait(ctx, owner, t.ID, func(t *task.Task) bool { return t.Status.State.Terminal() })
	if err != nil || got.Artifact == nil {
		return "", fmt.Errorf("%+v, %w", got, err)
	}
	return t.ID, nil
}

// Two instances with one folder: what one has made is read, listed and changed by the other.
func TestTasksOfTwoInstances(t *testing.T) {
	st, dir := records(t)
	one := tasks.New(tasks.Config{Store: st, Flush: 10 * time.Millisecond})
	var ids []string
	for range 100 {
		id, err := shortTask(t.Context(), one, "ada")
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	open := &task.Task{ID: one.NewID(), Owner: "ada", Name: "mine"}
	open.SetStatus(task.InputRequired, nil, time.Now())
	if err := one.Add(t.Context(), open); err != nil {
		t.Fatal(err)
	}
	one.Close(t.Context())
	files, err := filepath.Glob(filepath.Join(dir, recordsKey, "*", "*", "*.batch"))
	if err != nil || len(files) == 0 || len(files) > 50 {
		t.Errorf("%d batches, %v", len(files), err)
	}
	two := tasks.New(tasks.Config{Store: st})
	defer two.Close(context.Background())
	for _, id := range ids {
		got, err := two.Get(t.Context(), "ada", id)
		if err != nil || got.Status.State != task.Completed || string(got.Artifact.Parts[0].Data) != `{"result":13.75,"rate":1.1}` {
			t.Fatalf("%+v, %v", got, err)
		}
		if got, err := two.Get(t.Context(), "bob", id); !errors.Is(err, tasks.ErrNoTask) {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	var listed []string
	q := tasks.Query{Limit: 30, State: task.Completed}
	for {
		page, err := two.List(t.Context(), "ada", q)
		if err != nil || page.Total != len(ids) {
			t.Fatal(page.Total, err)
		}
		for _, got := range page.Tasks {
			listed = append(listed, got.ID)
		}
		if q.Token = page.NextToken; q.Token == "" {
			break
		}
	}
	slices.Reverse(listed)
	if !slices.Equal(listed, ids) {
		t.Errorf("%v, want %v", listed, ids)
	}
	named, err := two.Named(t.Context(), "ada", "mine")
	if err != nil || named.ID != open.ID {
		t.Fatalf("%+v, %v", named, err)
	}
	for _, id := range []string{open.ID, ids[0]} { // of an open and of an ended task
		if _, err := two.Change(t.Context(), "ada", id, func(c *task.Task) error {
			c.Push = []task.PushConfig{{ID: "p", URL: "https://example.com"}}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	two.Close(t.Context())
	three := tasks.New(tasks.Config{Store: st})
	defer three.Close(context.Background())
	for _, id := range []string{open.ID, ids[0]} {
		if got, err := three.Get(t.Context(), "ada", id); err != nil || len(got.Push) != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// A storage that is a file, not a folder: open tasks can't be told, ended ones are.
func TestTasksWithoutStorage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := tasks.New(tasks.Config{Store: NewRecords(&certmagic.FileStorage{Path: file}), Flush: time.Millisecond})
	defer s.Close(context.Background())
	id, err := shortTask(t.Context(), s, "ada")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(t.Context(), "ada", id); err != nil || got.Status.State != task.Completed {
		t.Errorf("%+v, %v", got, err)
	}
	open := &task.Task{ID: s.NewID(), Owner: "ada"}
	open.SetStatus(task.Working, nil, time.Now())
	if err := s.Add(t.Context(), open); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "ada", open.ID); !errors.Is(err, tasks.ErrStorage) {
		t.Errorf("%v", err)
	}
}

func putFinal(t *testing.T, s *Records, owner string, ids ...string) {
	t.Helper()
	var all []*run.Record
	for _, id := range ids {
		all = append(all, &run.Record{Owner: owner, ID: id, Event: 4, At: time.Now(), Data: []byte("{\"a\":\n1}"), Standing: run.Final})
	}
	if err := s.Put(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
}

// A batch that was cut off, or has a damaged line, loses only what is damaged.
func TestDamagedBatch(t *testing.T) {
	s, dir := records(t)
	var ids []string
	for i := range byte(5) {
		ids = append(ids, newID(t, time.Now(), i))
	}
	putFinal(t, s, "ada", ids...)
	files, err := filepath.Glob(filepath.Join(dir, recordsKey, "*", "*", "*"))
	if err != nil || len(files) != 1 || filepath.Base(files[0]) != ids[0]+"_"+ids[4]+".5.batch" {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	lines[1][len(lines[1])-4] = '}'
	lines[4] = lines[4][:len(lines[4])/2+20]
	if err := os.WriteFile(files[0], bytes.Join(lines[:5], nil), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		r, err := s.Get(t.Context(), "ada", id)
		if lost := i == 1 || i == 4; lost != errors.Is(err, run.ErrDamaged) || !lost && (err != nil || string(r.Data) != `{"a":1}` || r.Event != 4) {
			t.Errorf("%d: %+v, %v", i, r, err)
		}
	}
	good, bad := 0, 0
	for r, err := range s.List(t.Context(), "ada", 10, func(string, run.Version) bool { return true }) {
		if err == nil && r.Owner == "ada" {
			good++
		} else if errors.Is(err, run.ErrDamaged) {
			bad++
		}
	}
	if good != 3 || bad != 2 {
		t.Errorf("%d good, %d damaged", good, bad)
	}
}

// The folder does not grow beyond the bounds, and what is over is the oldest.
func TestStoredTasksAreBounded(t *testing.T) {
	st, dir := records(t)
	s := tasks.New(tasks.Config{Store: st, Most: 400, MostPerOwner: 200, Flush: 10 * time.Millisecond})
	var newest string
	for range 5000 {
		id, err := shortTask(t.Context(), s, "ada")
		if err != nil {
			t.Fatal(err)
		}
		newest = id
	}
	var stored []string
	for range 100 { // trimming goes on in the background
		if stored = stored[:0]; len(stored) == 0 {
			for r, err := range st.List(t.Context(), "ada", 10000, func(string, run.Version) bool { return true }) {
				if err == nil {
					stored = append(stored, r.ID)
				}
			}
		}
		if len(stored) < 2000 {
			break
		}
		shortTask(t.Context(), s, "ada")
	}
	s.Close(t.Context())
	if len(stored) > 2000 {
		files, _ := filepath.Glob(filepath.Join(dir, recordsKey, "*", "*", "*"))
		t.Errorf("%d tasks are stored in %d files", len(stored), len(files))
	}
	two := tasks.New(tasks.Config{Store: st, Most: 400, MostPerOwner: 200})
	defer two.Close(context.Background())
	if _, err := two.Get(t.Context(), "ada", newest); err != nil {
		t.Error(err)
	}
	if page, err := two.List(t.Context(), "ada", tasks.Query{}); err != nil || page.Total != 200 {
		t.Errorf("%d, %v", page.Total, err)
	}
}

// processorTime returns what this process has used outside of the garbage collector's idle time, as the runtime estimates it.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	runtime.GC() // the estimates are renewed by it
	samples := []metrics.Sample{{Name: "/cpu/classes/user:cpu-seconds"}, {Name: "/cpu/classes/gc/total:cpu-seconds"}}
	metrics.Read(samples)
	return time.Duration((samples[0].Value.Float64() + samples[1].Value.Float64()) * float64(time.Second))
}

// A page of an owner with 1000 tasks that are not in memory.
func BenchmarkList(b *testing.B) {
	st := NewRecords(&certmagic.FileStorage{Path: b.TempDir()})
	one := tasks.New(tasks.Config{Store: st})
	for range 1000 {
		if _, err := shortTask(b.Context(), one, "ada"); err != nil {
			b.Fatal(err)
		}
	}
	one.Close(context.Background())
	two := tasks.New(tasks.Config{Store: st})
	defer two.Close(context.Background())
	b.ReportAllocs()
	for b.Loop() {
		if page, err := two.List(b.Context(), "ada", tasks.Query{}); err != nil || page.Total != 1000 || len(page.Tasks) != 50 {
			b.Fatal(page.Total, err)
		}
	}
}

// Short tasks with file storage behind, one owner and many. What is measured is to make, change, end and store them. Without a storage, the
// oldest ended tasks of an owner that has more than 1000 leave memory, in a few cases before their goroutine has read them, if it
// was not scheduled meanwhile: these are counted.
func BenchmarkShortTasks(b *testing.B) {
	for name, owners := range map[string]int{"one owner": 1, "100 owners": 100} {
		for _, store := range []string{"memory", "files"} {
			b.Run(name+"/"+store, func(b *testing.B) {
				var c tasks.Config
				if store == "files" {
					c.Store = NewRecords(&certmagic.FileStorage{Path: b.TempDir()})
				}
				s := tasks.New(c)
				var n, unread atomic.Int64
				var wg sync.WaitGroup
				b.ReportAllocs()
				before := processorTime(b)
				b.ResetTimer()
				for range 4 {
					wg.Go(func() {
						for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
							_, err := shortTask(b.Context(), s, fmt.Sprint(int(i)%owners))
							switch {
							case errors.Is(err, tasks.ErrNoTask):
								unread.Add(1)
							case err != nil:
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				s.Close(context.Background())
				b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
				b.ReportMetric(float64(unread.Load())/float64(b.N), "unread/op")
			})
		}
	}
}
