package mcp

import (
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// progressEvery is the time between two notifications of progress.
const progressEvery = time.Second

// progress reports the progress of a run to the client.
type progress struct {
	request *request
	stream  *jsonrpc.Stream
	token   jsontext.Value
	begun   bool
	last    int64 // milliseconds that were reported
}

// progressStream returns the stream for the progress of a call; nil: its token is none or too long, or the client can't read streams.
func (r *request) progressStream() *jsonrpc.Stream {
	token := r.meta.ProgressToken
	isWhole := token.Kind() == '0' && !strings.ContainsAny(string(token), ".eE")
	if token.Kind() != '"' && !isWhole || len(token) > jsonrpc.MaxStreamID || !acceptsStream(r) {
		return nil
	}
	return r.Stream()
}

func newProgress(r *request, stream *jsonrpc.Stream) *progress {
	return &progress{request: r, stream: stream, token: r.meta.ProgressToken.Clone()}
}

// watch waits for the end of a run. The stream begins when the run is accepted, unless it completes at once.
func (p *progress) watch(execution translate.Execution) run.Run {
	states := make(chan run.Run)
	var panicked any
	go func() {
		defer close(states)
		defer func() { panicked = recover() }()
		for state := range execution.Watch() {
			states <- state
		}
	}()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	var newest run.Run
	var told run.State
	for {
		select {
		case state, more := <-states:
			if !more {
				if panicked != nil {
					panic(panicked) // of the goroutine that answers, which reports it
				}
				return newest
			}
			if newest = state; state.GoesOn() && state.State > told { // a poll may say again what was told
				told = state.State
				p.notify(told)
			}
		case <-tick.C:
			if p.begun {
				p.notify(told)
			}
		}
	}
}

// notify reports the seconds since the call arrived, which only rise.
func (p *progress) notify(state run.State) {
	if !p.begun {
		p.begun = true
		if report := p.request.front.Streaming; report != nil {
			report(1)
		}
	}
	now := max(time.Since(p.request.caller.Arrived).Milliseconds(), p.last+1)
	p.last = now
	var w front.Writer
	w.Open()
	w.Raw("progressToken", p.token)
	w.Name("progress")
	w.Buf = strconv.AppendFloat(w.Buf, float64(now)/1000, 'f', -1, 64)
	w.Text("message", state.String())
	w.Close()
	_ = p.stream.Notify("notifications/progress", w.Buf) // an error means that the client is gone, which ends the call
}

// end ends the stream.
func (p *progress) end() {
	if report := p.request.front.Streaming; report != nil {
		report(-1)
	}
}
