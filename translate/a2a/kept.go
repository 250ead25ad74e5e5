package a2a

import (
	"errors"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// errTaken means that another message or call has changed a task first, perhaps at another instance.
var errTaken = errors.New("the task has been changed meanwhile")

// read returns the task of an entry with its artifact. If it is long and in the database only, the request has the memory for it until it is answered;
// without memory, the error is [run.ErrNoRoom].
func (r *request) read(e *ledger.Entry) (*task.Task, error) {
	return r.front.Read(r.ctx, e, func(size int64) bool {
		if r.room == nil && r.front.Server != nil {
			r.room = r.front.Server.Room(r.caller.Principal)
			r.OnAnswered(r.room.Release)
		}
		return r.room == nil || r.room.Reserve(size)
	})
}

// entry returns the entry of a task of the caller by its id, or by the id that a client of A2A 0.1 has chosen for it. In the methods of 0.1, the chosen id
// comes first: the client may have begun a new run under the id of an ended task of a later version.
func (r *request) entry(id string) (e *ledger.Entry, err error) {
	f, owner := r.front, r.front.Owner(r.caller.Principal)
	by := func() (*ledger.Entry, error) { return f.Ledger.Get(r.ctx, ledger.Identity{Owner: owner, ID: id}) }
	otherwise := func() (*ledger.Entry, error) { return f.Ledger.Named(r.ctx, owner, task.Key(id)) }
	if g := r.method.generation; g == methodsOf01 || g == shared {
		by, otherwise = otherwise, by
	}
	if e, err = by(); errors.Is(err, ledger.ErrNoEntry) {
		e, err = otherwise()
	}
	if err == nil && e.Front != task.Front {
		err = ledger.ErrNoEntry
	}
	if err == nil && e.State == ledger.Unknown {
		e, err = f.Given(e)
	}
	return e, err
}
