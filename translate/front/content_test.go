package front_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

// The content of a file is written as long as it says, whatever characters it has, and is the same when it is read.
func TestContent(t *testing.T) {
	for _, file := range []string{"", "a", "# PDF\n\ttext\r\n", `"quoted" \ and /`, "\b\f\v\x01\x1b\x7f", "ä€😀\u2028", "\x00", "\xff\xfe", "a\x00\xff", strings.Repeat("\"\n", 1000)} {
		c := front.ContentOf([]byte(file))
		var w front.Writer
		w.Open()
		w.Content("x", c)
		w.Close()
		var read struct{ X string }
		if err := json.Unmarshal(w.Buf, &read); err != nil {
			t.Fatalf("%q: %v", file, err)
		}
		if !c.IsText {
			raw, err := base64.StdEncoding.DecodeString(read.X)
			if err != nil {
				t.Fatalf("%q: %v", file, err)
			}
			read.X = string(raw)
		}
		if read.X != file || len(w.Buf) != len(`{"x":}`)+c.Size {
			t.Errorf("%q: %q, %d bytes instead of %d", file, read.X, len(w.Buf), c.Size)
		}
	}
}

// A large file costs the memory of its answer, once. With the race detector, slices.Grow takes twice as much.
func TestContentIsNotCopied(t *testing.T) {
	for about, file := range map[string][]byte{"text": bytes.Repeat([]byte("\"text\"\n"), 1<<18), "bytes": bytes.Repeat([]byte{0, 1, 2, 3}, 1<<18)} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c := front.ContentOf(file)
		var w front.Writer
		w.Open()
		w.Content("content", c)
		w.Text("more", "x")
		w.Close()
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > uint64(2*c.Size+c.Size/8) {
			t.Errorf("%s: %d bytes for %d", about, got, c.Size)
		}
	}
}
