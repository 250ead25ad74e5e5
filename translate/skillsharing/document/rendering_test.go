package document_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

type form int

// A text is made once for each form, however many ask for it at a time, and equal texts share their memory.
func TestRendering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &document.Descriptor{Description: "x"}
		var made atomic.Int32
		texts := make([]jsontext.Value, 60)
		var done sync.WaitGroup
		for i := range texts {
			done.Go(func() {
				texts[i], _ = d.Rendering(context.Background(), form(i%3), func() jsontext.Value {
					made.Add(1)
					time.Sleep(time.Second)
					return jsontext.Value(`{"a":1}`)
				})
			})
		}
		done.Wait()
		for i := range texts {
			if &texts[i][0] != &texts[0][0] {
				t.Fatalf("%d has memory of its own", i)
			}
		}
		if made.Load() != 3 {
			t.Errorf("%d texts were made", made.Load())
		}
	})
}

// A descriptor keeps as much text as it stands for itself, and of few forms; what is not kept is made again.
func TestRenderingsAreBounded(t *testing.T) {
	d := &document.Descriptor{Description: strings.Repeat("x", 10_000)}
	made := 0
	text := func(f form, size int) {
		t.Helper()
		if got, err := d.Rendering(t.Context(), f, func() jsontext.Value {
			made++
			return jsontext.Value(strings.Repeat(fmt.Sprint(f%10), size))
		}); err != nil || len(got) != size || got[0] != '0'+byte(f%10) {
			t.Fatalf("%.20s, %v", got, err)
		}
	}
	for range 3 {
		text(1, 30_000) // more than twice what it is made of
		text(2, 20_000)
		text(3, 20_000)
	}
	if made != 7 {
		t.Errorf("%d texts were made", made)
	}
	for range 2 {
		for f := range form(50) {
			text(10+f, 1)
		}
	}
	if made < 7+50+30 {
		t.Errorf("%d texts were made", made)
	}
}

// No text is made for a client that has gone, nor does it wait for its turn.
func TestRenderingForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		block := make(chan struct{})
		var done sync.WaitGroup
		for range 64 { // more than may be made at a time
			done.Go(func() {
				_, _ = new(document.Descriptor).Rendering(context.Background(), form(0), func() jsontext.Value { <-block; return nil })
			})
		}
		synctest.Wait()
		d := new(document.Descriptor)
		never := func() jsontext.Value { t.Error("a text was made"); return nil }
		done.Go(func() {
			if _, err := d.Rendering(ctx, form(0), never); err == nil {
				t.Error("there is a text")
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(block)
		done.Wait()
		if _, err := d.Rendering(ctx, form(0), never); err == nil {
			t.Error("there is a text")
		}
		_, _ = d.Rendering(context.Background(), form(0), func() jsontext.Value { return jsontext.Value("1") })
		if _, err := d.Rendering(ctx, form(0), never); err == nil {
			t.Error("there is a text for a client that has gone")
		}
	})
}
