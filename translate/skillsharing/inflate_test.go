package skillsharing_test

import (
	"bytes"
	"compress/gzip"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// gzipped compresses a text in steps, each of which ends a block; an empty one is a
// member of its own.
func gzipped(t *testing.T, steps ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range steps {
		_, err := w.Write([]byte(step))
		check(err)
		if step == "" {
			check(w.Close())
			w.Reset(&b)
		}
		check(w.Flush())
	}
	check(w.Close())
	return b.String()
}

// hollow compresses nothing, to a number of blocks.
func hollow(blocks int) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	for range blocks {
		_ = w.Flush() // a bytes.Buffer takes everything
	}
	_ = w.Close()
	return b.String()
}

func TestCompressedAnswers(t *testing.T) {
	random := make([]byte, 300<<10)
	for i := range random {
		random[i] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"[rand.IntN(64)]
	}
	dense := `{"execution_id":"r","status":"completed","output":"` + string(random) + `"}`
	const size = 320 << 10
	for name, test := range map[string]struct {
		body string
		want string // in the message; empty: completed
	}{
		"at once":                    {gzipped(t, dense), ""},
		"a block for a few bytes":    {gzipped(t, chunks(dense, 100)...), ""},
		"a block for each byte":      {gzipped(t, chunks(dense[:20<<10]+`"}`, 1)...), ""},
		"a block for two bytes":      {gzipped(t, chunks(dense[:40<<10]+`"}`, 2)...), ""},
		"many members":               {gzipped(t, chunks(dense, 100)...) + strings.Repeat(gzipped(t), 1000), ""},
		"members without content":    {strings.Repeat(gzipped(t), 10_000), "larger than its content"},
		"blocks without content":     {hollow(60_000), "larger than its content"},
		"more than may be on a wire": {gzipped(t, dense, strings.Repeat(" ", 2<<20)), "(max_response_size)"},
		"nothing":                    {"", "without"},
	} {
		p := newProvider(t)
		p.on("POST /run", answers(200, test.body, "Content-Encoding", "gzip"))
		c := newClient(t, p.URL, newTransport(t))
		c.MaxResponseSize = size
		r, e, _ := submit(t.Context(), c, skillAt(t, p.URL))
		switch {
		case test.want == "" && (e != nil || len(r.Output) < 19<<10):
			t.Errorf("%s: %v", name, e)
		case test.want != "" && (e == nil || e.Kind != run.ProviderFault || !strings.Contains(e.Message, test.want)):
			t.Errorf("%s: %v", name, e)
		}
	}
}

// chunks cuts a text into pieces of n bytes.
func chunks(text string, n int) (all []string) {
	for len(text) > n {
		all, text = append(all, text[:n]), text[n:]
	}
	return append(all, text)
}

// What decompressing takes is used again, after good bodies and bad ones.
func TestInflatersAreReused(t *testing.T) {
	p := newProvider(t)
	c := newClient(t, p.URL, newTransport(t))
	for i := range 50 {
		want := strconv.Itoa(i)
		p.on("POST /run", answers(200, gzipped(t, `{"execution_id":"r","status":"completed","output":`+want+`}`), "Content-Encoding", "gzip"))
		if r, e, _ := submit(t.Context(), c, skillAt(t, p.URL)); e != nil || string(r.Output) != want {
			t.Fatalf("%d: %v", i, e)
		}
		p.on("POST /run", answers(200, "no gzip", "Content-Encoding", "gzip"))
		if _, e, _ := submit(t.Context(), c, skillAt(t, p.URL)); e == nil {
			t.Fatal("something was read of no gzip")
		}
	}
}
