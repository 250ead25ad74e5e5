package tasks

import (
	"cmp"
	"context"
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Query selects the tasks that [Tasks.List] returns.
type Query struct {
	Context string     // only tasks of this conversation; empty: of all
	Skill   string     // only tasks of this skill; empty: of all
	State   task.State // only tasks in this state; 0: in all
	Since   time.Time  // only tasks whose status has this time or a later one; zero: all
	Token   string     // the NextToken of the page before; empty: the first page
	Limit   int        // the largest number of tasks of a page; 0: 50
	// Artifacts says that the tasks of the page have their artifacts. Otherwise the artifacts are left out.
	Artifacts bool
	// GiveUp ends a task whose invocation was lost with its instance, for [Tasks.Change]; nil: such a task stays as it is stored.
	GiveUp func(*task.Task) error
}

// maxPage is the approximate size of the largest page, in bytes. A page has at least one task.
const maxPage = 8 << 20

// Page is a part of a list of tasks.
type Page struct {
	Tasks     []*task.Task
	NextToken string // the Token of the next page; empty: this is the last one
	Total     int    // the number of tasks on all pages
}

// summary has the data of a task that a list needs for filtering and sorting.
type summary struct {
	id      string
	version run.Version
	context string
	skill   string
	state   task.State // 0: the record is damaged
	at      time.Time
	size    int64     // the approximate size of the task, in bytes
	output  int64     // the part of the artifact in size
	entry   *entry    // nil: the task is only in the Store
	lostAt  time.Time // see [task.Task.LostAt]
	changed time.Time // if it is only in the Store: the time of its record
}

// summaries keeps the summaries of tasks that are only in the Store, so that a list need not read all records again.
type summaries struct {
	mu    sync.Mutex
	of    map[string]map[string]summary
	count int
}

func summarize(t *task.Task, e *entry) summary {
	return summary{t.ID, t.Version(), t.Context, t.Skill, t.Status.State, t.Status.At, task.Size(t), t.Artifact.Size(), e, t.LostAt(), time.Time{}}
}

// pageOf returns the number of summaries that fit into a page, at most limit.
func pageOf(found []summary, limit int, artifacts bool) int {
	var size int64
	for i := range found {
		if size += found[i].size; !artifacts {
			size -= found[i].output
		}
		if i == limit || i > 0 && size > maxPage {
			return i
		}
	}
	return len(found)
}

// compare orders summaries: the newest status comes first.
func (a summary) compare(b summary) int {
	return cmp.Or(b.at.Compare(a.at), cmp.Compare(b.id, a.id))
}

// List returns tasks of an owner, those with the newest status first. It reads the Store for one caller of an owner at a time. The
// next one reads what is left, also if the first one has gone.
func (s *Tasks) List(ctx context.Context, owner string, q Query) (Page, error) {
	var after summary
	if q.Token != "" {
		var err error
		if after, err = decodeToken(q.Token); err != nil {
			return Page{}, err
		}
	}
	s.writer.use.Do(s.writer.begin)
	if s.config.Store != nil {
		unlock, err := s.lists.lock(ctx, claim{owner: owner})
		if err != nil {
			return Page{}, err
		}
		defer unlock()
	}
	found, err := s.summaries(ctx, owner)
	if err != nil {
		return Page{}, err
	}
	if q.GiveUp != nil {
		s.giveUp(ctx, owner, found, q.GiveUp)
	}
	found = slices.DeleteFunc(found, func(t summary) bool {
		return t.state == 0 || q.Context != "" && t.context != q.Context || q.Skill != "" && t.skill != q.Skill || q.State != 0 && t.state != q.State || t.at.Before(q.Since)
	})
	slices.SortFunc(found, summary.compare)
	page := Page{Total: len(found)}
	if q.Token != "" {
		i, same := slices.BinarySearchFunc(found, after, summary.compare)
		if same {
			i++
		}
		found = found[i:]
	}
	if n := pageOf(found, cmp.Or(q.Limit, 50), q.Artifacts); n < len(found) {
		found = found[:n]
		page.NextToken = found[n-1].token()
	}
	page.Tasks, err = s.tasksOf(ctx, owner, found, q.Artifacts)
	return page, err
}

// giveUp ends the tasks whose invocation was lost. If that fails, the next list tries again.
func (s *Tasks) giveUp(ctx context.Context, owner string, found []summary, end func(*task.Task) error) {
	for i, f := range found {
		if f.lostAt.IsZero() || time.Now().Before(f.lostAt) {
			continue
		}
		if release, ok := s.Claim(owner, f.id, nil); ok { // else this process still invokes it
			t, err := s.Change(ctx, owner, f.id, end)
			release()
			if e, _ := s.memory.find(owner, f.id); err == nil && e != nil {
				found[i] = summarize(t, e)
			}
		}
	}
}

// tasksOf returns the tasks of summaries, with or without artifacts. It leaves out those that were dropped meanwhile.
func (s *Tasks) tasksOf(ctx context.Context, owner string, found []summary, artifacts bool) ([]*task.Task, error) {
	tasks := make([]*task.Task, len(found))
	missing := map[string]int{}
	for i, f := range found {
		if f.entry == nil {
			missing[f.id] = i
			continue
		}
		t, err := s.writer.show(ctx, f.entry)
		if err != nil {
			return nil, err
		}
		if tasks[i] = t; !artifacts && t.Artifact != nil {
			tasks[i] = t.Copy()
			tasks[i].Artifact = nil
		}
	}
	if len(missing) > 0 {
		wanted := func(id string, _ run.Version) bool { _, ok := missing[id]; return ok }
		for r, err := range s.config.Store.List(ctx, owner, s.config.MostPerOwner, wanted) {
			if err != nil {
				if err = s.writer.damaged(ctx, err); err != nil {
					return nil, err
				}
				continue
			}
			if t, err := task.Decode(r); err == nil {
				if !artifacts {
					t.Artifact = nil
				}
				tasks[missing[r.ID]] = t
				delete(missing, r.ID)
			}
			if len(missing) == 0 {
				break
			}
		}
	}
	return slices.DeleteFunc(tasks, func(t *task.Task) bool { return t == nil }), nil
}

// summaries returns the summaries of all tasks of an owner.
func (s *Tasks) summaries(ctx context.Context, owner string) ([]summary, error) {
	var found []summary
	known := map[string]run.Version{} // versions of the tasks in memory
	entries, expired := s.memory.of(owner)
	for _, e := range entries {
		e.mu.Lock()
		t := e.now
		e.mu.Unlock()
		known[e.id] = t.Version()
		if !expired[e] {
			found = append(found, summarize(t, e))
		}
	}
	if s.config.Store == nil {
		return found, nil
	}
	return s.storedSummaries(ctx, owner, found, known)
}

// storedSummaries adds the tasks that are only in the Store. Tasks in memory that another instance has changed are updated.
func (s *Tasks) storedSummaries(ctx context.Context, owner string, found []summary, known map[string]run.Version) ([]summary, error) {
	now := time.Now()
	keep := map[string]summary{}
	s.listed.mu.Lock()
	listed := s.listed.of[owner] // it is not changed any more
	s.listed.mu.Unlock()
	need := func(id string, v run.Version) bool {
		if inMemory, ok := known[id]; ok {
			return v.Compare(inMemory) > 0
		}
		if l, ok := listed[id]; ok && l.version == v {
			if now.Sub(l.changed) <= s.config.TTL+task.ClockSkew {
				keep[id] = l
			}
			return false
		}
		return true
	}
	for r, err := range s.config.Store.List(ctx, owner, s.config.MostPerOwner, need) {
		if err != nil {
			if err = s.writer.damaged(ctx, err); err != nil {
				read := maps.Clone(listed) // the next caller need not read it again
				if read == nil {
					read = keep
				}
				maps.Copy(read, keep)
				s.listed.set(owner, read, s.config.Most)
				return nil, err
			}
			continue
		}
		t, err := task.Decode(r)
		if _, ok := known[r.ID]; ok {
			if e, _ := s.memory.find(owner, r.ID); e != nil && err == nil {
				e.mu.Lock()
				if e.flight == nil { // else this instance may have written the record
					s.writer.adopt(e, t, r.At)
				}
				t = e.now
				e.mu.Unlock()
				i := slices.IndexFunc(found, func(f summary) bool { return f.id == r.ID })
				switch {
				case i >= 0:
					found[i] = summarize(t, e)
				case !s.memory.isExpired(e):
					found = append(found, summarize(t, e))
				}
			}
			continue
		}
		switch {
		case err != nil:
			s.writer.report(err)
			keep[r.ID] = summary{id: r.ID, version: r.Version(), at: r.At, changed: r.At}
		case now.Sub(r.At) <= s.config.TTL+task.ClockSkew:
			of := summarize(t, nil)
			of.changed = r.At
			keep[r.ID] = of
		}
	}
	s.listed.set(owner, keep, s.config.Most)
	return slices.AppendSeq(found, maps.Values(keep)), nil
}

// Waiting returns the tasks of a conversation that wait for input of their owner. If no task of it is in memory and stored is set, it looks in the
// Store, too, and returns at most two.
func (s *Tasks) Waiting(ctx context.Context, owner, conversation string, stored bool) (waiting []*task.Task, err error) {
	entries, expired := s.memory.of(owner)
	known := false
	for _, e := range entries {
		e.mu.Lock()
		t := e.now
		e.mu.Unlock()
		if t.Context != conversation || expired[e] {
			continue
		}
		if known = true; t.Status.State == task.InputRequired {
			waiting = append(waiting, t)
		}
	}
	if known || !stored || s.config.Store == nil {
		return waiting, nil
	}
	page, err := s.List(ctx, owner, Query{Context: conversation, State: task.InputRequired, Limit: 2})
	return page.Tasks, err
}

// set replaces the summaries of an owner. If all owners together have too many, it drops those of the others.
func (l *summaries) set(owner string, of map[string]summary, most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count += len(of) - len(l.of[owner])
	if l.of == nil || l.count > most {
		l.of, l.count = map[string]map[string]summary{}, len(of)
	}
	if len(of) == 0 {
		delete(l.of, owner)
		return
	}
	l.of[owner] = of
}

// All returns up to most tasks in memory, those with the newest status first, for the operator.
func (s *Tasks) All(most int) []*task.Task {
	entries := s.memory.all()
	tasks := make([]*task.Task, 0, len(entries))
	for _, e := range entries {
		e.mu.Lock()
		tasks = append(tasks, e.now)
		e.mu.Unlock()
	}
	slices.SortFunc(tasks, func(a, b *task.Task) int { return cmp.Or(b.Status.At.Compare(a.Status.At), cmp.Compare(b.ID, a.ID)) })
	return tasks[:min(most, len(tasks))]
}

// token returns the page token for the tasks after a task.
func (a summary) token() string {
	return base64.RawURLEncoding.EncodeToString([]byte(a.at.UTC().Format(time.RFC3339Nano) + " " + a.id))
}

func decodeToken(token string) (summary, error) {
	text, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(text) > 100 {
		return summary{}, ErrBadToken
	}
	when, id, _ := strings.Cut(string(text), " ")
	at, err := time.Parse(time.RFC3339Nano, when)
	if _, ok := run.TimeOfID(id); err != nil || !ok {
		return summary{}, ErrBadToken
	}
	return summary{id: id, at: at}, nil
}
