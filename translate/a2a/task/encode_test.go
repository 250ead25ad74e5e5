package task_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// notesOptions are those of notes.
var notesOptions = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true))

// sameAsJSON compares what package json decodes of the notes of a task with what it decodes of its own JSON.
func sameAsJSON(t *testing.T, of *task.Task) {
	t.Helper()
	got := task.Encode(of)
	want, err := json.Marshal(of, notesOptions)
	if err != nil {
		t.Fatal(err)
	}
	var fromGot, fromWant task.Task
	if err := json.Unmarshal(got, &fromGot, notesOptions); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	if err := json.Unmarshal(want, &fromWant, notesOptions); err != nil {
		t.Fatal(err)
	}
	if got, want = canonical(t, &fromGot), canonical(t, &fromWant); string(got) != string(want) {
		t.Errorf("%s\nof package json: %s", got, want)
	}
}

func canonical(t *testing.T, of *task.Task) jsontext.Value {
	t.Helper()
	text, err := json.Marshal(of, notesOptions)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// fill gives all fields of a value other values than zero, below depth many pointers, slices and structs. Fields that are not encoded are left out.
func fill(v reflect.Value, text string) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Date(2026, 11, 23, 14, 30, 0, 120_000_000, time.FixedZone("", 19800))))
		return
	case jsontext.Value:
		v.Set(reflect.ValueOf(jsontext.Value(` { "a" : [ 1.0e2, "\u0041 b" , null ] , "a" : {} } `)))
		return
	case *ledger.Entry, ledger.Owner, run.Ref:
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(-1 << 50)
	case reflect.Uint64:
		v.SetUint(1<<64 - 1)
	case reflect.Uint8:
		v.SetUint(255)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2)) // the second element stays zero
		fill(v.Index(0), text)
	case reflect.Struct:
		for field, of := range v.Fields() {
			if field.IsExported() {
				fill(of, text)
			}
		}
	default:
		panic(v.Type())
	}
}

func TestEncodeIsJSON(t *testing.T) {
	sameAsJSON(t, new(task.Task))
	full := new(task.Task)
	fill(reflect.ValueOf(full).Elem(), "a \"b\" <&> \u2028 \x00 \x7f \xff é 𝄞")
	sameAsJSON(t, full)
	for field, v := range reflect.ValueOf(full).Elem().Fields() { // each field alone
		if field.IsExported() {
			one := new(task.Task)
			reflect.ValueOf(one).Elem().FieldByIndex(field.Index).Set(v)
			sameAsJSON(t, one)
		}
	}
	for _, v := range []string{`"a b\\"`, `{"a b":"\" ","c":[1,"\u0020"]}`, `{"a b": 1}`, "[1,\n2]", "\t1", "1\r", "null", `"\ud800"`, "\"\xff\"", "\"\u00a0\u2028\""} {
		sameAsJSON(t, &task.Task{Inputs: jsontext.Value(v)})
	}
}

func BenchmarkEncode(b *testing.B) {
	at := time.Date(2026, 11, 23, 14, 30, 0, 123_456_789, time.UTC)
	t := &task.Task{
		Context: "01997a5c-7b2a-7000-8000-000000000001", OutputType: "application/json", Deadline: at,
		History: []task.Message{{ID: "req-000042", Role: task.User, Parts: make([]task.Part, 1), Metadata: jsontext.Value(`{"skillId":"bench.now"}`)}}, Event: 4,
		Status: task.Status{State: task.Completed, At: at},
	}
	for _, p := range []*task.Part{&t.History[0].Parts[0]} {
		p.Kind, p.Data = 2, jsontext.Value(`{"location":"Tokyo","days":5}`)
	}
	for b.Loop() {
		task.Encode(t)
	}
}
