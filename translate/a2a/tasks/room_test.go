package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/tasks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

func TestBoundsOfOwners(t *testing.T) {
	s := open(t, tasks.Config{Most: 10, MostPerOwner: 6})
	var adas []*task.Task
	for range 8 {
		made := add(t, s, "ada")
		change(t, s, made, to(task.Completed))
		adas = append(adas, made)
	}
	for i, made := range adas {
		if _, err := s.Get(t.Context(), "ada", made.ID); (err == nil) != (i >= 2) {
			t.Errorf("%d: %v", i, err)
		}
	}
	for i := range 6 { // the owner with the most gives way
		add(t, s, fmt.Sprint("owner ", i))
	}
	if states, _, _ := s.Stats(); states[task.Completed] != 4 || states[task.Submitted] != 6 {
		t.Errorf("%v", states)
	}
	for i := range 4 {
		add(t, s, fmt.Sprint("owner ", 6+i))
	}
	if _, err := begin(t, s, task.Task{Owner: "late"}, task.Submitted); !errors.Is(err, tasks.ErrFull) {
		t.Errorf("%v", err)
	}
	if states, _, _ := s.Stats(); states[task.Completed] != 0 || states[task.Submitted] != 10 {
		t.Errorf("%v", states)
	}
}

// While the Store can't be written, ended tasks are kept until their size exceeds the bound; the oldest go first.
func TestUnwrittenTasksAreBounded(t *testing.T) {
	st := newStore()
	st.fail(errors.New("read-only"))
	s := tasks.New(tasks.Config{Store: st, MostPerOwner: 10, MaxSize: 1 << 20, Flush: time.Millisecond})
	defer s.Close(context.Background())
	var first, last string
	for i := range 3000 {
		made := add(t, s, "ada")
		change(t, s, made, to(task.Completed))
		if i == 0 {
			first = made.ID
		}
		last = made.ID
	}
	states, _, size := s.Stats()
	if n := states[task.Completed]; size > 1<<20 || n < 500 || n > 1000 {
		t.Errorf("%d tasks of %d bytes", n, size)
	}
	if _, err := s.Get(t.Context(), "ada", last); err != nil {
		t.Error(err)
	}
	if _, err := s.Get(t.Context(), "ada", first); err == nil {
		t.Error("the first is still there")
	}
}

// One owner can't take all memory with open tasks, nor can one task.
func TestSizeOfOpenTasks(t *testing.T) {
	s := open(t, tasks.Config{MaxSize: 1 << 20})
	text := func(n int) func(*task.Task) error {
		return func(c *task.Task) error {
			c.AddMessage(task.Message{ID: string(make([]byte, n)), Role: task.User})
			return nil
		}
	}
	made := add(t, s, "ada")
	if _, err := s.Change(t.Context(), "ada", made.ID, text(300<<10)); !errors.Is(err, tasks.ErrFull) {
		t.Errorf("a large task: %v", err)
	}
	n := 0
	for ; n < 100; n++ {
		c := task.Task{Owner: "ada"}
		if err := text(50 << 10)(&c); err != nil {
			t.Fatal(err)
		}
		if _, err := begin(t, s, c, task.InputRequired); err != nil {
			break
		}
	}
	if n < 6 || n > 7 {
		t.Errorf("one owner has %d tasks of 50 KiB", n)
	}
	other := add(t, s, "bob")
	if _, err := s.Change(t.Context(), "bob", other.ID, text(50<<10)); err != nil {
		t.Error(err)
	}
	if _, err := s.Change(t.Context(), "ada", made.ID, to(task.Completed)); err != nil {
		t.Errorf("the end of a task finds no room: %v", err)
	}
}

// Tasks that wait for a message make room for new ones, but stay in the Store.
func TestInterruptedTasksMakeRoom(t *testing.T) {
	st := newStore()
	s := open(t, tasks.Config{Store: st, MostPerOwner: 5, Flush: time.Hour})
	var all []*task.Task
	for i := range 9 {
		made, err := begin(t, s, task.Task{}, task.InputRequired)
		if err != nil {
			t.Fatal(i, err)
		}
		if _, err := s.Get(t.Context(), "", made.ID); err != nil {
			t.Fatal(err)
		}
		all = append(all, made)
	}
	for i, made := range all {
		got, err := s.Change(t.Context(), "", made.ID, func(c *task.Task) error { c.SetStatus(task.AuthRequired, nil, time.Now()); return nil })
		if err != nil || got.Event != 2 {
			t.Fatalf("%d: %+v, %v", i, got, err)
		}
		if _, err := s.Get(t.Context(), "", made.ID); err != nil {
			t.Fatal(err)
		}
	}
	if states, _, _ := s.Stats(); states[task.AuthRequired]+states[task.InputRequired] != 5 {
		t.Errorf("%v", states)
	}
	for range 5 {
		release, _ := s.Claim("", add(t, s, "").ID, nil)
		defer release()
	}
	if _, err := begin(t, s, task.Task{}, task.Submitted); !errors.Is(err, tasks.ErrFull) {
		t.Errorf("%v", err)
	}
}

// waits makes a task of about 50 KB that waits for a message and is stored. It returns nil if there is no room.
func waits(t *testing.T, s *tasks.Tasks, owner string) *task.Task {
	t.Helper()
	made := task.Task{Owner: owner}
	made.AddMessage(task.Message{ID: string(make([]byte, 50<<10)), Role: task.User})
	began, err := begin(t, s, made, task.InputRequired)
	if errors.Is(err, tasks.ErrFull) {
		return nil
	}
	if err == nil {
		_, err = s.Get(t.Context(), owner, began.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	return began
}

// Owners who fill the memory with tasks that wait for a message push out neither outputs nor ended tasks of others.
func TestOutputsFindRoom(t *testing.T) {
	for _, stored := range []bool{true, false} {
		config := tasks.Config{MaxSize: 1 << 20, Flush: time.Hour}
		if stored {
			config.Store = newStore()
		}
		s := open(t, config)
		running := add(t, s, "bob")
		bobs := []*task.Task{running}
		for range 20 {
			made := add(t, s, "bob")
			change(t, s, made, to(task.Completed))
			bobs = append(bobs, made)
		}
		var first *task.Task
		for _, owner := range []string{"ada", "", "eve"} {
			for range 40 {
				if made := waits(t, s, owner); first == nil {
					first = made
				}
			}
		}
		for _, size := range []int{100 << 10, 200 << 10, 300 << 10} { // of outputs
			owner := fmt.Sprint("owner ", size)
			made := add(t, s, owner)
			change(t, s, made, func(c *task.Task) error {
				c.SetArtifact([]task.Part{{Part: front.Part{Kind: front.PartText, Text: string(make([]byte, size))}}})
				c.SetStatus(task.Completed, nil, time.Now())
				return nil
			})
			if got, err := s.Get(t.Context(), owner, made.ID); err != nil || got.Artifact == nil {
				t.Errorf("stored %t: the output of %d bytes: %+v, %v", stored, size, got, err)
			}
		}
		change(t, s, running, to(task.Completed))
		for i, made := range bobs {
			if got, err := s.Get(t.Context(), "bob", made.ID); err != nil || !ended(got) {
				t.Errorf("stored %t: %d: %+v, %v", stored, i, got, err)
			}
		}
		if _, _, size := s.Stats(); size > 1<<20 {
			t.Errorf("stored %t: %d bytes", stored, size)
		}
		if stored {
			if got := change(t, s, first, to(task.Completed)); got.Event != 3 {
				t.Errorf("a task that has given way: %+v", got)
			}
		}
	}
}

// A task that gives way in memory ends its subscriptions, and can be read, subscribed to and changed afterwards.
func TestSubscribersOfTasksThatGiveWay(t *testing.T) {
	s := open(t, tasks.Config{Store: newStore(), MaxSize: 1 << 20, Flush: time.Hour})
	made := waits(t, s, "ada")
	_, sub, err := s.Subscribe(t.Context(), "ada", made.ID)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		waits(t, s, "ada")
	}
	for range sub.Updates() {
		t.Error("an event")
	}
	_, sub, err = s.Subscribe(t.Context(), "ada", made.ID)
	if err != nil {
		t.Fatal(err)
	}
	change(t, s, made, to(task.Completed))
	n := 0
	for range sub.Updates() {
		n++
	}
	if n == 0 {
		t.Error("no event after it was read again")
	}
	if _, subscriptions, _ := s.Stats(); subscriptions != 0 {
		t.Errorf("%d subscriptions", subscriptions)
	}
}

// busy makes a task of a run that goes on, with a message of a size.
func busy(t *testing.T, s *tasks.Tasks, owner string, size int) error {
	t.Helper()
	made := task.Task{Owner: owner}
	made.AddMessage(task.Message{ID: string(make([]byte, size)), Role: task.User})
	_, err := begin(t, s, made, task.Working)
	return err
}

// Owners whose runs take all they can leave room for the next one, also if they come one after the other.
func TestRunsLeaveRoomForOthers(t *testing.T) {
	s := open(t, tasks.Config{MaxSize: 64 << 20, Most: 1000, MostPerOwner: 1000})
	for i := range 6 {
		owner := fmt.Sprint("large ", i)
		n := 0
		for _, size := range []int{900_000, 100_000, 10_000, 1} {
			for busy(t, s, owner, size) == nil {
				n += size
			}
		}
		if i == 0 && (n < 23<<20 || n > 24<<20) {
			t.Errorf("one owner has %d bytes", n)
		}
		if err := busy(t, s, fmt.Sprint("small ", i), 100_000); err != nil {
			t.Errorf("after %d owners: %v", i+1, err)
		}
	}
	s = open(t, tasks.Config{Most: 1000, MostPerOwner: 1000})
	for i := range 6 {
		n := 0
		for busy(t, s, fmt.Sprint("many ", i), 1) == nil {
			n++
		}
		if i == 0 && n != 500 {
			t.Errorf("one owner has %d tasks", n)
		}
		for range 3 {
			if err := busy(t, s, fmt.Sprint("few ", i), 1); err != nil {
				t.Errorf("after %d owners: %v", i+1, err)
			}
		}
	}
}

// An owner in the middle leaves room, too, where smaller ones have taken theirs.
func TestMiddleOwnersLeaveRoom(t *testing.T) {
	s := open(t, tasks.Config{Most: 119, MostPerOwner: 119})
	for i := range 50 {
		if err := busy(t, s, fmt.Sprint("middle ", i%5), 1); err != nil {
			t.Fatal(err)
		}
	}
	for busy(t, s, "large", 1) == nil {
	}
	if err := busy(t, s, "middle 0", 1); !errors.Is(err, tasks.ErrFull) {
		t.Errorf("%v", err)
	}
	if err := busy(t, s, "new", 1); err != nil {
		t.Error(err)
	}
}

// Small changes of a run have room where messages have none, however small.
func TestRunsHaveAReserve(t *testing.T) {
	s := open(t, tasks.Config{MaxSize: 1 << 20})
	running := add(t, s, "ada")
	for _, size := range []int{50_000, 1000, 1} {
		for busy(t, s, "ada", size) == nil {
		}
	}
	change(t, s, running, func(c *task.Task) error {
		c.SetStatus(task.Working, &task.Message{ID: string(make([]byte, 2000)), Role: task.Agent}, time.Now())
		return nil
	})
	if _, err := s.Change(t.Context(), "ada", running.ID, func(c *task.Task) error {
		c.AddMessage(task.Message{ID: "m", Role: task.User})
		return nil
	}); !errors.Is(err, tasks.ErrFull) {
		t.Errorf("a message: %v", err)
	}
}

// The owner with the largest share makes room first, whatever its name is: for ended tasks, and for open ones.
func TestLargestOwnerMakesRoom(t *testing.T) {
	for _, large := range []string{"ada", "eve"} {
		small := map[string]string{"ada": "eve", "eve": "ada"}[large]
		s := open(t, tasks.Config{Most: 20, MostPerOwner: 20})
		kept := map[string][]*task.Task{}
		for owner, n := range map[string]int{large: 15, small: 5} {
			for range n {
				made := add(t, s, owner)
				change(t, s, made, to(task.Completed))
				kept[owner] = append(kept[owner], made)
			}
		}
		for i := range 5 {
			add(t, s, fmt.Sprint("other ", i))
		}
		for _, made := range kept[small] {
			if _, err := s.Get(t.Context(), small, made.ID); err != nil {
				t.Errorf("%s has lost an ended task: %v", small, err)
			}
		}

		s = open(t, tasks.Config{MaxSize: 1 << 20, Store: newStore(), Flush: time.Hour})
		_, sub, err := s.Subscribe(t.Context(), small, waits(t, s, small).ID)
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		for range 7 {
			waits(t, s, large)
		}
		for range 3 {
			waits(t, s, small)
		}
		for i := range 3 {
			waits(t, s, fmt.Sprint("other ", i))
		}
		if _, subscriptions, _ := s.Stats(); subscriptions != 1 {
			t.Errorf("a task of %s gave way", small)
		}
	}
}
