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

// TestS367LargeTokens: what a server chooses the size of takes bounded memory: of tokens that are very large, fewer are known.
func TestS367LargeTokens(t *testing.T) {
	var sent tokens.Sent
	token := func(i int) string { return strings.Repeat("x", 1<<20) + strconv.Itoa(10_000+i) }
	const most = 32
	for i := range 3 * most {
		sent.Add(token(i))
	}
	for i, known := range map[int]bool{0: false, 3*most - 1: true, 2*most + 1: true} {
		if found := sent.Find([]byte(token(i))); len(found) > 0 != known {
			t.Errorf("token %d: known %t", i, !known)
		}
	}
}

// TestSentOfUsualSize: the secrets that were sent last are known, also if they are so many and so large that both bounds are reached.
func TestSentOfUsualSize(t *testing.T) {
	var sent tokens.Sent
	token := func(i int) string { return strings.Repeat("x", 1900) + strconv.Itoa(100_000+i) }
	const all = 18_000
	for i := range all {
		sent.Add(token(i))
	}
	for _, i := range []int{all - 1, all - 1000, 3000} {
		if len(sent.Find([]byte(token(i)))) == 0 {
			t.Errorf("token %d of %d is not known", i, all)
		}
	}
}
