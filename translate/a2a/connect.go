package a2a

import (
	"context"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// A task whose skill needs an account of the user waits in the ledger until the user has connected one. It goes on at the instance that hears of that from
// the page. If that instance ends before, those who look at the task find out.

// mostGoOn is how many tasks of a principal go on at the same time.
const mostGoOn = 16

// Granted goes on with the tasks of a principal whose user has connected an account.
func (f *Front) Granted(ctx context.Context, principal string) {
	q := &ledger.LabelQuery{Owner: f.Owner(principal), State: uint8(task.AuthRequired), Limit: maxWaiting, Bytes: maxPage}
	var group panics.Group
	group.SetLimit(mostGoOn)
	for more := true; more; {
		page, err := f.Ledger.Labelled(ctx, q)
		if err != nil {
			break
		}
		for _, e := range page.Entries {
			group.Go(func() {
				if t, err := task.FromEntry(e, nil); err == nil && f.isConnected(ctx, t) {
					f.goOn(ctx, t)
				}
			})
		}
		more, q.After, q.AfterID = page.More, page.NextAt, page.NextID
	}
	group.Wait()
}

// look goes on with a task in the background if it waits for an account that is connected.
func (f *Front) look(ctx context.Context, t *task.Task) {
	if f.isConnected(ctx, t) {
		ctx = context.WithoutCancel(ctx)
		go func() {
			if bug := panics.Recovered(func() { f.goOn(ctx, t) }); bug != nil {
				f.Panicked(ctx, bug, nil)
			}
		}()
	}
}

// isConnected reports whether a task waits for an account that is connected.
func (f *Front) isConnected(ctx context.Context, t *task.Task) bool {
	link := t.ConnectURL()
	if link == "" {
		return false
	}
	return f.Bridge.Connected(ctx, translate.Call{Caller: run.Caller{Principal: t.Owner.Principal}, Name: t.Skill, Scopes: run.LinkScopes(link)})
}

// goOn tries again to execute the skill of a task, or to follow its run, as a message of the client would, until the ledger follows the run or it has ended.
func (f *Front) goOn(ctx context.Context, t *task.Task) {
	r := &request{
		Request: new(jsonrpc.Request), front: f, ctx: ctx, version: wire.V10, method: new(method), reported: true,
		caller: run.Caller{Principal: t.Owner.Principal, TraceID: translate.NewTraceID(), Front: Name, Method: ledger.MethodFollow},
	}
	s := &submission{
		front: f, request: r, task: t, chosen: selection{name: t.Skill}, made: make(chan struct{}), ended: make(chan struct{}), full: make(chan struct{}),
	}
	s.newest.Store(t)
	s.Go(translate.WithCaller(ctx, r.caller), f.Panicked, s.execute, s.finish)
	s.Detach()
	<-s.ended
}
