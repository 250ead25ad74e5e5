package inputs

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema"
)

// What waits for a processor is what a request takes in all: an ordinary call never
// does, however many others are checked, and one more in a large batch does.
func TestChecksThatWait(t *testing.T) {
	limits := document.DefaultLimits()
	in, err := CompileInputs(&limits, []document.Parameter{{Name: "x", Type: "array", Schema: jsontext.Value(`{"items":{"type":"string","maxLength":20}}`)}})
	if err != nil {
		t.Fatal(err)
	}
	args := jsontext.Value(`{"x":[` + strings.Repeat(`"ten bytes.",`, 5000) + `1]}`) // 64 KiB
	var checks Checks
	judged := 0
	for checkWhileBusy(in, args, &checks) != nil {
		if judged++; judged == 100 {
			t.Fatal("100 calls of one request did not wait")
		}
	}
	if judged < 4 {
		t.Errorf("call %d of a request waited", judged+1)
	}
	e := checkUntil(time.Now().Add(time.Millisecond), in, jsontext.Value(`{"x":[`+strings.Repeat(`"ten bytes.",`, 80_000)+`1]}`))
	if e == nil || e.Kind != run.RateLimited || e.Executed != run.ExecutedNo || e.Argument != nil || e.By != run.Bridge || !strings.Contains(e.Message, "the bridge was busy") || e.Retry == nil {
		t.Errorf("%+v", e)
	}
}

// takeCheckTurns takes all turns of checks that take long, until release is called.
func takeCheckTurns() (release func()) {
	n := max(2, runtime.GOMAXPROCS(0)/2)
	for i := range n {
		checkTurns.Take(context.Background(), strconv.Itoa(i), share.Line{})
	}
	return func() {
		for i := range n {
			checkTurns.End(strconv.Itoa(i))
		}
	}
}

// checkWhileBusy checks arguments for a call that has been cancelled, while all processors for
// checks that take long are taken: only a check that does not wait for one finds a fault.
func checkWhileBusy(in *Inputs, args jsontext.Value, checks *Checks) *run.Failure {
	defer takeCheckTurns()()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return in.Check(ctx, share.Line{}, jsonrpc.Object{Text: args}, checks)
}

// checkUntil checks arguments while all processors for checks that take long are taken.
func checkUntil(deadline time.Time, in *Inputs, args jsontext.Value) *run.Failure {
	defer takeCheckTurns()()
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	return in.Check(ctx, share.Line{}, jsonrpc.Object{Text: args}, new(Checks))
}

// That a schema was given up for others does not make a request dearer: its checks are
// judged as those of a request that came before.
func TestCompilingAgainIsFree(t *testing.T) {
	limits := document.DefaultLimits()
	limits.Schemas = schema.NewSchemas(8 << 20)
	compile := func(nth int) *Inputs {
		t.Helper()
		schema := fmt.Sprintf(`{"type":"string","title":"%d","pattern":"^(%s){1,20}$"}`, nth, strings.Repeat("[a-z]x", 40))
		in, err := CompileInputs(&limits, []document.Parameter{{Name: "a", Type: "string", Schema: []byte(schema)}})
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	in := compile(0)
	s := in.inputs[0].schema
	checked := func() int64 {
		t.Helper()
		var checks Checks
		if e := in.Check(t.Context(), share.Line{}, jsonrpc.Object{Text: []byte(`{"a":"x"}`)}, &checks); e == nil || e.Argument.Reason != "schema" {
			t.Fatalf("%v", e)
		}
		return checks.steps.Load()
	}
	before := checked()
	var others []*Inputs
	for s.Ready() != nil {
		others = append(others, compile(1+len(others)))
	}
	if after := checked(); after != before || s.Ready() == nil {
		t.Errorf("%d steps, before %d", after, before)
	}
	runtime.KeepAlive(others)
}
