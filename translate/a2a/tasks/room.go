package tasks

import (
	"container/heap"
	"container/list"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
)

// clockSlack is the largest difference between the clocks of two instances.
const clockSlack = 5 * time.Minute

// room bounds the tasks in memory by number and size. If there are too many, it drops the oldest ended ones of the owner that
// exceeds its own bound, and then those of the owner with the largest share. Open tasks are not dropped, except that a new task
// may replace one that waits for a message and is in the Store. Without this exception, an anonymous caller could send a thousand
// unclear messages, so that no other anonymous caller could make a task.
type room struct {
	most, mostPerOwner int
	maxSize            int64
	storing            bool // there is a Store
	claimed            func(*entry) bool

	owners   map[string]*owner
	byShare  byShare
	states   [task.Rejected + 1]int
	count    int
	open     int
	size     int64
	openSize int64
}

func newRoom(c *Config) room {
	return room{most: c.Most, mostPerOwner: c.MostPerOwner, maxSize: c.MaxSize, storing: c.Store != nil, owners: map[string]*owner{}}
}

// owner holds the tasks of one owner.
type owner struct {
	name           string
	entries        map[string]*entry // by id
	open           int
	size, openSize int64
	names          map[string]string // the ids of tasks, by the name that the owner has given
	// ended are the tasks that may be dropped, the oldest first. The unwritten ones are ended, too, but have to be stored first.
	ended, unwritten list.List
	interrupted      list.List // in the Store, the oldest first
	share            float64
	index            int // in byShare
}

// place is the state of an entry in the room. The lock of the memory protects it.
type place struct {
	state   task.State // 0: the entry is not in the room
	size    int64
	changed time.Time
	foreign bool // changed was set by the clock of another instance
	held    bool // the entry is being changed
	stored  bool
	in      *list.List // ended, unwritten or interrupted of the owner; nil: none
	element *list.Element
	gone    bool // dropped
	dirty   bool // queued for the writer
	since   time.Time
}

// byShare is a heap of owners. The first has the largest share of those with a task that may be dropped.
type byShare []*owner

func (h byShare) Len() int { return len(h) }
func (h byShare) Less(i, j int) bool {
	if a, b := h[i].ended.Len() > 0, h[j].ended.Len() > 0; a != b {
		return a
	}
	return h[i].share > h[j].share
}

func (h byShare) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements [heap.Interface].
func (h *byShare) Push(x any) {
	o := x.(*owner)
	o.index = len(*h)
	*h = append(*h, o)
}

// Pop implements [heap.Interface].
func (h *byShare) Pop() any {
	last := len(*h) - 1
	o := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return o
}

// entry returns the entry of a task, or nil.
func (r *room) entry(owner, id string) *entry {
	if o := r.owners[owner]; o != nil {
		return o.entries[id]
	}
	return nil
}

// insert adds a new entry, if there is a place. It returns the interrupted entries that it has dropped for it.
func (r *room) insert(e *entry, t *task.Task, p place) (dropped []*entry, err error) {
	o := r.owners[e.owner]
	size := task.Size(t)
	if !t.Status.State.Terminal() {
		if size > r.maxTask() {
			return nil, ErrFull
		}
		for {
			from, full := r.full(o, size)
			if !full {
				break
			}
			first := r.firstInterrupted(from)
			if first == nil {
				return dropped, ErrFull
			}
			r.drop(first)
			dropped = append(dropped, first)
			o = r.owners[e.owner]
		}
	}
	if o = r.owners[e.owner]; o == nil {
		o = &owner{name: e.owner, entries: map[string]*entry{}}
		r.owners[e.owner] = o
		heap.Push(&r.byShare, o)
	}
	o.entries[e.id] = e
	r.count++
	e.place = p
	if t.Name != "" {
		if o.names == nil {
			o.names = map[string]string{}
		}
		if o.names[t.Name] < e.id { // a later id is greater
			o.names[t.Name] = e.id
		}
	}
	r.put(e, o, t.Status.State, size)
	r.trim(o)
	return dropped, nil
}

// full reports whether there is no place for an open task of an owner, and whose tasks may be dropped for it; nil: any owner's.
func (r *room) full(o *owner, size int64) (from *owner, full bool) {
	// The open tasks of one owner must not take all the memory.
	if o != nil && (o.open >= r.mostPerOwner || o.openSize+size > r.maxSize/2) {
		return o, true
	}
	return nil, r.open >= r.most || r.openSize+size > r.maxSize
}

// firstInterrupted returns the oldest open task that may be dropped, of an owner; nil: of the owner with the largest share.
func (r *room) firstInterrupted(from *owner) *entry {
	if !r.storing {
		return nil
	}
	if from == nil {
		for _, o := range r.byShare {
			if o.interrupted.Len() > 0 && (from == nil || o.share > from.share) {
				from = o
			}
		}
	}
	if from == nil {
		return nil
	}
	for element := from.interrupted.Front(); element != nil; element = element.Next() {
		if e := element.Value.(*entry); !r.claimed(e) {
			return e
		}
	}
	return nil
}

// maxTask bounds the size of an open task, because each message to it writes a record of this size.
func (r *room) maxTask() int64 { return max(r.maxSize/64, min(4<<20, r.maxSize/4)) }

// grows reports whether there is room for a version that is larger than the one before. The end of a task always has room:
// after it the task may be dropped.
func (r *room) grows(e *entry, t *task.Task, size int64) error {
	more := size - e.place.size
	if t.Status.State.Terminal() || more <= 0 {
		return nil
	}
	most := r.maxSize
	if more <= 4<<10 {
		most += most / 8 // this reserve is for the changes of runs, and not for messages of clients
	}
	if size > r.maxTask() || r.openSize+more > most || r.owners[e.owner].openSize+more > most/2 {
		return ErrFull
	}
	return nil
}

// put changes the state and size of an entry in the room.
func (r *room) put(e *entry, o *owner, state task.State, size int64) {
	p := &e.place
	r.take(e, o)
	p.state, p.size = state, size
	r.states[state]++
	r.size += size
	o.size += size
	switch {
	case !state.Terminal():
		r.open++
		o.open++
		r.openSize += size
		o.openSize += size
		if state.Interrupted() && p.stored && !p.held {
			p.in = &o.interrupted
		}
	case p.held:
	case p.stored:
		p.in = &o.ended
	default:
		p.in = &o.unwritten
	}
	if p.in != nil {
		p.element = p.in.PushBack(e)
	}
	r.rank(o)
}

// take subtracts an entry from the counts of put.
func (r *room) take(e *entry, o *owner) {
	p := &e.place
	if p.in != nil {
		p.in.Remove(p.element)
		p.in, p.element = nil, nil
	}
	if p.state == 0 {
		return
	}
	r.states[p.state]--
	r.size -= p.size
	o.size -= p.size
	if !p.state.Terminal() {
		r.open--
		o.open--
		r.openSize -= p.size
		o.openSize -= p.size
	}
	p.state = 0
}

// drop removes an entry.
func (r *room) drop(e *entry) {
	o := r.owners[e.owner]
	r.take(e, o)
	delete(o.entries, e.id)
	r.count--
	e.place.gone = true
	if e.name != "" && o.names[e.name] == e.id {
		delete(o.names, e.name)
	}
	if len(o.entries) == 0 {
		heap.Remove(&r.byShare, o.index)
		delete(r.owners, o.name)
		return
	}
	r.rank(o)
}

func (r *room) rank(o *owner) {
	o.share = max(float64(len(o.entries))/float64(r.most), float64(o.size)/float64(r.maxSize))
	heap.Fix(&r.byShare, o.index)
}

// trim drops the oldest ended tasks until the rest is within the bounds of an owner, and of all.
func (r *room) trim(o *owner) {
	for len(o.entries) > r.mostPerOwner && r.dropFirst(&o.ended) {
	}
	for (r.count > r.most || r.size > r.maxSize) && len(r.byShare) > 0 && r.dropFirst(&r.byShare[0].ended) {
	}
	for r.size > r.maxSize { // the Store has failed, or is slow
		var largest *owner
		for _, o := range r.byShare {
			if o.unwritten.Len() > 0 && (largest == nil || o.size > largest.size) {
				largest = o
			}
		}
		if largest == nil || !r.dropFirst(&largest.unwritten) {
			return
		}
	}
}

func (r *room) dropFirst(l *list.List) bool {
	first := l.Front()
	if first == nil {
		return false
	}
	r.drop(first.Value.(*entry))
	return true
}
