package translate_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// prepared is a preparation by functions, which counts its calls.
type prepared struct {
	inputs  func(s *translate.Skill) (string, *run.Failure)
	invoke  func(s *translate.Skill) *run.Failure
	invoked int
}

func (p *prepared) Inputs(_ context.Context, s *translate.Skill) (jsonrpc.Object, *run.Failure) {
	text, failure := p.inputs(s)
	return jsonrpc.Object{Text: jsontext.Value(text)}, failure
}

func (p *prepared) Invoke(_ context.Context, s *translate.Skill) *run.Failure {
	p.invoked++
	if p.invoke == nil {
		return nil
	}
	return p.invoke(s)
}

func gives(text string) func(*translate.Skill) (string, *run.Failure) {
	return func(*translate.Skill) (string, *run.Failure) { return text, nil }
}

func TestPreparation(t *testing.T) {
	p, s := weather(t, func(*providertest.Provider) object {
		return object{"inputs": []any{
			object{"name": "city", "type": "string", "description": "A city.", "required": true},
			object{"name": "days", "type": "integer", "description": "How many.", "required": true},
			object{"name": "unit", "type": "string", "description": "Which.", "required": true, "default": "c"},
		}}
	})
	p.On("POST /run/weather", isCompleted)
	const valid = `{"days":1,"city":"Tokyo"}`
	start := time.Now()
	front := &prepared{}
	front.inputs = func(s *translate.Skill) (string, *run.Failure) {
		if s.Name != skillName || s.Ref.Source != "acme" || s.Ref.SkillID != "acme/weather" || s.Ref.Version != "1.2.3" || s.Ref.ExecutionID != "" || s.Descriptor.Name != "A skill" {
			t.Errorf("%+v", s)
		}
		if left := s.Deadline.Sub(start); left < 39*time.Second || left > 60*time.Second {
			t.Errorf("it ends in %v, want the maximum", left)
		}
		for given, want := range map[string]struct{ missing, invalid string }{
			``: {"city days", ""}, `{"days":1}`: {"city", ""}, valid: {"", ""}, `{"days":"1"}`: {"city", "/days"}, `[]`: {"city days", "args"},
		} {
			missing, invalid := s.Check(jsonrpc.Object{Text: jsontext.Value(given)})
			where := ""
			if invalid != nil {
				where = invalid.Argument.Pointer
				if invalid.Argument.Field == run.FieldInputs {
					where = "args"
				}
			}
			if got := strings.Join(missing, " "); got != want.missing || where != want.invalid {
				t.Errorf("%s: missing %q, invalid %q", given, got, where)
			}
		}
		p.Received(t, "POST /run/weather", 0)
		return valid, nil
	}
	front.invoke = func(*translate.Skill) *run.Failure {
		p.Received(t, "POST /run/weather", 0)
		return nil
	}
	o := newBridge(t, s).Start(t.Context(), translate.Call{Name: skillName, Patient: true, Prepare: front}).Wait()
	if o.Failure != nil || o.State != run.Completed || front.invoked != 1 {
		t.Fatalf("%+v, %+v, invoked %d times", o, o.Failure, front.invoked)
	}
	if sent := p.Requests("POST /run/weather"); len(sent) != 1 || !strings.Contains(sent[0].Body, valid) {
		t.Errorf("%+v", sent)
	}
}

// Without a timeout of the agent or the descriptor, a patient call has the maximum.
func TestPatience(t *testing.T) {
	for about, c := range map[string]struct {
		descriptor any
		call       translate.Call
		want       time.Duration
	}{
		"the default":      {nil, translate.Call{}, 20 * time.Second},
		"the maximum":      {nil, translate.Call{Patient: true}, 40 * time.Second},
		"the descriptor's": {5000, translate.Call{Patient: true}, 5 * time.Second},
		"the agent's":      {5000, translate.Call{Patient: true, Timeout: 7 * time.Second}, 7 * time.Second},
	} {
		_, s := weather(t, func(*providertest.Provider) object { return object{"endpoint": object{"timeout_ms": c.descriptor}} })
		stop := &run.Failure{Kind: run.Internal, Message: "enough"}
		c.call.Name, c.call.Arrived = skillName, time.Now()
		c.call.Prepare = &prepared{inputs: func(s *translate.Skill) (string, *run.Failure) {
			if got := s.Deadline.Sub(c.call.Arrived); got != c.want {
				t.Errorf("%s: %v, want %v", about, got, c.want)
			}
			return "", stop
		}}
		if o := newBridge(t, s).Start(t.Context(), c.call).Wait(); o.Failure != stop {
			t.Errorf("%s: %+v", about, o.Failure)
		}
	}
}

// Nothing is sent after a failure of the preparation, and nothing is prepared for a call that can't be sent.
func TestPreparationFails(t *testing.T) {
	why := errors.New("why")
	own := &run.Failure{Kind: run.Internal, Executed: run.ExecutedNo, Cause: why}
	for about, c := range map[string]struct {
		front   prepared
		name    string
		kind    run.Kind
		invoked int
	}{
		"no inputs":           {front: prepared{inputs: func(*translate.Skill) (string, *run.Failure) { return "", own }}, kind: run.Internal},
		"no record":           {front: prepared{inputs: gives(`{"city":"x"}`), invoke: func(*translate.Skill) *run.Failure { return own }}, kind: run.Internal, invoked: 1},
		"missing inputs":      {front: prepared{inputs: gives("")}, kind: run.InvalidArguments},
		"invalid inputs":      {front: prepared{inputs: gives(`{"city":1}`)}, kind: run.InvalidArguments},
		"no such skill":       {front: prepared{inputs: func(*translate.Skill) (string, *run.Failure) { panic("no skill") }}, name: "acme.other", kind: run.SkillNotFound},
		"checked but changed": {front: prepared{inputs: changesItsMind}, kind: run.InvalidArguments},
	} {
		t.Run(about, func(t *testing.T) {
			p, s := weather(t, nil)
			p.On("POST /run/weather", providertest.Answer(202, providertest.Response("e1", "accepted", nil)))
			p.On("GET /status/e1", providertest.Answer(200, providertest.Response("e1", "running", nil)))
			b := newBridge(t, s)
			name := skillName
			if c.name != "" {
				name = c.name
			}
			o := b.Start(t.Context(), translate.Call{Name: name, Prepare: &c.front}).Wait()
			if o.Failure == nil || o.Failure.Kind != c.kind || o.State != 0 || o.Failure.Executed != run.ExecutedNo || c.front.invoked != c.invoked {
				t.Errorf("%+v, %+v, invoked %d times", o, o.Failure, c.front.invoked)
			}
			if c.kind == run.Internal && !errors.Is(o.Failure.Cause, why) {
				t.Errorf("%+v", o.Failure)
			}
			p.Received(t, "POST /run/weather", 0)
			if calls, waiting := b.InProgress(); calls != 0 || waiting != 0 {
				t.Errorf("%d calls, %d wait", calls, waiting)
			}
		})
	}
}

// changesItsMind returns other inputs than those that it has checked.
func changesItsMind(s *translate.Skill) (string, *run.Failure) {
	if missing, invalid := s.Check(jsonrpc.Object{Text: jsontext.Value(`{"city":"x"}`)}); missing != nil || invalid != nil {
		return "", &run.Failure{}
	}
	return `{"city":7  }`, nil
}

// Inputs that the preparation has checked are not checked again: the checks of a call share one bound.
func TestPreparationChecksOnce(t *testing.T) {
	p, s := weather(t, func(*providertest.Provider) object {
		return object{"inputs": []any{object{"name": "city", "type": "string", "description": "A city.", "required": true, "schema": object{"maxLength": 20_000_000}}}}
	})
	p.On("POST /run/weather", isCompleted)
	text := jsontext.Value(`{"city":"` + strings.Repeat("x", 12_000_000) + `"}`)
	for checks, kind := range map[int]run.Kind{0: 0, 1: 0, 2: run.InvalidArguments} {
		b := newBridge(t, s)
		o := b.Start(t.Context(), translate.Call{Name: skillName, Prepare: inputsOnly(func(s *translate.Skill) (jsonrpc.Object, *run.Failure) {
			var failure *run.Failure
			for range checks {
				_, failure = s.Check(jsonrpc.Object{Text: text})
			}
			return jsonrpc.Object{Text: text}, failure
		})}).Wait()
		if kind == 0 && o.Failure != nil || kind != 0 && (o.Failure == nil || o.Failure.Kind != kind || o.Failure.Argument.Reason != run.OverLimit) {
			t.Errorf("%d checks: %+v", checks, o.Failure)
		}
	}
}

// inputsOnly is a preparation that only sets the inputs.
type inputsOnly func(s *translate.Skill) (jsonrpc.Object, *run.Failure)

func (f inputsOnly) Inputs(_ context.Context, s *translate.Skill) (jsonrpc.Object, *run.Failure) {
	return f(s)
}

func (inputsOnly) Invoke(context.Context, *translate.Skill) *run.Failure { return nil }
