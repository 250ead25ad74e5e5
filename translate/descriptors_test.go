package translate_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// A list with descriptors reads each of them once, is one call in reports, and reads none above the limit.
func TestListWithDescriptors(t *testing.T) {
	p := providertest.Start(t)
	descriptors := []object{
		descriptor("acme/a", nil), descriptor("acme/b", object{"access": "private"}), descriptor("acme/c", nil),
	}
	p.Publish(descriptors...)
	p.On("GET /skills/2.json", providertest.Answer(500, "{}"))
	r := new(recorder)
	bridge := newBridgeWith(t, r, p.Source(t, "acme"))
	list := func(principal string, most int) translate.Listing {
		return bridge.List(t.Context(), translate.Query{Caller: run.Caller{Principal: principal}, Descriptors: most})
	}
	if l := list("", 1); len(l.Skills) != 2 || l.Skills[0].Descriptor != nil || !l.FreshUntil.After(time.Now()) {
		t.Errorf("above the limit: %+v", l)
	}
	p.Received(t, "GET /skills/0.json", 0)
	for range 2 {
		l := list("", 2)
		if len(l.Skills) != 2 || l.Skills[0].Title != "A skill" || l.Skills[0].Descriptor == nil || l.Skills[0].Descriptor.ID != "acme/a" || l.Skills[1].Descriptor != nil {
			t.Fatalf("within the limit: %+v", l)
		}
	}
	if l := list("alice", 3); len(l.Skills) != 3 || !l.Skills[1].Hidden || l.Skills[0].Hidden || l.Skills[1].Descriptor.ID != "acme/b" {
		t.Errorf("for a principal: %+v", l)
	}
	p.Received(t, "GET /skills/0.json", 1)
	p.Received(t, "GET /skills/1.json", 1)
	if len(r.calls) != 4 || r.calls[3].Operation != translate.OperationList || r.calls[3].Listed != 3 {
		t.Errorf("reports: %+v", r.calls)
	}
	p.On("GET /.well-known/skill-sharing", providertest.Answer(500, "{}"))
	if l := newBridge(t, p.Source(t, "acme")).List(t.Context(), translate.Query{}); !l.FreshUntil.IsZero() {
		t.Errorf("of an index that can't be read: %+v", l)
	}
}

// hangingDescriptors answers requests for the index at once, and others never.
type hangingDescriptors struct{ index []byte }

func (h hangingDescriptors) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path != "/.well-known/skill-sharing" {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return jsonResponse(h.index), nil
}

// A list waits for descriptors that stall for some seconds together, however many there are, and the next lists almost not at all.
func TestListIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bridge, end := offlineBridge(t, hangingDescriptors{indexOf(100)})
		defer end()
		for i, want := range []time.Duration{3 * time.Second, 250 * time.Millisecond, 250 * time.Millisecond} {
			start := time.Now()
			l := bridge.List(context.Background(), translate.Query{Descriptors: 200})
			if took := time.Since(start); took != want || len(l.Skills) != 100 || l.Skills[0].Descriptor != nil {
				t.Errorf("list %d: %d skills after %s", i, len(l.Skills), took)
			}
		}
		time.Sleep(time.Hour) // what is being read goes on, and ends
		start := time.Now()
		if bridge.List(context.Background(), translate.Query{Descriptors: 200}); time.Since(start) != 3*time.Second {
			t.Errorf("an hour later: %s", time.Since(start))
		}
		time.Sleep(time.Hour)
	})
}

// indexOf returns an index of n skills.
func indexOf(n int) []byte {
	text := []byte(`{"protocol":{"version":"1.0.0"},"provider":{"name":"P"},"skills":[`)
	for i := range n {
		if i > 0 {
			text = append(text, ',')
		}
		text = fmt.Appendf(text, `{"id":"p/s%d","name":"S","capability_type":"api","description":"d","descriptor_url":"https://p.example/%d.json","access":"public","version":"1.0.0"}`, i, i)
	}
	return append(text, "]}"...)
}
