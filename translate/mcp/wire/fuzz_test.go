package wire_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
)

// FuzzCursor: a cursor is that of one name in one list, and no other text stands for it.
func FuzzCursor(f *testing.F) {
	for _, cursor := range []string{wire.NewCursor("t", "acme_echo"), wire.NewCursor("r", "acme_echo"), "", "dDE6", "dDE6YQ", "dDE6YQ=", "dDE6YR", "\n", strings.Repeat("A", 1000)} {
		f.Add(cursor)
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		after, ok := wire.ParseCursor("t", cursor)
		if !ok {
			return
		}
		if wire.NewCursor("t", after) != cursor || len(after) > 64 || after == "" {
			t.Errorf("%q is the cursor after %q", cursor, after)
		}
		if _, other := wire.ParseCursor("r", cursor); other {
			t.Errorf("%q is a cursor of two lists", cursor)
		}
	})
}

// FuzzDecodeField: a field repeats what it says.
func FuzzDecodeField(f *testing.F) {
	for _, said := range []string{"eu", "=?base64?ZXU=?=", "=?base64?", "1"} {
		f.Add(said)
	}
	f.Fuzz(func(t *testing.T, said string) {
		h := http.Header{"Mcp-Name": {said}}
		if decoded, ok := wire.DecodeField(wire.Trim(said)); ok && !strings.HasPrefix(decoded, "=?") && wire.Repeats(h, "Mcp-Name", decoded) != ok {
			t.Errorf("%q does not repeat %q", said, decoded)
		}
	})
}
