package near

import (
	"strings"
	"testing"
)

func TestLookAlikes(t *testing.T) {
	const acme, corp, self = "acme", "my.Corp-1", "self"
	var l LookAlikes
	for _, namespace := range []string{acme, corp, self} {
		l.Add(namespace)
	}
	for id, want := range map[string]string{
		// Cyrillic, Greek, Cherokee, full width, mathematical letters; other dots and slashes.
		"\u0430cme/pay": acme, "acm\u0435.pay": acme, "\u0430\u0441m\u0435/pay": acme, "\u0410\u0421\u041c\u0415/pay": acme, "\uff41\uff43\uff4d\uff45/pay": acme,
		"\U0001d41acme.pay": acme, "acme\u2024pay": acme, "acme\u2215pay": acme, "acme\uff0fpay": acme, "acme\uff0epay": acme, "A\u0421ME.pay": acme,
		"\u13df\u13dfcme.pay": "", "m\u0443.corp-1/x": corp, "my.\u0421orp-1/x": corp, "my\u2024Corp-1/x": corp, "my.corp-\u04cf/x": corp, "my.corp\u20101/x": corp,
		"s\u0435lf/x": "", // looks like the namespace of the source itself
		// Texts that look like no other, and ASCII.
		"acme": "", "\u0430cme": "", "acme/\u0430": "", "acrne/\u65e5\u672c": "", "ACME/pay": "", "acm\u00e9/pay": "", "\u00e1cme/pay": "",
		"\u65e5\u672c\u8a9e/\u5929\u6c17": "", "\u0442\u0435\u0441\u0442/\u043f\u043e\u0433\u043e\u0434\u0430": "", "x/\u0430cme/pay": "", "my/\u0430": "", "": "", "/": "", "\u0430": "",
		strings.Repeat("\u0430", 500): "", strings.Repeat("\u0430.", 250): "", strings.Repeat("\ufdfa", 170): "",
	} {
		if got := l.Imitated(self, id); got != want {
			t.Errorf("%+q: %q, want %q", id, got, want)
		}
	}
	if new(LookAlikes).Imitated(self, "\u0430/x") != "" {
		t.Error("there are no namespaces")
	}
}
