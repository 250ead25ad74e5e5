package mcp

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/listeners"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// composing is how much memory it takes to make the notification of a task, as a multiple of the output of its run: the output, the
// result, which has it twice, while its buffer grows, and the task.
const composing = 6

// AwaitTask implements [listeners.Feed].
func (s *subscription) AwaitTask(ctx context.Context, index int) jsontext.Value {
	room := &listeners.Room{PatientBudget: s.request.Room()}
	return room.Read(ctx, func() jsontext.Value { return s.readTask(ctx, index, room) })
}

// readTask waits for the end of a task and returns the params of its notification, which the room counts. It returns nil if there is
// no memory for them, or if the task goes on: then the room needs nothing.
func (s *subscription) readTask(ctx context.Context, index int, room *listeners.Room) jsontext.Value {
	r, t := s.request, s.tasks[index]
	caller := r.caller
	caller.Arrived = time.Now()
	execution := r.front.Bridge.Resume(ctx, t.Ref, translate.Call{Caller: caller, Detached: true, Answer: room})
	outcome := execution.Wait()
	own := *r
	own.Request, own.room = new(jsonrpc.Request), room
	switch f := outcome.Failure; {
	case ctx.Err() == nil && f != nil && errors.Is(f.Cause, exchange.ErrNoRoom):
		failure := noRoom(&own, &outcome, int(room.Needed))
		if failure == nil || !failure.Lost {
			return nil
		}
		outcome = run.Run{Ref: outcome.Ref, State: outcome.State, Failure: failure} // there will never be room
	case ctx.Err() != nil, isOpen(&outcome):
		room.Needed = 0
		return nil
	}
	size := int64(len(outcome.Output))
	_, most := room.AnswerLimit()
	if !room.Reserve(min(composing*size, max(most/2, size))) { // one caller has at most half
		return nil
	}
	status, _, task := ofRun(&own, t.ID, &t.Ref, execution.Skill(), &outcome)
	if status == wire.TaskWorking { // there is no room for the result
		return nil
	}
	params := s.withID(task)
	room.Least = 0
	if !room.Reserve(int64(cap(params))) {
		return nil
	}
	return params
}
