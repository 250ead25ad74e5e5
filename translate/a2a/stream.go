package a2a

import (
	"cmp"
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/tasks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

const (
	// roomWait is the time that a stream waits for memory for an event.
	roomWait = 10 * time.Second
	// maxOwnEvent bounds the events and answers that each request encodes for itself, in bytes. Requests share longer ones.
	maxOwnEvent = 4 << 10
)

// enterStream counts a stream, or returns the failure if too many are open.
func (f *Front) enterStream(principal string) (leave func(), full *run.Failure) {
	o := &f.Options
	stream := &share.Part{Pool: f.Streams, Owner: f.Owner(principal).Realm + "\n" + principal, Most: int64(cmp.Or(o.Streams, math.MaxInt)), OfOne: int64(o.StreamsOfOne)}
	if stream.Set(1) {
		return func() { stream.Set(0) }, nil
	}
	return nil, &run.Failure{
		Kind: run.RateLimited, Phase: run.PhaseInvoke, By: run.Bridge, Executed: run.ExecutedNo,
		Message: "Too many streams are open here: end one, or ask without a stream.",
		Limit:   &run.Limit{Name: "keep", Max: int64(o.StreamsOfOne)}, Retry: run.RetryIn(5*time.Second, 5),
	}
}

// subscribe answers SubscribeToTask and tasks/resubscribe.
func subscribe(r *request) (jsontext.Value, *jsonrpc.Error) {
	f := r.front
	t, q, fault := r.query()
	if fault != nil {
		return r.fail(fault)
	}
	if r.IsNotification() {
		return nil, nil
	}
	if t.Status.State.Terminal() {
		if r.version == wire.V01 {
			return nil, r.replay(t)
		}
		return r.fail(unsupported(r.version, "the task has ended ("+t.Status.State.String()+"); read it with "+wire.GetMethod(r.version)))
	}
	return nil, r.stream(t, f.Feed(t), q.HistoryLength, task.State.Terminal)
}

// replay streams the artifact and the last status of a task that has ended.
func (r *request) replay(t *task.Task) *jsonrpc.Error {
	s := r.Stream()
	if s == nil {
		return unsupported(r.version, "a stream needs a request of its own")
	}
	r.Release()
	if t.Artifact != nil {
		number := t.Told - 1 // the status follows the artifact
		if ok, fault := sendEvent(r, number, wire.Event{Task: t, Version: r.version, Kind: wire.ArtifactEvent}); !ok {
			return fault
		}
	}
	if _, fault := sendEvent(r, t.Told, wire.Event{Task: t, Version: r.version, Kind: wire.FinalStatus}); fault != nil {
		_ = s.Error(fault) // it is the last event
	}
	return nil
}

// stream sends a task and then its events, until ends reports true for the state of one. In 0.1, it does not send the task.
func (r *request) stream(t *task.Task, versions *tasks.Feed, historyLength *int, ends func(task.State) bool) *jsonrpc.Error {
	f := r.front
	defer versions.Close()
	s := r.Stream()
	if s == nil {
		return unsupported(r.version, "a stream needs a request of its own")
	}
	r.Release()
	f.observer().Streaming(1)
	defer f.observer().Streaming(-1)
	s.EndBy(time.Now().Add(maxStream + lastEvent))
	if r.version != wire.V01 {
		if ok, fault := sendEvent(r, t.Event, wire.TaskEvent(r.version, t, wire.WholeTask, historyLength)); !ok {
			return fault
		}
	} else if s.KeepAlive() != nil { // it sends the HTTP header at once: some clients wait only seconds for it
		return nil
	}
	if ends(t.Status.State) {
		if r.version != wire.V10 { // these clients wait for a final event
			_, _ = sendEvent(r, t.Event, wire.Event{Task: t, Version: r.version, Kind: wire.FinalStatus}) // it is the last
		}
		return nil
	}
	var stopping <-chan struct{}
	if f.Stopping != nil {
		stopping = f.Stopping.Done()
	}
	pause := time.NewTicker(keepAlive)
	defer pause.Stop()
	longest := time.NewTimer(maxStream)
	defer longest.Stop()
	exiting := f.Exiting
	told := t.Told
	for {
		select {
		case <-versions.Woken:
			news, more := versions.Take()
			for _, e := range news {
				now, err := r.read(e)
				if err != nil {
					_ = s.Error(r.taskError(t.ID, err)) // it is the last event
					return nil
				}
				if ok := tell(r, now, told, ends); !ok {
					return nil
				}
				t, told = now, now.Told
			}
			if !more || exiting == nil && f.Exiting != nil && t.Status.State.Interrupted() {
				return nil
			}
		case <-pause.C:
			if s.KeepAlive() != nil {
				return nil
			}
		case <-exiting:
			if exiting = nil; !f.Ledger.Follows(t.Entry) {
				return nil
			}
		case <-longest.C:
			return nil
		case <-r.ctx.Done():
			return nil
		case <-stopping:
			return nil
		}
	}
}

// tell sends the events of a version that follow one. It reports whether the stream goes on.
func tell(r *request, now *task.Task, told uint64, ends func(task.State) bool) bool {
	for _, u := range now.Updates(told) {
		if r.task != nil {
			r.task = u.Task
		}
		last := !u.Artifact && ends(u.Task.Status.State)
		if u.Artifact { // its text is that of the version, which all streams have: they share it
			u.Task = now
		}
		ok, fault := sendEvent(r, u.Number, wire.UpdateEvent(r.version, &u, last))
		if fault != nil {
			_ = r.Stream().Error(fault) // it is the last event
		}
		if !ok || last {
			return false
		}
	}
	return true
}

// streamStatus is the HTTP status of an error before the first event of a stream in A2A 1.0 (section 5.4): clients would take
// a 200 for an empty stream.
func streamStatus(code int) int {
	if code == wire.CodeTaskNotFound {
		return http.StatusNotFound
	}
	return http.StatusBadRequest
}

// sendEvent sends an event, and waits for memory for it if it is long. It reports whether the stream goes on. If there is no memory,
// it returns the error.
func sendEvent(r *request, number uint64, e wire.Event) (ok bool, fault *jsonrpc.Error) {
	s, size := r.Stream(), e.Size()
	if size <= maxOwnEvent {
		return s.Result(number, e.AppendTo(nil)) == nil, nil
	}
	if r.room != nil { // the text is counted instead; else those who have read outputs would wait for each other
		r.room.Release()
	}
	err := r.front.events.Send(r.ctx, s, roomWait, number, e, size, e.AppendTo)
	if errors.Is(err, jsonrpc.ErrNoRoom) {
		return false, noRoom(r, "the task "+e.Task.ID)
	}
	return err == nil, nil
}
