package translate

import (
	"net/url"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
)

// A page of fresh lists reads nothing, so that the limit of a source's runs does not apply, and takes few allocations for each source.
func TestPageFromMemory(t *testing.T) {
	const sources = 50
	all := make([]catalog.Source, sources)
	for i := range all {
		all[i] = catalog.Source{
			Namespace: "s" + strings.Repeat("x", i), URL: &url.URL{Scheme: "https", Host: strings.Repeat("x", i+1) + ".example.com"},
			Transport: benchProvider{1}, Partition: strings.Repeat("0", 64),
		}
	}
	bridge := newBenchBridgeTo(t, all)
	page := func() Listing { return bridge.List(t.Context(), Query{ByName: true, Limit: 10}) }
	if l := page(); len(l.Unavailable) > 0 {
		t.Fatal(l.Unavailable[0].Failure)
	}
	for i := range bridge.sources {
		bridge.sources[i].most = 1
		if !bridge.sources[i].acquire() {
			t.Fatal("no run is in progress")
		}
	}
	if l := page(); len(l.Unavailable) > 0 || l.Read != sources || len(l.Skills) != 10 || l.FreshUntil.IsZero() {
		t.Errorf("%+v", l)
	}
	if n := testing.AllocsPerRun(10, func() { page() }); n > 3*sources && !raceDetector {
		t.Errorf("%v allocations for %d sources", n, sources)
	}
}
