package run_test

import (
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Ids increase, and tell their time. Other forms of the same UUID, and other UUIDs, are no ids.
func TestIDs(t *testing.T) {
	var ids run.IDs
	now, last := time.Now(), ""
	for range 1000 {
		id := ids.Next(now)
		if made, ok := run.TimeOfID(id); !ok || made.Sub(now).Abs() > time.Second || id <= last {
			t.Fatalf("%s after %s was made at %s, %t", id, last, made, ok)
		}
		last = id
	}
	last = "018f0000-0000-7000-8000-00000000000a"
	for _, id := range []string{
		"", "x", strings.ToUpper(last), "{" + last + "}", "urn:uuid:" + last, strings.ReplaceAll(last, "-", ""), last + " ",
		"018f0000-0000-4000-8000-00000000000a", strings.Replace(last, "-", "0", 1),
	} {
		if made, ok := run.TimeOfID(id); ok {
			t.Errorf("%q was made at %s", id, made)
		}
	}
}
