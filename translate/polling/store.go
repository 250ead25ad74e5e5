package polling

import (
	"container/list"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Key identifies a skill. Versions are different skills, since they may differ in execution time.
type Key struct{ Provider, Skill, Version string }

// Config is the configuration of a [Store]. A zero field stands for its default.
type Config struct {
	// Price is how much later the end of a run may be found if that saves one
	// poll: the higher, the fewer polls. Default: [DefaultPrice].
	Price time.Duration
	// Skills bounds the number of skills. Default: 4096, at up to 3 KiB each.
	Skills int
	// Run calls a function that makes all schedules that are due. Each takes about
	// 0.1 ms. Run is not called again before that function has returned. Default: in a new goroutine.
	Run func(f func())
	// Now returns the time. Default: [time.Now].
	Now func() time.Time
	// Random returns numbers in [0, 1). Default: those of math/rand.
	Random func() float64
}

const defaultSkills = 4096

// A Store holds the execution times of skills. If there are too many skills, it deletes the
// least recently used one of the provider that has the most. It is safe for concurrent use.
type Store struct {
	config      Config
	cold        *schedule
	completions atomic.Uint64

	mu        sync.Mutex
	skills    map[Key]*list.Element // values are *entry
	providers map[string]*list.List // of *entry, the most recently used first

	rebuilding struct {
		sync.Mutex
		due     []*Learner
		running bool
	}
	planner planner // used by the function that Config.Run runs
}

type entry struct {
	key     Key
	learner *Learner
}

// NewStore returns an empty store.
func NewStore(config Config) *Store {
	if config.Price <= 0 {
		config.Price = DefaultPrice
	}
	config.Price = min(config.Price, time.Hour)
	if config.Skills <= 0 {
		config.Skills = defaultSkills
	}
	if config.Run == nil {
		config.Run = func(f func()) { go f() }
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	return &Store{
		config: config, cold: &schedule{price: config.Price.Seconds()},
		skills: make(map[Key]*list.Element), providers: make(map[string]*list.List),
	}
}

// Learner returns the plan for a skill. It stays usable after the store has deleted the skill.
func (s *Store) Learner(key Key) *Learner {
	s.mu.Lock()
	l := s.learner(key)
	s.mu.Unlock()
	if l.stored.CompareAndSwap(true, false) {
		s.rebuild(l)
	}
	return l
}

// Times returns the median and the 95th percentile of the execution times that are known of a skill; zero: none is known.
func (s *Store) Times(key Key) (median, p95 time.Duration) {
	s.mu.Lock()
	found := s.skills[key]
	s.mu.Unlock()
	if found == nil {
		return 0, 0
	}
	times := found.Value.(*entry).learner.history.snapshot()
	if len(times) == 0 {
		return 0, 0
	}
	slices.Sort(times)
	at := func(part float64) time.Duration {
		return time.Duration(float64(times[int(part*float64(len(times)-1)+0.5)]) * float64(time.Second))
	}
	return max(at(0.5), 1), max(at(0.95), 1)
}

// learner is Learner with s.mu held.
func (s *Store) learner(key Key) *Learner {
	if found := s.skills[key]; found != nil {
		s.providers[key.Provider].MoveToFront(found)
		return found.Value.(*entry).learner
	}
	if len(s.skills) >= s.config.Skills {
		s.forget()
	}
	l := &Learner{store: s}
	l.schedule.Store(s.cold)
	entries := s.providers[key.Provider]
	if entries == nil {
		entries = list.New()
		s.providers[key.Provider] = entries
	}
	s.skills[key] = entries.PushFront(&entry{key, l})
	return l
}

// forget deletes a skill to make space for another. It is called with s.mu held.
func (s *Store) forget() {
	var most *list.List
	for _, entries := range s.providers {
		if most == nil || entries.Len() > most.Len() {
			most = entries
		}
	}
	key := most.Remove(most.Back()).(*entry).key
	delete(s.skills, key)
	if most.Len() == 0 {
		delete(s.providers, key.Provider)
	}
}

// Completions returns the number of executions that were added. If it has not grown, there
// is nothing new to save.
func (s *Store) Completions() uint64 { return s.completions.Load() }

// rebuild queues a skill for a new schedule.
func (s *Store) rebuild(l *Learner) {
	if l.queued.Swap(true) {
		return
	}
	r := &s.rebuilding
	r.Lock()
	r.due = append(r.due, l)
	start := !r.running
	r.running = true
	r.Unlock()
	if start {
		s.config.Run(s.rebuildAll)
	}
}

// rebuildAll makes the schedules that are due.
func (s *Store) rebuildAll() {
	r := &s.rebuilding
	for {
		r.Lock()
		if len(r.due) == 0 {
			r.due, r.running = nil, false
			r.Unlock()
			return
		}
		l := r.due[0]
		r.due = r.due[1:]
		r.Unlock()
		l.queued.Store(false)
		l.schedule.Store(s.planner.plan(&l.history, s.config.Price<<l.throttle.steps()))
	}
}
