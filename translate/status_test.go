package translate_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
)

func TestPurge(t *testing.T) {
	p, s := weather(t, nil)
	p.on("POST /run/weather", answerJSON(200, response("e", "completed", object{"output": 1})))
	bridge := newBridge(t, s)
	execute := func(indexes, descriptors int) {
		t.Helper()
		if o := bridge.Execute(t.Context(), call(`{"city":"x"}`)); o.Failure != nil {
			t.Fatal(o.Failure.Err)
		}
		p.received(t, "GET /.well-known/skill-sharing", indexes)
		p.received(t, "GET /skills/0.json", descriptors)
	}
	execute(1, 1)
	execute(1, 1)
	if !bridge.Purge("acme", "acme/weather") || bridge.Purge("acme", "acme/none") || bridge.Purge("other", "") {
		t.Error("purged what is not there, or not what is")
	}
	execute(1, 2)
	if !bridge.Purge("acme", "") {
		t.Error("not purged")
	}
	execute(2, 3)
}

func TestInProgress(t *testing.T) {
	p, s := weather(t, nil)
	stop := new(translate.Stop)
	config := bridgeConfig(t, nil, s)
	config.Stop = stop
	bridge, err := translate.New(config)
	if err != nil {
		t.Fatal(err)
	}
	p.on("POST /run/weather", answerJSON(202, response("e1", "accepted", nil)))
	p.on("GET /status/e1", func(w http.ResponseWriter, r *http.Request) {
		list, total := stop.InProgress(10)
		if total != 1 || len(list) != 1 || list[0].Name != skillName || list[0].Run.ExecutionID != "e1" || list[0].Principal != "ada" || time.Since(list[0].Arrived) > time.Minute {
			t.Errorf("in progress: %+v", list)
		}
		if list, total := stop.InProgress(0); len(list) != 0 || total != 1 {
			t.Error("more than wanted")
		}
		if calls, waiting := bridge.InProgress(); calls != 1 || waiting != 1 || bridge.Sources()[0].Runs != 1 {
			t.Errorf("%d calls, %d waiting, %+v", calls, waiting, bridge.Sources())
		}
		answerJSON(200, response("e1", "completed", object{"output": 1}))(w, r)
	})
	c := call(`{"city":"x"}`)
	c.Principal = "ada"
	if o := bridge.Execute(t.Context(), c); o.Failure != nil {
		t.Fatal(o.Failure.Err)
	}
	calls, waiting := bridge.InProgress()
	if _, total := stop.InProgress(10); calls+waiting != 0 || total != 0 {
		t.Errorf("%d calls, %d waiting, %d in progress after the end", calls, waiting, total)
	}
}

// What is wrong with a skill is known until it is tried again, however short failures
// are remembered.
func TestInventoryKeepsFaults(t *testing.T) {
	p, s := weather(t, nil)
	bridge := newBridge(t, s)
	fault := func() *translate.Failure {
		t.Helper()
		skills, unavailable := bridge.Inventory(t.Context())
		if len(skills) != 1 || len(unavailable) != 0 {
			t.Fatalf("%+v, %+v", skills, unavailable)
		}
		return skills[0].Fault
	}
	if fault() != nil {
		t.Errorf("before anybody tried: %+v", fault())
	}
	p.publish(p.descriptor("acme/weather", object{"protocol": object{"version": "9.0.0"}}))
	bridge.Execute(t.Context(), call(`{"city":"x"}`))
	if f := fault(); f == nil || f.Kind != translate.VersionIncompatible {
		t.Errorf("incompatible: %+v", f)
	}
	p.publish(p.descriptor("acme/weather", nil))
	bridge.Purge("acme", "acme/weather")
	bridge.Execute(t.Context(), call(`{"city":"x"}`))
	if f := fault(); f != nil {
		t.Errorf("mended: %+v", f)
	}
}
