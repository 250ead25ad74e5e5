package polling

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"
)

// Key is what a [Learner] is about. A new version of a skill may take another
// time.
type Key struct{ Provider, Skill, Version string }

// Config is how a [Book] works. The zero value of each field stands for what is
// usual.
type Config struct {
	// Price is how much later the end of a run may be noticed if that saves one
	// poll: the higher, the fewer polls. Default: [DefaultPrice].
	Price time.Duration
	// Skills bounds how many are kept in mind. Default: 4096, at up to 3 KiB each.
	Skills int
	// Run runs a function that makes the schedules which are due, a tenth of a
	// millisecond each, and returns when there are none left. It is called from
	// Done and Throttled, when something is due and no earlier call is still at
	// it: so at most one is, per book. Whoever has to wait for it hands in
	// something like [sync.WaitGroup.Go]. Default: the go statement.
	Run func(f func())
	// Now returns the time. Default: [time.Now].
	Now func() time.Time
	// Random returns numbers in [0, 1). Default: those of math/rand.
	Random func() float64
}

const defaultSkills = 4096

// A Book is what is known of skills. Of too many, those that were not used for
// the longest time are forgotten, of the provider that has the most of them. It is
// safe for concurrent use.
type Book struct {
	config      Config
	cold        *Schedule
	completions atomic.Uint64

	mu      sync.Mutex
	skills  map[Key]*list.Element // of entries
	shelves map[string]*list.List // by provider; the most recently used first

	work struct {
		sync.Mutex
		due    []*Learner
		under  bool // way
		memory planner
		lent   []float64
	}
}

type entry struct {
	key     Key
	learner *Learner
}

// NewBook returns a book of nothing.
func NewBook(config Config) *Book {
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
	return &Book{
		config: config, cold: &Schedule{price: config.Price.Seconds()},
		skills: make(map[Key]*list.Element), shelves: make(map[string]*list.List),
	}
}

// Learner returns the plan for a skill. It stays of use to whoever holds it, even
// if the book forgets the skill.
func (b *Book) Learner(key Key) *Learner {
	b.mu.Lock()
	l := b.learner(key)
	b.mu.Unlock()
	if l.stored.CompareAndSwap(true, false) {
		b.rebuild(l)
	}
	return l
}

// learner is Learner for those who hold the lock.
func (b *Book) learner(key Key) *Learner {
	if found := b.skills[key]; found != nil {
		b.shelves[key.Provider].MoveToFront(found)
		return found.Value.(*entry).learner
	}
	if len(b.skills) >= b.config.Skills {
		b.forget()
	}
	l := &Learner{book: b}
	l.schedule.Store(b.cold)
	shelf := b.shelves[key.Provider]
	if shelf == nil {
		shelf = list.New()
		b.shelves[key.Provider] = shelf
	}
	b.skills[key] = shelf.PushFront(&entry{key, l})
	return l
}

// forget makes room for one.
func (b *Book) forget() {
	var longest *list.List
	for _, shelf := range b.shelves {
		if longest == nil || shelf.Len() > longest.Len() {
			longest = shelf
		}
	}
	key := longest.Remove(longest.Back()).(*entry).key
	delete(b.skills, key)
	if longest.Len() == 0 {
		delete(b.shelves, key.Provider)
	}
}

// Completions returns how many executions were learned from: whoever stores a
// book can tell by it whether there is anything new.
func (b *Book) Completions() uint64 { return b.completions.Load() }

// rebuild has a new schedule made.
func (b *Book) rebuild(l *Learner) {
	if l.queued.Swap(true) {
		return
	}
	w := &b.work
	w.Lock()
	w.due = append(w.due, l)
	start := !w.under
	w.under = true
	w.Unlock()
	if start {
		b.config.Run(b.catchUp)
	}
}

// catchUp makes the schedules that are due.
func (b *Book) catchUp() {
	w := &b.work
	for {
		w.Lock()
		if len(w.due) == 0 {
			w.due, w.under = nil, false
			w.Unlock()
			return
		}
		l := w.due[0]
		w.due = w.due[1:]
		w.Unlock()
		l.queued.Store(false)
		w.lent = l.plan(&w.memory, w.lent) // nobody else is here
	}
}
