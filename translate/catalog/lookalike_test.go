package catalog

import (
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

func TestLookAlikes(t *testing.T) {
	acme, corp, self := &Section{Source: Source{Namespace: "acme"}}, &Section{Source: Source{Namespace: "my.Corp-1"}}, &Section{Source: Source{Namespace: "self"}}
	var l lookAlikes
	for _, s := range []*Section{acme, corp, self} {
		l.add(s)
	}
	for id, want := range map[string]*Section{
		// Cyrillic, Greek, Cherokee, full width, mathematical letters; other dots and slashes.
		"\u0430cme/pay": acme, "acm\u0435.pay": acme, "\u0430\u0441m\u0435/pay": acme, "\u0410\u0421\u041c\u0415/pay": acme, "\uff41\uff43\uff4d\uff45/pay": acme,
		"\U0001d41acme.pay": acme, "acme\u2024pay": acme, "acme\u2215pay": acme, "acme\uff0fpay": acme, "acme\uff0epay": acme, "A\u0421ME.pay": acme,
		"\u13df\u13dfcme.pay": nil, "m\u0443.corp-1/x": corp, "my.\u0421orp-1/x": corp, "my\u2024Corp-1/x": corp, "my.corp-\u04cf/x": corp, "my.corp\u20101/x": corp,
		"s\u0435lf/x": nil, // looks like the namespace of the source itself
		// Texts that look like no other, and ASCII.
		"acme": nil, "\u0430cme": nil, "acme/\u0430": nil, "acrne/\u65e5\u672c": nil, "ACME/pay": nil, "acm\u00e9/pay": nil, "\u00e1cme/pay": nil,
		"\u65e5\u672c\u8a9e/\u5929\u6c17": nil, "\u0442\u0435\u0441\u0442/\u043f\u043e\u0433\u043e\u0434\u0430": nil, "x/\u0430cme/pay": nil, "my/\u0430": nil, "": nil, "/": nil, "\u0430": nil,
		strings.Repeat("\u0430", 500): nil, strings.Repeat("\u0430.", 250): nil, strings.Repeat("\ufdfa", 170): nil,
	} {
		if got := l.imitated(self, id); got != want {
			t.Errorf("%+q: %v, want %v", id, got, want)
		}
	}
	if new(lookAlikes).imitated(self, "\u0430/x") != nil {
		t.Error("there are no namespaces")
	}
}

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

// Checking the ids of the longest index of the slowest ids takes less time than reading the index.
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
	start := time.Now()
	for _, id := range s.ids {
		c.unusable(c.sections[0], id)
	}
	if d := time.Since(start); d > 3*time.Second {
		t.Errorf("%s", d)
	} else {
		t.Log(d)
	}
}
