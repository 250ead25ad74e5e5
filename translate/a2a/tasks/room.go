package tasks

import (
	"cmp"
	"container/heap"
	"container/list"
	"slices"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
)

// room bounds the tasks in memory by number and size. If there are too many, the owner with the largest share of those with a task
// that may be dropped has to make room: first by its oldest ended tasks, and then by its oldest ones that wait for a message. So the
// tasks of an owner, of whatever state, do not push out those of owners with a smaller share. What is in the Store is read
// from there when it is asked for. Without a Store it is lost.
//
// Runs that go on are not dropped. Open tasks take at most three quarters of the memory, so that an output always finds room, and
// those of one owner at most half of that (see crowd), so that other owners always find room, too.
type room struct {
	most, mostPerOwner int
	maxSize            int64
	storing            bool // there is a Store

	owners   map[string]*owner
	byShare  byShare
	dropped  []*entry // waiting ones, whose subscriptions have to be ended
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
	// ended and interrupted are the tasks that may be dropped, the oldest first: they are in the Store, if there is one. The
	// unwritten ones have ended, too, but have to be stored first.
	ended, interrupted, unwritten list.List
	share                         float64
	index                         int // in byShare
}

// place is the state of an entry in the room. The lock of the memory protects it.
type place struct {
	state   task.State // 0: the entry is not in the room
	size    int64
	changed time.Time
	foreign bool // changed was set by the clock of another instance
	held    bool // the entry is not dropped, since it is being changed
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
	if a, b := h[i].first() != nil, h[j].first() != nil; a != b {
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

// first returns the task of an owner that is dropped first; nil: none may be.
func (o *owner) first() *entry {
	for _, l := range [...]*list.List{&o.ended, &o.interrupted} {
		if element := l.Front(); element != nil {
			return element.Value.(*entry)
		}
	}
	return nil
}

// insert adds a new entry, if there is a place.
func (r *room) insert(e *entry, t *task.Task, p place) error {
	size := task.Size(t)
	if !t.Status.State.Terminal() {
		if size > r.maxTask() || !r.clear(e.owner, 1, size, 0) {
			return ErrFull
		}
	}
	o := r.owners[e.owner]
	if o == nil {
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
	r.settle(e, o, t.Status.State, size)
	return nil
}

// clear makes room for further open tasks of an owner, or for a larger one: tasks that wait for a message give way. It reports
// whether there is room. Without this, an anonymous caller could send a thousand unclear messages, so that no other
// anonymous caller could make a task. A reserve is a part of the memory in addition.
func (r *room) clear(name string, more int, size, reserve int64) bool {
	for {
		o := r.owners[name]
		if o == nil {
			o = &owner{name: name}
		}
		var from []*owner
		if o.open+more > r.mostPerOwner {
			from = []*owner{o}
		} else if from = r.crowd(o, int64(more), int64(r.open), int64(r.most)+1, func(o *owner) int64 { return int64(o.open) }); from == nil {
			from = r.crowd(o, size, r.openSize, r.maxSize/4*3+reserve, func(o *owner) int64 { return o.openSize })
		}
		if from == nil {
			return true
		}
		if len(from) == 1 && !r.storing { // its waiting tasks would be lost
			return false
		}
		var largest *owner
		for _, o := range from {
			if o.interrupted.Len() > 0 && (largest == nil || o.share > largest.share) {
				largest = o
			}
		}
		if largest == nil {
			return false
		}
		r.drop(largest.interrupted.Front().Value.(*entry))
	}
}

// crowd returns the owners who would take too much of a bound if one of them took more; nil: there is room. The n owners that take
// most may take n/(n+1) of the bound together, for each n. So one owner gets a half, and whatever n owners take, there is room
// for the next one. An owner who takes at most 1/(n(n+1)), where n owners take something, is never refused because of others.
func (r *room) crowd(o *owner, more, total, bound int64, taken func(*owner) int64) []*owner {
	if more <= 0 || total+more <= bound/2 {
		return nil
	}
	own := taken(o) + more
	most, less := []*owner{o}, []*owner(nil)
	sum := own
	for _, other := range r.byShare {
		switch takes := taken(other); {
		case other == o || takes == 0:
		case takes >= own:
			most = append(most, other)
			sum += takes
		default:
			less = append(less, other)
		}
	}
	slices.SortFunc(less, func(a, b *owner) int { return cmp.Compare(taken(b), taken(a)) })
	for {
		if n := int64(len(most)); sum > bound/(n+1)*n+bound%(n+1)*n/(n+1) {
			return most
		}
		if len(less) == 0 {
			return nil
		}
		most, sum, less = append(most, less[0]), sum+taken(less[0]), less[1:]
	}
}

// maxTask bounds the size of an open task, because each message to it writes a record of this size.
func (r *room) maxTask() int64 { return max(r.maxSize/64, min(4<<20, r.maxSize/4)) }

// grows makes room for a version that is larger than the one before. The end of a task always has room: after it the task may be
// dropped.
func (r *room) grows(e *entry, t *task.Task, size int64) error {
	more := size - e.place.size
	if t.Status.State.Terminal() || more <= 0 {
		return nil
	}
	reserve := int64(0)
	if more <= 4<<10 && !sends(e.now, t) {
		reserve = r.maxSize / 8 // for the changes of runs
	}
	if size > r.maxTask() || !r.clear(e.owner, 0, more, reserve) {
		return ErrFull
	}
	return nil
}

// sends reports whether a new version has a further message or webhook of the client.
func sends(now, t *task.Task) bool {
	return len(t.Push) > len(now.Push) ||
		slices.ContainsFunc(t.History[min(len(now.History), len(t.History)):], func(m task.Message) bool { return m.Role == task.User })
}

// settle changes the state and size of an entry in the room, and makes room for it.
func (r *room) settle(e *entry, o *owner, state task.State, size int64) {
	held := e.place.held
	e.place.held = true // others are dropped
	r.put(e, o, state, size)
	r.trim(o)
	if !held {
		e.place.held = false
		r.enlist(e, o)
	}
}

// put changes the state and size of an entry in the room.
func (r *room) put(e *entry, o *owner, state task.State, size int64) {
	p := &e.place
	r.take(e, o)
	p.state, p.size = state, size
	r.states[state]++
	r.size += size
	o.size += size
	if !state.Terminal() {
		r.open++
		o.open++
		r.openSize += size
		o.openSize += size
	}
	r.enlist(e, o)
}

// enlist adds an entry to the list of those that may be dropped in its state.
func (r *room) enlist(e *entry, o *owner) {
	p := &e.place
	switch {
	case p.held:
	case p.state.Interrupted() && p.stored:
		p.in = &o.interrupted
	case p.state.Terminal() && p.stored:
		p.in = &o.ended
	case p.state.Terminal():
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
	if e.place.state.Interrupted() {
		r.dropped = append(r.dropped, e)
	}
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

// trim drops tasks until the rest is within the bounds of an owner, and of all.
func (r *room) trim(o *owner) {
	for len(o.entries) > r.mostPerOwner && o.ended.Len() > 0 {
		r.drop(o.first())
	}
	for (r.count > r.most || r.size > r.maxSize) && len(r.byShare) > 0 {
		first := r.byShare[0].first()
		if first == nil {
			break
		}
		r.drop(first)
	}
	for r.size > r.maxSize { // the Store has failed, or is slow
		var largest *owner
		for _, o := range r.byShare {
			if o.unwritten.Len() > 0 && (largest == nil || o.size > largest.size) {
				largest = o
			}
		}
		if largest == nil {
			return
		}
		r.drop(largest.unwritten.Front().Value.(*entry))
	}
}
