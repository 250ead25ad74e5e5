package tokens_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials/tokens"
)

// TestSentWithOneEnd: of tokens that all end alike, as those of a hostile server may, a few are known, so that a text is searched for few.
func TestSentWithOneEnd(t *testing.T) {
	var sent tokens.Sent
	end := strings.Repeat("x", 32)
	const most = 16
	for i := range 10 * most {
		sent.Add(strconv.Itoa(1000+i) + end)
	}
	text := ""
	for i := range 10 * most {
		text += strconv.Itoa(1000+i) + end + " "
	}
	found := sent.Find([]byte(text))
	if len(found) != most || found[most-1] != strconv.Itoa(1000+10*most-1)+end {
		t.Errorf("found %d: %q", len(found), found)
	}
}
