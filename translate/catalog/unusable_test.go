package catalog

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

func TestPrintable(t *testing.T) {
	for _, id := range []string{"a", "a b", "a~", "\u65e5\u672c", "caf\u00e9", "cafe\u0301", "\u05e9\u05dc\u05d5\u05dd", "\u2713", "\U0001f600", "\ufffd"} {
		if !safetext.Printable(id) {
			t.Errorf("%+q is left out", id)
		}
	}
	for _, id := range []string{
		"\n", "a\x00", "a\x7f", "\u0085", "\u00a0", "\u00ad", "\u034f", "\u061c", "\u115f", "\u180e", "\u200b", "\u200d", "\u200e", "\u2028", "\u2029",
		"\u202a", "\u202e", "\u2060", "\u2066", "\u2069", "\u206f", "\u2800", "\u3000", "\u3164", "\ue000", "\ufe0f", "\ufeff", "\uffa0", "\ufff9", "\U000e0001", "\U000e0100", "\U0010ffff",
	} {
		if safetext.Printable("a" + id) {
			t.Errorf("%+q is listed", id)
		}
	}
}

// Checking the ids of the longest index of the slowest ids takes about as long as reading the index. The bound is far above that, since other work on the
// machine may meet one of the two only.
func TestHostileIDsAreCheap(t *testing.T) {
	s := &indexProvider{namespace: "evil"}
	for i := range 7000 { // of 4 MiB
		id := []byte(strings.Repeat([]string{"\u0430.", "\ufdfa.", "\u0430\u0430", "a./"}[i%4], 120))
		for n := i; n > 0; n /= 26 {
			id = append(id, byte('a'+n%26))
		}
		s.ids = append(s.ids, string(id))
	}
	longest := &indexProvider{namespace: strings.Repeat("a.", 120) + "a"}
	c := catalogOf(t, s, longest)
	answer, err := s.RoundTrip(httptest.NewRequest(http.MethodGet, "https://evil.example", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	index, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	const most = 8                               // times as long
	reading, checking := time.Hour, 10*time.Hour // the least of all trials: whatever else the machine does only adds to it
	for trial := 0; trial < 10 && checking > most*reading; trial++ {
		start := time.Now()
		if _, err := document.ParseIndex(index); err != nil {
			t.Fatal(err)
		}
		reading = min(reading, time.Since(start))
		start = time.Now()
		for _, id := range s.ids {
			c.unusable(c.sections[0], id)
		}
		checking = min(checking, time.Since(start))
	}
	t.Logf("%s, and %s for reading", checking, reading)
	if checking > most*reading {
		t.Errorf("checking the ids takes %s, reading the index %s", checking, reading)
	}
}
